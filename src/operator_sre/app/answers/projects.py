"""Whether a project is ready: every problem at once, each with what shows it and what to do."""

from __future__ import annotations

import os
import shlex
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from operator_protocols.domain.category import ErrorCategory
from operator_protocols.domain.target import Target
from operator_protocols.errors import ConfigError, NotFoundError, OperatorError
from operator_sre.app.answers.texts import build_redactor, without_secrets
from operator_sre.app.project import FURTHER_CHECKS, line_of
from operator_sre.config.models import models_of
from operator_sre.config.service import service_of
from operator_sre.config.settings import FILE, POLICY_FILE, SETTINGS, TABLES
from operator_sre.config.subjects import SubjectConfig, subjects_of
from operator_sre.config.tables import SECRET, notices_of, triggers_of, unknown
from operator_sre.contract import evidence
from operator_sre.contract.evidence import next_after
from operator_sre.contract.messages import (
    ValidateAgentProjectRequest,
    ValidateAgentProjectResponse,
    ValidationIssue,
)
from operator_sre.plugins import find_plugin

if TYPE_CHECKING:
    from operator_sre.app.wiring import App

__all__ = ["CHECKS", "Project", "issue", "validate_project"]

DECLARATIVE = "declarative"
FILE_BYTES_MAX = 1_000_000
SECRET_KEYS = ("token_file", "hmac_file", "key_file")


@dataclass(frozen=True, slots=True)
class Project:
    """A folder with operator.toml, policy.yaml and subjects/, as far as it can be read."""

    folder: Path
    table: dict[str, Any]
    app: App
    subjects: list[SubjectConfig] = field(default_factory=list)

    @property
    def file(self) -> Path:
        """Its settings."""
        return self.folder / FILE


Check = Callable[[Project], Iterator[ValidationIssue]]


