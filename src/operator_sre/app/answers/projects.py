"""Whether a project is ready: every problem at once, each with what shows it and what to do."""

from __future__ import annotations

import os
import shlex
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from operator_protocols.domain.category import ErrorCategory
from operator_protocols.domain.target import Target
from operator_protocols.errors import ConfigError, NotFoundError, OperatorError
from operator_sre.app.answers.wording import redacting, without_secrets
from operator_sre.app.project import FURTHER_CHECKS, line_of
from operator_sre.config.notices import notices_of
from operator_sre.config.settings import FILE, POLICY_FILE, SETTINGS
from operator_sre.config.subjects import SubjectConfig, subjects_of
from operator_sre.config.tables import SECRET, unknown
from operator_sre.config.triggers import triggers_of
from operator_sre.contract import evidence
from operator_sre.contract.categories import next_after
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
TABLES = ("models", "notify", "subjects", "triggers")


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
    try:
        project = Project(folder, _table(folder), app)
    except OperatorError as error:
        issues: tuple[ValidationIssue, ...] = (issue(error, _again(folder)),)
        runtime = ""
    else:
        checks = (*CHECKS, *FURTHER_CHECKS)
        issues = tuple(found for check in checks for found in check(project))
        runtime = _runtime(project)
    answer = ValidateAgentProjectResponse(
        ready=not issues, project_dir=str(folder), runtime=runtime, issues=issues
    )
    return without_secrets(answer, redacting(app.config))


def issue(
    error: OperatorError, command: str, category: ErrorCategory | None = None
) -> ValidationIssue:
    """A problem as it is told: its category, one sentence, and the command that shows it again."""
    found = category or error.category
    return ValidationIssue(
        category=found,
        message=str(error),
        evidence_refs=(evidence.of_command(command, "this shows it again"),),
        next_action=next_after(found),
    )


def _table(folder: Path) -> dict[str, Any]:
    file = folder / FILE
    if not folder.is_dir():
        raise ConfigError(f"{str(folder)!r} is not a folder.", next_step="Name a project's folder.")
    if not file.exists():
        raise ConfigError(
            f"{str(folder)!r} has no {FILE}.", next_step="Make a project with: operator init"
        )
    try:
        with file.open("rb") as opened:
            return tomllib.loads(opened.read(FILE_BYTES_MAX).decode("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{str(file)!r} cannot be read: {error}.") from error


def _settings(project: Project) -> Iterator[ValidationIssue]:
    known = {setting.name: setting for setting in SETTINGS}
    for name, value in project.table.items():
        if name in TABLES:
            continue
        try:
            if name not in known:
                line = line_of(project.file.read_text(encoding="utf-8"), name)
                raise unknown(name, [*known, *TABLES], f"{project.file}:{line}")
            if not isinstance(value, str | int | float) or isinstance(value, bool):
                raise ConfigError(f"{name!r} in {str(project.file)!r} has to be a number or text.")
            known[name].parse(str(value))
        except ConfigError as error:
            yield issue(error, _again(project.folder))
        except ValueError as error:
            shown = "its value" if known[name].secret else repr(value)
            told = ConfigError(f"{name!r} in {str(project.file)!r} is {shown}, and {error}.")
            yield issue(told, _again(project.folder))


def _subjects(project: Project) -> Iterator[ValidationIssue]:
    """Each by itself, so that one which makes no sense hides no other."""
    for name, body in _each(project, "subjects"):
        try:
            (subject,) = subjects_of({name: body}, project.file)
            project.subjects.append(subject)
            plugin = find_plugin(subject.plugin)
            if subject.targets or plugin.targets is None:
                targets = subject.targets
            else:
                targets = tuple(plugin.targets(subject.options))
            settings = project.app.settings_of(subject.name, _always(targets))
            plugin.subject(replace(settings, options=subject.options))
        except NotFoundError as error:
            yield issue(error, "operator subjects list", ErrorCategory.DEPENDENCY_CONFLICT)
        except OperatorError as error:
            yield issue(error, _again(project.folder))


def _always(targets: Sequence[Target]) -> Callable[[], Sequence[Target]]:
    return lambda: targets


def _tables(project: Project) -> Iterator[ValidationIssue]:
    """Triggers one by one, notices and models as a whole."""
    for name, body in _each(project, "triggers"):
        try:
            triggers_of({name: body}, project.file)
        except OperatorError as error:
            yield issue(error, _again(project.folder))
    readers: tuple[tuple[str, Callable[[Any], object]], ...] = (
        ("notify", lambda table: notices_of(table, project.file)),
        ("models", lambda table: _models(table, project.file)),
    )
    for name, reader in readers:
        try:
            reader(project.table.get(name, {}))
        except OperatorError as error:
            yield issue(error, _again(project.folder))


def _models(table: Any, file: Path) -> object:
    from operator_sre.config.models import models_of

    return models_of(table, file, environ=os.environ, given=())


def _policy(project: Project) -> Iterator[ValidationIssue]:
    from operator_sre.gate.policy.load import load_book

    named = project.table.get("policy")
    file = project.folder / (named if isinstance(named, str) and named else POLICY_FILE)
    if not file.exists() and not named:
        return
    try:
        load_book(file)
    except OperatorError as error:
        yield issue(error, f"operator policy check {shlex.quote(str(file))}")


def _secrets(project: Project) -> Iterator[ValidationIssue]:
    """Files that should hold a secret, and do not."""
    from operator_sre.app.secrets import read_secret

    for file, owner in _secret_files(project):
        path = str(project.folder / Path(file).expanduser())
        try:
            missing = "" if read_secret(path) else "it is empty"
        except OperatorError as error:
            missing = error.message
        if missing:
            told = ConfigError(
                f"The secret of {owner} is not there: {missing.rstrip('.')}.",
                next_step="Write it into that file, for its owner only.",
            )
            category = ErrorCategory.MISSING_SECRET_BINDING
            yield issue(told, _again(project.folder), category)


def _secret_files(project: Project) -> Iterator[tuple[str, str]]:
    for subject in project.subjects:
        for target in subject.targets:
            access = target.access
            for file in (
                (access.password_file, access.token_file, access.key_file) if access else ()
            ):
                if file and not file.startswith(SECRET):
                    yield file, f"target {target.name!r} of {subject.name!r}"
    for name, body in (*_each(project, "triggers"), *_each(project, "models")):
        for key in ("token_file", "hmac_file", "key_file"):
            told = body.get(key) if isinstance(body, dict) else None
            if isinstance(told, str) and told and not told.startswith(SECRET):
                yield told, repr(name)


def _each(project: Project, section: str) -> list[tuple[str, Any]]:
    table = project.table.get(section, {})
    return list(table.items()) if isinstance(table, dict) else []


def _shapes(project: Project) -> Iterator[ValidationIssue]:
    for section in TABLES:
        if not isinstance(project.table.get(section, {}), dict):
            told = ConfigError(f"{section!r} in {str(project.file)!r} has to be a table.")
            yield issue(told, _again(project.folder))


def _runtime(project: Project) -> str:
    """What its subjects are: described in files, or written in Python."""
    plugins = {one.plugin for one in project.subjects}
    if not plugins:
        return ""
    return DECLARATIVE if plugins == {DECLARATIVE} else "python"


def _again(folder: Path) -> str:
    return f"operator validate {shlex.quote(str(folder))}"


# In their order: subjects are known to all that come behind them.
CHECKS: tuple[Check, ...] = (
    _shapes,
    _settings,
    _subjects,
    _tables,
    _policy,
    _secrets,
)
