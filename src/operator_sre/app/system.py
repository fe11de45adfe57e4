"""What a command would find here: the place, the person, and the Python."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from operator_protocols.errors import NotFoundError
from operator_sre.app.approvals import signed_in
from operator_sre.executor.venv import active_venv, found_venv, warning_for

__all__ = ["SystemState", "system_state", "venv_warnings"]


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
    cwd, home = _here(), _home(environ)
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


def _here() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise NotFoundError(
            "The current directory is gone.", next_step="Change to one that exists."
        ) from None
