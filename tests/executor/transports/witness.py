"""Who still runs, told by a pipe that a command and all that comes of it hold open.

It works across containers, where a pid of there means nothing here.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

__all__ = ["Witness", "witness_in"]


class Witness:
    """A pipe; `line` in front of a command has all of its processes hold it."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    @property
    def line(self) -> str:
        """What a command line begins with."""
        return f"exec 6>{self.path}; echo here >&6; "

    def is_held(self) -> bool:
        """Whether anybody holds it now."""
        try:
            while os.read(self._descriptor, 4096):
                pass
        except BlockingIOError:
            return True
        return False

    def has_heard(self) -> bool:
        """Whether the command has begun."""
        try:
            return bool(os.read(self._descriptor, 4096))
        except BlockingIOError:
            return False


@contextlib.contextmanager
def witness_in(folder: Path) -> Iterator[Witness]:
    """A pipe that nobody holds yet."""
    path = folder / "witness"
    os.mkfifo(path)
    path.chmod(0o666)
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        yield Witness(path, descriptor)
    finally:
        os.close(descriptor)
