"""A project: a folder of settings, policy and subjects. Made by init, collected, and checked."""

from __future__ import annotations

import os
import re
import shlex
import socket
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from operator_protocols.domain.category import ErrorCategory, NextAction
from operator_protocols.errors import ConfigError, OperatorError, UsageError
from operator_sre.config import Config, load_config
from operator_sre.config.settings import FILE, POLICY_FILE
from operator_sre.config.tables import SECRET

if TYPE_CHECKING:
    from operator_sre.app.answers.projects import Project
    from operator_sre.contract.messages import ValidationIssue

__all__ = [
    "FURTHER_CHECKS",
    "LOCK",
    "Collected",
    "FoundSecret",
    "Made",
    "collect",
    "docker_problem",
    "found_secrets",
    "init_project",
    "issues",
    "line_of",
    "refuse_secrets",
    "why_unreached",
]

IGNORED_FILE = ".gitignore"
SUBJECTS = "subjects"
EXAMPLE = "example"
REACHED_S_MAX = 1.0
DOCKER_S_MAX = 3.0
# What has an address that must be there: settings, and environment variables of OpenTelemetry.
ADDRESSES = ("otlp_endpoint", "otlp", "api_url", "dashboard")
# Metadata of a packed project; each packing writes it again.
LOCK = "operator.lock"
FILES_MAX = 2000
FILE_BYTES_MAX = 8 * 1024 * 1024
PROJECT_BYTES_MAX = 64 * 1024 * 1024
PATH_CHARACTERS_MAX = 240
TOLD_MAX = 20
_SKIPPED_FOLDERS = frozenset(
    {".git", ".hg", ".svn", ".venv", "venv", "__pycache__", "node_modules", ".mypy_cache"}
)
_SKIPPED_NAMES = re.compile(r".*\.(?:pyc|pyo|swp|db|db-wal|db-shm)|\.DS_Store|.*\.operator")
_KEY_NAMES = re.compile(
    r".*\.(?:key|p12|pfx|jks|kdbx|keystore)|id_(?:rsa|dsa|ecdsa|ed25519)|\.env(?:\..+)?|\.netrc"
    r"|\.pgpass|secrets\.box",
    re.IGNORECASE,
)

