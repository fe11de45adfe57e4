"""A virtual environment for one command, without running any file of it to get there."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

__all__ = ["shadowed_by", "with_venv"]

# What a virtual environment is there for; anything else with the name of a program of the system
# would run in its place.
_ITS_OWN = re.compile(r"(?:python|pip|pydoc|idle|2to3|easy_install|wheel)[0-9.]*(?:-config)?")


def with_venv(environment: Mapping[str, str], venv: str) -> dict[str, str]:
    """The variables that activating it would set."""
    return {**environment, "VIRTUAL_ENV": venv, "PATH": f"{venv}/bin:{environment['PATH']}"}


def shadowed_by(venv: str, path: str) -> str:
    """Why it must not be used: it is none, or hides a program of the system; else nothing."""
    folder = Path(venv)
    if not (folder / "pyvenv.cfg").is_file():
        return f"{venv} is no virtual environment."
    mine = {file.name for file in (folder / "bin").iterdir() if not _ITS_OWN.fullmatch(file.name)}
    for place in path.split(":"):
        hidden = sorted(name for name in mine if (Path(place) / name).exists())
        if hidden:
            return f"{venv} would hide {hidden[0]!r} of the system."
    return ""
