"""This installation: its extras, and the place, the person and the Python that a command gets."""

from __future__ import annotations

import stat
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from operator_protocols.errors import MissingExtraError, NotFoundError
from operator_sre.app.persons import signed_in
from operator_sre.executor.transports.local import ENVIRONMENT
from operator_sre.executor.venv import active_venv, found_venv, warning_for

if TYPE_CHECKING:
    from operator_protocols.domain.precondition import Precondition
    from operator_protocols.domain.target import Target
    from operator_protocols.ports import Kill, Tool

__all__ = [
    "Lab",
    "RigAccess",
    "SystemState",
    "has_evals",
    "is_own_program",
    "load_lab",
    "system_state",
    "venv_warnings",
]


@dataclass(frozen=True, slots=True)
class RigAccess:
    """What the core needs of a rig that is up: its parts, who can kill them, and its tools."""

    targets: Callable[[], Sequence[Target]]
    life: Kill
    tools: Sequence[Tool]


class Lab(Protocol):
    """The module `operator_lab.access`."""

    def open_rig(
        self, directory: Path, requires: Mapping[str, tuple[Precondition, ...]] = ...
    ) -> RigAccess:
        """Return the rig that is up in a directory; NotFoundError when there is none.

        `requires` are the preconditions of its tools, by name.
        """
        ...

    def read_options(self, directory: Path) -> Mapping[str, Any]:
        """Return the options that the subject of a rig is built with."""
        ...


def load_lab() -> Lab:
    """Return the lab; MissingExtraError where it is not installed."""
    if find_spec("operator_lab") is None:
        raise MissingExtraError("lab", needed_for="A rig")
    return cast("Lab", import_module("operator_lab.access"))


def has_evals() -> bool:
    """Return whether the evaluation harness is installed."""
    return find_spec("operator_evals") is not None


PROGRAM = "operator"
# An entry point is a few lines that name the package.
ENTRY_BYTES_MAX = 4096
PACKAGE = b"operator_sre"


@dataclass(frozen=True, slots=True)
class SystemState:
    """Where we are and who we are; `venv_path` is the active environment, or else one nearby."""

    cwd: str
    venv_active: bool
    venv_path: str
    user: str
    home: str
    python_executable: str


def system_state(environ: Mapping[str, str]) -> SystemState:
    """As it is now, for this process."""
    try:
        cwd = Path.cwd()
    except FileNotFoundError:
        raise NotFoundError(
            "The current directory no longer exists.",
            next_step="Change to a directory that exists.",
        ) from None
    home = _home(environ)
    active = active_venv(environ, prefix=sys.prefix, base_prefix=sys.base_prefix)
    return SystemState(
        cwd=str(cwd),
        venv_active=bool(active),
        venv_path=active or found_venv(cwd, home=home),
        user=signed_in(),
        home=str(home),
        python_executable=sys.executable,
    )


def venv_warnings(
    command: str, *, cwd: str, venv: str, environ: Mapping[str, str]
) -> tuple[str, ...]:
    """What to say before a command that uses Python outside of any environment.

    An environment that is active for a person is not so for a command, which gets no variable of
    theirs; it is only the first to be named.
    """
    if venv:
        return ()
    near = environ.get("VIRTUAL_ENV", "") or found_venv(Path(cwd), home=_home(environ))
    warning = warning_for(command, near)
    return (warning,) if warning else ()


def _home(environ: Mapping[str, str]) -> Path:
    try:
        return Path(environ.get("HOME") or Path.home())
    except RuntimeError:  # a uid without a name, as in some containers
        return Path("/")


def is_own_program(path: str, cwd: str) -> bool:
    """Whether a program, as it is called in a folder, is the operator: a link to it, or a copy.

    What is only made when the line runs, or was packed in another way, is not known by this.
    """
    folders = [cwd or "/"] if "/" in path else ENVIRONMENT["PATH"].split(":")
    for place in (Path(folder, path) for folder in folders):
        try:
            found = place.stat()
            if not stat.S_ISREG(found.st_mode):
                continue
            if (found.st_dev, found.st_ino) in _own_files():
                return True
            if found.st_size <= ENTRY_BYTES_MAX:
                content = place.read_bytes()
                if content.startswith(b"#!") and PACKAGE in content:
                    return True
        except (OSError, ValueError):  # ValueError for a name that cannot be one
            continue
    return False


@lru_cache(maxsize=1)
def _own_files() -> frozenset[tuple[int, int]]:
    """The files of the program that is running, and of those beside its Python and in the PATH."""
    folders = [Path(sys.executable).parent, *map(Path, ENVIRONMENT["PATH"].split(":"))]
    found = set()
    for place in (Path(sys.argv[0] or PROGRAM), *(folder / PROGRAM for folder in folders)):
        if place.name != PROGRAM:
            continue
        try:
            status = place.stat()
        except OSError:
            continue
        found.add((status.st_dev, status.st_ino))
    return frozenset(found)
