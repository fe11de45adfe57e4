"""A project: a folder of settings, policy and subjects. Made by init, checked before it is used."""

from __future__ import annotations

import os
import shlex
import socket
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from operator_protocols.domain.category import ErrorCategory
from operator_protocols.errors import ConfigError, OperatorError, UsageError
from operator_sre.config import Config, load_config
from operator_sre.config.settings import FILE, POLICY_FILE
from operator_sre.config.tables import SECRET

if TYPE_CHECKING:
    from operator_sre.app.answers.projects import Project
    from operator_sre.contract.messages import ValidationIssue

__all__ = [
    "FURTHER_CHECKS",
    "Made",
    "docker_problem",
    "init_project",
    "issues",
    "line_of",
    "unreached",
]

IGNORED_FILE = ".gitignore"
SUBJECTS = "subjects"
EXAMPLE = "example"
REACHED_S_MAX = 1.0
DOCKER_S_MAX = 3.0
# What has an address that has to be there: settings, and environment variables of OpenTelemetry.
ADDRESSES = ("otlp_endpoint", "otlp", "api_url", "dashboard")
_TOML = """\
# What is in our care, and how. Every setting: operator config show
mode = "observe"        # observe proposes, approve asks a person, execute acts

# A subject is a system that is watched. Each has a description beside this file.
# Take the marks away, say in subjects/example.yaml what your system is, and try it:
#   operator subjects test subjects/example.yaml
#
# [subjects.example]
# plugin = "declarative"
# options = { file = "subjects/example.yaml" }
"""
_POLICY = """\
# What may run without a person, over the rules that are built in.
# What is built in: operator policy show    Whether this makes sense: operator policy check
version: 1
"""
_IGNORED = """\
# State and secrets stay where they are; `operator secrets` keeps secrets outside of the project.
*.key
*.db
*.db-*
.env
home/
"""


@dataclass(frozen=True, slots=True)
class Made:
    """What init wrote, in its order, and what it left as it was."""

    folder: str
    written: tuple[str, ...]
    kept: tuple[str, ...]


def init_project(directory: Path) -> Made:
    """Make a project folder. What is there is never overwritten; UsageError when it is a file."""
    from importlib.resources import files

    folder = directory.expanduser().absolute()
    if os.path.lexists(folder) and not folder.is_dir():
        raise UsageError(f"{str(folder)!r} is not a folder.", next_step="Name another.")
    example = (files("operator_sre.app") / "descriptions" / "web.yaml").read_text("utf-8")
    texts = {
        FILE: _TOML,
        POLICY_FILE: _POLICY,
        f"{SUBJECTS}/{EXAMPLE}.yaml": example.replace("@NAME@", EXAMPLE),
        IGNORED_FILE: _IGNORED,
    }
    written, kept = [], []
    try:
        (folder / SUBJECTS).mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            try:
                with (folder / name).open("x", encoding="utf-8") as file:
                    file.write(text)
                written.append(name)
            except FileExistsError:
                kept.append(name)
    except OSError as error:
        raise UsageError(
            f"A project cannot be made in {str(folder)!r}: {error.strerror}.",
            next_step="Name a folder that you may write.",
        ) from error
    return Made(str(folder), tuple(written), tuple(kept))


def issues(directory: Path, *, home: str | None = None) -> tuple[ValidationIssue, ...]:
    """Every problem of the project in a folder, at once; none when it is ready."""
    from operator_sre.app.answers.projects import validate_project
    from operator_sre.app.wiring import look_at_app
    from operator_sre.contract.messages import ValidateAgentProjectRequest

    # The settings of the machine: those of the folder are what is being asked about.
    config = load_config(flags={"home": home}, environ=os.environ, cwd=Path("/"))
    with look_at_app(config) as app:
        request = ValidateAgentProjectRequest(project_dir=str(directory))
        return tuple(validate_project(app, request).issues)


def line_of(text: str, key: str) -> int:
    """The line of a file on which a key is first set, or a table of that name opened; 0 if none."""
    for number, line in enumerate(text.splitlines(), start=1):
        bare = line.strip()
        name = bare.partition("=")[0].strip().strip("\"'")
        if ("=" in bare and name == key) or bare.strip("[]").split(".")[0] == key:
            return number
    return 0


def _held_secrets(project: Project) -> Iterator[ValidationIssue]:
    """Kept secrets that the project names, and that are not set or not bound to who needs them."""
    from operator_sre.app.answers.projects import issue

    for read, path in _readers(project):
        try:
            read(path)
        except OperatorError as error:
            yield issue(error, "operator secrets list", ErrorCategory.MISSING_SECRET_BINDING)