def validate_project(
    app: App, request: ValidateAgentProjectRequest
) -> ValidateAgentProjectResponse:
    """Whether the project in a folder is ready, and every reason why it is not."""
    folder = Path(request.project_dir or ".").expanduser().absolute()
    file, runtime = folder / FILE, ""
    try:
        if not folder.is_dir():
            raise ConfigError(
                f"{str(folder)!r} is not a directory.", next_step="Name the directory of a project."
            )
        if not file.exists():
            raise ConfigError(
                f"{str(folder)!r} has no {FILE}.", next_step="Create a project with: operator init"
            )
        try:
            with file.open("rb") as opened:
                table = tomllib.loads(opened.read(FILE_BYTES_MAX).decode("utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise ConfigError(f"{str(file)!r} cannot be read: {error}.") from error
        project = Project(folder, table, app)
    except OperatorError as error:
        issues = [issue(error, _again(folder))]
    else:
        checks = (*CHECKS, *FURTHER_CHECKS)
        issues = [problem for check in checks for problem in check(project)]
        # What its subjects are: described in files, or written in Python.
        plugins = {subject.plugin for subject in project.subjects}
        if plugins:
            runtime = DECLARATIVE if plugins == {DECLARATIVE} else "python"
    answer = ValidateAgentProjectResponse(
        ready=not issues, project_dir=str(folder), runtime=runtime, issues=tuple(issues)
    )
    return without_secrets(answer, build_redactor(app.config))


def issue(
    error: OperatorError, command: str, category: ErrorCategory | None = None
) -> ValidationIssue:
    """A problem with its category, one sentence, and the command that shows it again."""
    category = category or error.category
    return ValidationIssue(
        category=category,
        message=str(error),
        evidence_refs=(evidence.of_command(command, "check it again"),),
        next_action=next_after(category),
    )


def _check_settings(project: Project) -> Iterator[ValidationIssue]:
    for section in TABLES:
        if not isinstance(project.table.get(section, {}), dict):
            problem = ConfigError(f"{section!r} in {str(project.file)!r} must be a table.")
            yield issue(problem, _again(project.folder))
    known = {setting.name: setting for setting in SETTINGS}
    for name, value in project.table.items():
        if name in TABLES:
            continue
        try:
            if name not in known:
                line = line_of(project.file.read_text(encoding="utf-8"), name)
                raise unknown(name, [*known, *TABLES], f"{project.file}:{line}")
            if not isinstance(value, str | int | float) or isinstance(value, bool):
                raise ConfigError(
                    f"{name!r} in {str(project.file)!r} must be a number or a string."
                )
            known[name].parse(str(value))
        except ConfigError as error:
            yield issue(error, _again(project.folder))
        except ValueError as error:
            shown = "its value" if known[name].secret else repr(value)
            problem = ConfigError(f"{name!r} in {str(project.file)!r} is {shown}, and {error}.")
            yield issue(problem, _again(project.folder))


def _check_tables(project: Project) -> Iterator[ValidationIssue]:
    """Subjects and triggers separately, so that an invalid one hides no other.

    Notices, the service, models and the policy are checked as a whole.
    """
    from operator_sre.gate.policy.load import load_book

    file, again = project.file, _again(project.folder)
    for name, body in _each(project, "subjects"):
        try:
            (subject,) = subjects_of({name: body}, file)
            project.subjects.append(subject)
            plugin = find_plugin(subject.plugin)
            if subject.targets or plugin.targets is None:
                targets = subject.targets
            else:
                targets = tuple(plugin.targets(subject.options))
            settings = project.app.settings_of(subject.name, partial(tuple[Target, ...], targets))
            plugin.subject(replace(settings, options=subject.options))
        except NotFoundError as error:
            yield issue(error, "operator subjects list", ErrorCategory.DEPENDENCY_CONFLICT)
        except OperatorError as error:
            yield issue(error, again)
    for name, body in _each(project, "triggers"):
        try:
            triggers_of({name: body}, file)
        except OperatorError as error:
            yield issue(error, again)
    for name, read in (("notify", notices_of), ("service", service_of)):
        try:
            read(project.table.get(name, {}), file)
        except OperatorError as error:
            yield issue(error, again)
    try:
        models_of(project.table.get("models", {}), file, environ=os.environ, given=())
    except OperatorError as error:
        yield issue(error, again)
    named = project.table.get("policy")
    policy = project.folder / (named if isinstance(named, str) and named else POLICY_FILE)
    if not policy.exists() and not named:
        return
    try:
        load_book(policy)
    except OperatorError as error:
        yield issue(error, f"operator policy check {shlex.quote(str(policy))}")


def _check_secrets(project: Project) -> Iterator[ValidationIssue]:
    """Files that should hold a secret, and do not."""
    from operator_sre.app.secret_store import read_secret

    files: list[tuple[object, str]] = []
    for subject in project.subjects:
        for target in subject.targets:
            if access := target.access:
                owner = f"target {target.name!r} of {subject.name!r}"
                for named in (access.password_file, access.token_file, access.key_file):
                    files.append((named, owner))
    for name, body in (*_each(project, "triggers"), *_each(project, "models")):
        if isinstance(body, dict):
            files += [(body.get(key), repr(name)) for key in SECRET_KEYS]
    for file, owner in files:
        if not isinstance(file, str) or not file or file.startswith(SECRET):
            continue
        try:
            path = project.folder / Path(file).expanduser()
            missing = "" if read_secret(str(path)) else "the file is empty"
        except OperatorError as error:
            missing = error.message
        if missing:
            problem = ConfigError(
                f"The secret of {owner} is missing: {missing.rstrip('.')}.",
                next_step="Write the secret to that file, and make it readable by its owner only.",
            )
            category = ErrorCategory.MISSING_SECRET_BINDING
            yield issue(problem, _again(project.folder), category)


def _each(project: Project, section: str) -> list[tuple[str, Any]]:
    table = project.table.get(section, {})
    return list(table.items()) if isinstance(table, dict) else []


def _again(folder: Path) -> str:
    return f"operator validate {shlex.quote(str(folder))}"


# In their order: subjects are known to all that come behind them.
CHECKS: tuple[Check, ...] = (_check_settings, _check_tables, _check_secrets)
