"""What a command would find here: the place, the person, the Python, and our own program."""

from __future__ import annotations

import stat
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from operator_protocols.errors import NotFoundError
from operator_sre.app.persons import signed_in
from operator_sre.executor.transports.local import ENVIRONMENT
from operator_sre.venv import active_venv, found_venv, warning_for

__all__ = ["SystemState", "is_own_program", "system_state", "venv_warnings"]

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