def _readers(project: Project) -> Iterator[tuple[Callable[[str], str], str]]:
    from operator_sre.app.secrets import model_key, secret_reader

    config = project.app.config
    for subject in project.subjects:
        read = secret_reader(config, subject.name)
        for target in subject.targets:
            access = target.access
            for path in (access.password_file, access.token_file) if access else ():
                if path.startswith(SECRET):
                    yield read, path
    models = project.table.get("models", {})
    for name, body in models.items() if isinstance(models, dict) else ():
        path = body.get("key_file", "") if isinstance(body, dict) else ""
        if isinstance(path, str) and path.startswith(SECRET):
            yield partial(_key, model_key, config, (name, str(body.get("provider", "")))), path


def _key(
    read: Callable[[Config, str, Sequence[str]], str],
    config: Config,
    names: Sequence[str],
    path: str,
) -> str:
    return read(config, path, names)


def _docker(project: Project) -> Iterator[ValidationIssue]:
    """Docker, where the project cannot do without."""
    from operator_sre.app.answers.projects import issue

    why = _needs_docker(project)
    if not why:
        return
    problem = docker_problem()
    if problem is not None:
        told = ConfigError(f"{why}, and {problem.message}", next_step=problem.next_step)
        yield issue(told, "operator doctor", ErrorCategory.DOCKER_UNAVAILABLE)


def _needs_docker(project: Project) -> str:
    if project.table.get("sandbox") == "docker":
        return "The setting sandbox is 'docker'"
    for subject in project.subjects:
        for target in subject.targets:
            if target.runs_at.startswith("docker:"):
                return f"Commands of {target.name!r} run in a container"
    return ""


def docker_problem() -> OperatorError | None:
    """Why Docker cannot be asked; None when it answers."""
    from asyncio import wait_for

    from operator_sre.executor.docker import Engine

    async def ask() -> None:
        await wait_for(Engine().ask("GET", "/_ping", timeout_s=DOCKER_S_MAX), DOCKER_S_MAX)

    try:
        _apart(ask)
    except OperatorError as error:
        return error
    except TimeoutError:
        return ConfigError("Docker does not answer.", next_step="Look with: docker info")
    return None


def _apart(ask: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a coroutine to its end in a thread: whoever asks may be inside of a loop already."""
    from asyncio import run
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(max_workers=1) as pool:
        pool.submit(lambda: run(ask())).result()


def _addresses(project: Project) -> Iterator[ValidationIssue]:
    """Where the project says that it is told about, and nobody listens."""
    from operator_sre.app.answers.projects import issue

    for name in ADDRESSES:
        told = project.table.get(name, "")
        if isinstance(told, str) and told and (why := unreached(told)):
            line = _line(project, name)
            error = ConfigError(
                f"{name!r} in {str(project.file)!r}{line} cannot be reached: {why}.",
                next_step="Start what listens there, or correct the address.",
            )
            again = f"operator validate {shlex.quote(str(project.folder))}"
            yield issue(error, again, ErrorCategory.DASHBOARD_UNAVAILABLE)


def unreached(address: str) -> str:
    """Why nobody is met at a URL or at host:port; "" when somebody listens."""
    try:
        url = urlsplit(address if "//" in address else f"//{address}")
        host, port = url.hostname or "", url.port or (443 if url.scheme == "https" else 80)
    except ValueError:
        return "it is no address"
    if not host:
        return "it is no address"
    try:
        with socket.create_connection((host, port), timeout=REACHED_S_MAX):
            return ""
    except OSError as error:
        return (error.strerror or "nobody answers").lower()


def _line(project: Project, key: str) -> str:
    try:
        number = line_of(project.file.read_text(encoding="utf-8"), key)
    except (OSError, UnicodeDecodeError):
        return ""
    return f", line {number}," if number else ""


def _locked(project: Project) -> Iterator[ValidationIssue]:
    """A project that was installed, and is not any more what was signed."""
    from operator_sre.app.answers.projects import issue
    from operator_sre.app.collecting import LOCK
    from operator_sre.app.packing import lock_problems

    if not (project.folder / LOCK).is_file():
        return
    again = f"operator validate {shlex.quote(str(project.folder))}"
    for category, message, step in lock_problems(project.folder):
        yield issue(ConfigError(message, next_step=step), again, category)


def _plain_secrets(project: Project) -> Iterator[ValidationIssue]:
    """Secrets in plain text in any file that would be packed."""
    from operator_sre.app.answers.projects import issue
    from operator_sre.app.collecting import collect, found_secrets

    again = f"operator validate {shlex.quote(str(project.folder))}"
    try:
        files = collect(project.folder, without=(project.app.config.home,))
    except OperatorError as error:
        yield issue(error, again, ErrorCategory.PACKAGE_VERIFICATION_FAILED)
        return
    for found in found_secrets(project.app.config, files):
        told = ConfigError(
            f"{project.folder / found.file}:{found.line} holds a secret ({found.kind}).",
            next_step="Take it out, and keep it with: operator secrets set NAME",
        )
        yield issue(told, again, ErrorCategory.SECRET_SCAN_FAILED)


# What is asked beyond the files themselves; subjects are known by then.
FURTHER_CHECKS = (_held_secrets, _plain_secrets, _docker, _locked, _addresses)
