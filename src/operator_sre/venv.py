"""A virtual environment for one command, without running any file of it to get there."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path

from operator_protocols.domain.action import SHELL, Action
from operator_sre.ownership import distrust
from operator_sre.shell.pythons import SYSTEM_FOLDERS, needs_venv

__all__ = [
    "active_venv",
    "enter_venv",
    "found_venv",
    "not_ours",
    "shadowed_by",
    "warning_for",
    "with_venv",
]

# What a virtual environment is there for; anything else with the name of a program of the system
# would run in its place.
_ITS_OWN = re.compile(r"(?:python|pip|pydoc|idle|2to3|easy_install|wheel)[0-9.]*(?:-config)?")
NAMES = (".venv", "venv", "env", "virtualenv")
FOLDERS_MAX = 32
PROGRAMS_MAX = 5000
# A line that activates an environment, and goes on.
_ACTIVATES = re.compile(
    r"\s*(?:source|\.)\s+([\w./-]+)/bin/activate[ \t]*(?:&&|;|\n)\s*(\S.*)", re.DOTALL
)
_ROOT_MARKS = (".git", ".hg")


def active_venv(environ: Mapping[str, str], *, prefix: str, base_prefix: str) -> str:
    """The active environment of the caller: by its variable, or by this Python."""
    return environ.get("VIRTUAL_ENV", "") or (prefix if prefix != base_prefix else "")


def found_venv(start: Path, *, home: Path) -> str:
    """The nearest one in a directory or above it, within the project or the home; "" for none."""
    for folder in [start, *start.parents][:FOLDERS_MAX]:
        for name in NAMES:
            try:
                is_file = (folder / name / "pyvenv.cfg").is_file()
            except OSError:  # a folder that we may not look into has none for us
                is_file = False
            if is_file:
                return str(folder / name)
        if folder == home or any(_exists(folder / mark) for mark in _ROOT_MARKS):
            break
    return ""


def with_venv(environment: Mapping[str, str], venv: str) -> dict[str, str]:
    """The variables that activating it would set."""
    return {**environment, "VIRTUAL_ENV": venv, "PATH": f"{venv}/bin:{environment['PATH']}"}


def not_ours(venv: str) -> str:
    """Why its files must not run, because others may have written them; else "".

    All of it, and every folder above it, must be ours or the system's and closed to others.
    """
    folder = Path(venv)
    try:
        real = folder.resolve(strict=True)
        libraries = [*real.glob("lib/*"), *real.glob("lib/*/site-packages")]
        inside = [real / "pyvenv.cfg", real / "bin", real / "lib", *libraries[:FOLDERS_MAX]]
        programs = list(islice((real / "bin").iterdir(), PROGRAMS_MAX + 1))
        if len(programs) > PROGRAMS_MAX:
            return f"{venv} has more than {PROGRAMS_MAX} programs."
        for path in (real, *inside, *programs):
            path.resolve(strict=True)  # a link that leads nowhere is a program that may come
            if found := distrust(path):
                return f"{found.reason[0].upper()}{found.reason[1:]}."
    except (OSError, RuntimeError):  # a link that leads nowhere, or around in a circle
        return f"{venv} cannot be read as a virtual environment."
    return ""


def shadowed_by(venv: str, path: str) -> str:
    """Why it must not be used: it is none, or hides a program of the system; else nothing."""
    folder = Path(venv)
    if not (folder / "pyvenv.cfg").is_file() or not (folder / "bin").is_dir():
        return f"{venv} is not a virtual environment."
    mine = {file.name for file in (folder / "bin").iterdir() if not _ITS_OWN.fullmatch(file.name)}
    for place in path.split(":"):
        hidden = sorted(name for name in mine if (Path(place) / name).exists())
        if hidden:
            return f"{venv} would shadow the system's {hidden[0]!r}."
    return ""


def enter_venv(action: Action) -> Action:
    """The same command inside the environment that its line activates first, where that is known.

    Nothing of the environment is run to get there. Any other line stays as it is: sourcing a file
    can do anything.
    """
    line = action.arguments.get("command")
    if action.tool != SHELL or action.venv or action.target or not isinstance(line, str):
        return action
    found = _ACTIVATES.fullmatch(line)
    if found is None:
        return action
    venv = os.path.normpath(Path(action.cwd) / found[1])
    try:
        if shadowed_by(venv, ":".join(sorted(SYSTEM_FOLDERS))) or not_ours(venv):
            return action
    except OSError:  # a folder that we may not look into
        return action
    return replace(action, arguments={"command": found[2]}, venv=venv)


def warning_for(command: str, venv: str) -> str:
    """The warning for a line that uses Python outside of any environment, or "".

    `venv` could be used instead. A line that is not understood gets no warning.
    """
    needs = needs_venv(command)
    if not needs:
        return ""
    if venv:
        inside = f"To run it inside of {venv!r}, add: --venv {shlex.quote(venv)}"
    else:
        inside = (
            "No virtual environment was found here. Create one with 'python3 -m venv .venv', "
            "then add: --venv .venv"
        )
    return f"{needs!r} runs without a virtual environment. {inside}"


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:
        return False
