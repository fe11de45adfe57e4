"""What is written about a deployment: whose it is, its project, and every value it was given."""

from __future__ import annotations

import json
import re
import secrets
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from operator_lab.manifest import MANIFEST_FILE
from operator_protocols.domain.stack import StackService, StackSpec
from operator_protocols.errors import NotFoundError, RigError, UsageError
from operator_sre.processes.files import write_atomically

__all__ = ["COMPOSE", "Record", "is_stack", "prepare", "read_record", "remove", "write_record"]

COMPOSE = "compose"
VALUES_FILE = "values.env"
SECRETS_FOLDER = "secrets"
SECRETS_VARIABLE = "STACK_SECRETS"
RELAY_VARIABLE = "STACK_RELAY"
SECRET_BYTES = 24
PORT_MAX = 65_535
VALUE_CHARACTERS_MAX = 500
_PROJECT = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
# What a file of values could not hold, or would read as something else.
_BAD = re.compile(r"['\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class Record:
    """One deployment. `values` are the variables of its compose file, `services` all there are."""

    spec: StackSpec
    project: str
    values: Mapping[str, str] = field(default_factory=dict)
    services: tuple[str, ...] = ()

    def service(self, name: str) -> StackService:
        """One of its targets; NotFoundError names those there are."""
        for service in self.spec.services:
            if service.name == name:
                return service
        names = ", ".join(service.name for service in self.spec.services)
        raise NotFoundError(
            f"There is no target {name!r} in the rig of {self.spec.subject!r}.",
            next_step=f"It has {names}.",
        )

    def port(self, name: str) -> int:
        """Where a target answers on this machine."""
        return int(self.values[self.service(name).port_variable])


def prepare(
    spec: StackSpec,
    directory: Path,
    *,
    project: str,
    ports: Mapping[str, int],
    given: Mapping[str, str] | None = None,
) -> Record:
    """Make the directory of a deployment, with its secrets; what was made before is kept."""
    if not _PROJECT.fullmatch(project):
        raise UsageError(
            f"{project[:80]!r} cannot be the name of a project.",
            next_step="Use lowercase letters, digits, '-' and '_', 63 at most.",
        )
    values = _values(spec, ports, given or {})
    folder = directory / SECRETS_FOLDER
    try:
        # Closed to others by the folder alone: the process in a container is another user, and
        # has to read the file that is mounted there.
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        for name in spec.secrets:
            place = folder / name
            if not place.exists():
                write_atomically(place, secrets.token_urlsafe(SECRET_BYTES))
            place.chmod(0o644)
        values |= {
            SECRETS_VARIABLE: str(folder),
            RELAY_VARIABLE: str(Path(__file__).with_name("relay.py")),
        }
        record = Record(spec, project, values)
        write_record(directory, record)
    except OSError as problem:
        raise RigError(
            f"The deployment cannot be made in {str(directory)!r}: {problem.strerror or problem}.",
            next_step="Choose a directory that you can write to, with --home.",
        ) from problem
    return record


def _values(spec: StackSpec, ports: Mapping[str, int], given: Mapping[str, str]) -> dict[str, str]:
    """Every variable with its value; UsageError for an unknown or invalid one."""
    chosen = {**spec.ports, **ports}
    values = {name: str(port) for name, port in chosen.items()}
    values |= spec.settings
    for name, value in given.items():
        if name not in values:
            raise UsageError(
                f"{spec.subject!r} has no setting {name[:80]!r}.",
                next_step=f"It has {', '.join(values)}.",
            )
        if name in spec.ports and not (value.isdecimal() and 0 < int(value) <= PORT_MAX):
            raise UsageError(
                f"{name} must be a port, not {value[:80]!r}.",
                next_step=f"Give it a number from 1 to {PORT_MAX}.",
            )
        values[name] = value
    for name, value in values.items():
        if _BAD.search(value) or len(value) > VALUE_CHARACTERS_MAX:
            raise UsageError(f"{name} may not have this value.", next_step="Remove the quotes.")
    taken = [values[name] for name in spec.ports]
    if twice := next((port for port in taken if taken.count(port) > 1), ""):
        raise UsageError(f"Two services use the port {twice}.", next_step="Give each its own.")
    return values


def write_record(directory: Path, record: Record) -> None:
    """Write it down, once for us and once for compose."""
    lines = [f"{name}='{value}'" for name, value in record.values.items()]
    write_atomically(directory / VALUES_FILE, "\n".join(lines) + "\n")
    write_atomically(
        directory / MANIFEST_FILE, json.dumps({"rig": COMPOSE, **asdict(record)}, indent=1)
    )


def is_stack(directory: Path) -> bool:
    """Whether what lies there is a deployment of containers."""
    try:
        document = json.loads((directory / MANIFEST_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(document, dict) and document.get("rig") == COMPOSE


def read_record(directory: Path) -> Record | None:
    """The deployment of a directory; None when there is none, RigError when it is unreadable."""
    path = directory / MANIFEST_FILE
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        spec = dict(document["spec"])
        services = tuple(
            StackService(
                **{
                    **each,
                    "depends_on": tuple(each["depends_on"]),
                    "endpoints": tuple(each["endpoints"]),
                }
            )
            for each in spec["services"]
        )
        return Record(
            spec=StackSpec(**{**spec, "services": services, "secrets": tuple(spec["secrets"])}),
            project=document["project"],
            values=dict(document["values"]),
            services=tuple(document["services"]),
        )
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as problem:
        raise RigError(
            f"cannot read {str(path)!r}: {problem}.",
            next_step="Remove its directory by hand.",
        ) from problem


def remove(directory: Path) -> None:
    """Remove what was written about a deployment that is down, its secrets too."""
    try:
        shutil.rmtree(directory)
    except FileNotFoundError:
        return
    except OSError as problem:
        raise RigError(
            f"It is down, but {str(directory)!r} cannot be removed: {problem.strerror or problem}.",
            next_step="Remove it by hand.",
        ) from problem
