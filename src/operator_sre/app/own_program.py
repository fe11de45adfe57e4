"""The operator's own program, known by what it is and not by what it is called."""

from __future__ import annotations

import stat
import sys
from functools import lru_cache
from pathlib import Path

from operator_sre.executor.transports.local import ENVIRONMENT

__all__ = ["is_own_program"]

PROGRAM = "operator"
# An entry point is a few lines that name the package.
ENTRY_BYTES_MAX = 4096
PACKAGE = b"operator_sre"


def is_own_program(path: str, cwd: str) -> bool:
    """Whether a program, as it is called in a folder, is the operator: a link to it, or a copy.

    What is only made when the line runs, or was packed in another way, is not known by this.
    """
    for place in _places(path, cwd):
        try:
            found = place.stat()
            if not stat.S_ISREG(found.st_mode):
                continue
            if (found.st_dev, found.st_ino) in _known():
                return True
            if found.st_size <= ENTRY_BYTES_MAX and _is_entry(place.read_bytes()):
                return True
        except (OSError, ValueError):  # ValueError for a name that cannot be one
            continue
    return False


def _places(path: str, cwd: str) -> list[Path]:
    if "/" in path:
        return [Path(cwd or "/", path)]
    return [Path(folder, path) for folder in ENVIRONMENT["PATH"].split(":")]


def _is_entry(content: bytes) -> bool:
    return content.startswith(b"#!") and PACKAGE in content


@lru_cache(maxsize=1)
def _known() -> frozenset[tuple[int, int]]:
    """The files of the program that is running, and of those beside its Python and in the PATH."""
    folders = [Path(sys.executable).parent, *map(Path, ENVIRONMENT["PATH"].split(":"))]
    found = set()
    for place in (Path(sys.argv[0] or PROGRAM), *(folder / PROGRAM for folder in folders)):
        if place.name != PROGRAM:
            continue
        try:
            one = place.stat()
        except OSError:
            continue
        found.add((one.st_dev, one.st_ino))
    return frozenset(found)