_TOML = """\
# Settings of Operator. List all: operator config show
mode = "observe"        # observe proposes, approve asks first, execute acts

# A subject is a system that Operator watches. Its description lies beside this file.
# Uncomment these lines, describe your system in subjects/example.yaml, and test it:
#   operator subjects test subjects/example.yaml
#
# [subjects.example]
# plugin = "declarative"
# options = { file = "subjects/example.yaml" }
"""
_POLICY = """\
# Rules that extend the built-in policy.
# Show the built-in policy: operator policy show    Check this file: operator policy check
version: 1
"""
_IGNORED = """\
# State and secrets are not committed; `operator secrets` keeps secrets outside the project.
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


@dataclass(frozen=True, slots=True)
class Collected:
    """One file of a project: its path with slashes, what is in it, and whether it is a program."""

    path: str
    data: bytes = field(repr=False)
    executable: bool = False


@dataclass(frozen=True, slots=True)
class FoundSecret:
    """Where a file holds a secret, and of which kind; not what it is."""

    file: str
    line: int
    kind: str


def init_project(directory: Path) -> Made:
    """Make a project folder. What is there is never overwritten; UsageError when it is a file."""
    from importlib.resources import files

    folder = directory.expanduser().absolute()
    if os.path.lexists(folder) and not folder.is_dir():
        raise UsageError(f"{str(folder)!r} is not a directory.", next_step="Name another.")
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
            f"Cannot create a project in {str(folder)!r}: {error.strerror}.",
            next_step="Name a directory that you may write to.",
        ) from error
    return Made(str(folder), tuple(written), tuple(kept))


def collect(folder: Path, *, without: Iterable[Path] = ()) -> tuple[Collected, ...]:
    """The files of a project in the order of their paths; no links, nothing special, bounded."""
    left_out = {place.resolve() for place in without}
    collected: list[Collected] = []
    size = 0

    def refuse(error: OSError) -> None:
        raise UsageError(f"{error.filename!r} cannot be read: {error.strerror}.")

    for base, folders, names in os.walk(folder, onerror=refuse, followlinks=False):
        kept = [Path(base) / inner for inner in sorted(folders) if inner not in _SKIPPED_FOLDERS]
        for path in kept:
            if path.is_symlink():
                raise _no_link(path)
        folders[:] = [path.name for path in kept if path.resolve() not in left_out]
        for name in sorted(names):
            inside = (Path(base) / name).relative_to(folder).as_posix()
            if inside == LOCK or _SKIPPED_NAMES.fullmatch(name):
                continue
            collected.append(_read_file(Path(base) / name, inside))
            size += len(collected[-1].data)
            if len(collected) > FILES_MAX or size > PROJECT_BYTES_MAX:
                raise UsageError(
                    f"{str(folder)!r} has more than {FILES_MAX} files, or than"
                    f" {PROJECT_BYTES_MAX >> 20} MiB.",
                    next_step="Name the directory of the project itself, and keep state elsewhere.",
                )
    return tuple(sorted(collected, key=lambda file: file.path))


def _read_file(path: Path, inside: str) -> Collected:
    if len(inside) > PATH_CHARACTERS_MAX or not inside.isprintable():
        raise UsageError(f"The path {inside[:80]!r} cannot be packed.", next_step="Rename it.")
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if path.is_symlink():
            raise _no_link(path) from error
        raise UsageError(f"{str(path)!r} cannot be read: {error.strerror}.") from error
    with os.fdopen(handle, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise UsageError(f"{str(path)!r} is not a regular file.", next_step="Remove it.")
        data = file.read(FILE_BYTES_MAX + 1)
    if len(data) > FILE_BYTES_MAX:
        raise UsageError(
            f"{str(path)!r} is larger than {FILE_BYTES_MAX >> 20} MiB.",
            next_step="Keep it outside the project.",
        )
    return Collected(inside, data, bool(status.st_mode & stat.S_IXUSR))


def _no_link(path: Path) -> UsageError:
    return UsageError(
        f"{str(path)!r} is a link, and links are not packed.",
        next_step="Replace it with its target.",
    )


def found_secrets(config: Config, files: Sequence[Collected]) -> Iterator[FoundSecret]:
    """Every place of a secret in these files, known ones included, without a word of it."""
    from operator_sre.app.redaction import KnownValues
    from operator_sre.app.secret_store import open_secrets
    from operator_sre.ledger.redaction import Redactor

    redactor = Redactor(bytes(32), KnownValues(open_secrets(config)))
    for file in files:
        if _KEY_NAMES.fullmatch(PurePosixPath(file.path).name):
            yield FoundSecret(file.path, 1, "key_file")
            continue
        text = file.data.decode("utf-8", "replace")
        for found in redactor.report(text):
            yield FoundSecret(file.path, text.count("\n", 0, found.start) + 1, found.kind)


def refuse_secrets(config: Config, files: Sequence[Collected]) -> None:
    """Raise when there is a secret in one of these files, naming each place."""
    found = list(found_secrets(config, files))
    if not found:
        return
    places = "; ".join(
        f"{found_secret.file}:{found_secret.line} ({found_secret.kind})"
        for found_secret in found[:TOLD_MAX]
    )
    more = f", and {len(found) - TOLD_MAX} more" if len(found) > TOLD_MAX else ""
    refused = OperatorError(
        f"Nothing was packed, because files contain secrets: {places}{more}.",
        next_step="Remove them, and store them with: operator secrets set NAME",
    )
    refused.category = ErrorCategory.SECRET_SCAN_FAILED
    refused.next_action = NextAction.FIX_CODE
    raise refused


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


def check_held_secrets(project: Project) -> Iterator[ValidationIssue]:
    """Kept secrets that the project names, and that are not set or not bound to who needs them."""
    from operator_sre.app.answers.projects import issue
    from operator_sre.app.secret_store import model_key, secret_reader

    config = project.app.config
    reads: list[Callable[[], str]] = []
    for subject in project.subjects:
        read = secret_reader(config, subject.name)
        accesses = [target.access for target in subject.targets if target.access]
        for path in [
            path for access in accesses for path in (access.password_file, access.token_file)
        ]:
            if path.startswith(SECRET):
                reads.append(partial(read, path))
    models = project.table.get("models", {})
    for name, body in models.items() if isinstance(models, dict) else ():
        path = body.get("key_file", "") if isinstance(body, dict) else ""
        if isinstance(path, str) and path.startswith(SECRET):
            names = (name, str(body.get("provider", "")))
            reads.append(partial(model_key, config, path, names))
    for read_one in reads:
        try:
            read_one()
        except OperatorError as error:
            yield issue(error, "operator secrets list", ErrorCategory.MISSING_SECRET_BINDING)


def check_docker(project: Project) -> Iterator[ValidationIssue]:
    """Docker, where the project cannot do without."""
    from operator_sre.app.answers.projects import issue

    why = ""
    if project.table.get("sandbox") == "docker":
        why = "The setting sandbox is 'docker'"
    else:
        targets = [target for subject in project.subjects for target in subject.targets]
        inside = (part.name for part in targets if part.runs_at.startswith("docker:"))
        if name := next(inside, ""):
            why = f"Commands of {name!r} run in a container"
    if why and (problem := docker_problem()) is not None:
        failure = ConfigError(f"{why}, and {problem.message}", next_step=problem.next_step)
        yield issue(failure, "operator doctor", ErrorCategory.DOCKER_UNAVAILABLE)


def docker_problem() -> OperatorError | None:
    """Why Docker cannot be asked; None when it answers."""
    from asyncio import run, wait_for
    from concurrent.futures import ThreadPoolExecutor

    from operator_sre.executor.docker import Engine

    async def ask() -> None:
        await wait_for(Engine().ask("GET", "/_ping", timeout_s=DOCKER_S_MAX), DOCKER_S_MAX)

    try:
        # In a thread, because the caller may be inside an event loop.
        with ThreadPoolExecutor(max_workers=1) as pool:
            pool.submit(lambda: run(ask())).result()
    except OperatorError as error:
        return error
    except TimeoutError:
        return ConfigError("Docker does not answer.", next_step="Check it with: docker info")
    return None


def check_addresses(project: Project) -> Iterator[ValidationIssue]:
    """Endpoints of the project that do not answer."""
    from operator_sre.app.answers.projects import issue

    for name in ADDRESSES:
        address = project.table.get(name, "")
        if isinstance(address, str) and address and (why := why_unreached(address)):
            try:
                number = line_of(project.file.read_text(encoding="utf-8"), name)
            except (OSError, UnicodeDecodeError):
                number = 0
            line = f", line {number}," if number else ""
            error = ConfigError(
                f"Cannot connect to {name!r} in {str(project.file)!r}{line}: {why}.",
                next_step="Start the server, or correct the address.",
            )
            again = f"operator validate {shlex.quote(str(project.folder))}"
            yield issue(error, again, ErrorCategory.DASHBOARD_UNAVAILABLE)


def why_unreached(address: str) -> str:
    """Why a URL or host:port does not answer; "" when it does."""
    try:
        url = urlsplit(address if "//" in address else f"//{address}")
        host, port = url.hostname or "", url.port or (443 if url.scheme == "https" else 80)
    except ValueError:
        return "it is not a valid address"
    if not host:
        return "it is not a valid address"
    try:
        with socket.create_connection((host, port), timeout=REACHED_S_MAX):
            return ""
    except OSError as error:
        return (error.strerror or "no answer").lower()


def check_lock(project: Project) -> Iterator[ValidationIssue]:
    """A project that was installed, and is not any more what was signed."""
    from operator_sre.app.answers.projects import issue
    from operator_sre.app.bundles import lock_problems

    if not (project.folder / LOCK).is_file():
        return
    again = f"operator validate {shlex.quote(str(project.folder))}"
    for category, message, step in lock_problems(project.folder):
        yield issue(ConfigError(message, next_step=step), again, category)


def check_plain_secrets(project: Project) -> Iterator[ValidationIssue]:
    """Secrets in plain text in any file that would be packed."""
    from operator_sre.app.answers.projects import issue

    again = f"operator validate {shlex.quote(str(project.folder))}"
    try:
        files = collect(project.folder, without=(project.app.config.home,))
    except OperatorError as error:
        yield issue(error, again, ErrorCategory.PACKAGE_VERIFICATION_FAILED)
        return
    for found in found_secrets(project.app.config, files):
        failure = ConfigError(
            f"{project.folder / found.file}:{found.line} contains a secret ({found.kind}).",
            next_step="Remove it, and store it with: operator secrets set NAME",
        )
        yield issue(failure, again, ErrorCategory.SECRET_SCAN_FAILED)


# What is asked beyond the files themselves; subjects are known by then.
FURTHER_CHECKS = (
    check_held_secrets,
    check_plain_secrets,
    check_docker,
    check_lock,
    check_addresses,
)
