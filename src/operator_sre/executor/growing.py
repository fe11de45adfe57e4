"""What a command says while it runs, for those who did not start it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

from operator_sre.processes.runner.output import Follower
from operator_sre.processes.runner.records import output_folder

__all__ = ["Growing"]

# Of at most 64 KiB each: enough to keep up, and over before anybody else has to wait.
PIECES_MAX = 8


class Growing:
    """Reads on where a runner writes down what a job says."""

    def __init__(self, folder: Path, job: str, show: Callable[[int, bytes], None]) -> None:
        self._folder = output_folder(folder, job)
        self._follower = Follower(self._folder, show)
        self._pieces: Iterator[None] = iter(())

    @property
    def is_there(self) -> bool:
        """Whether it has said anything on this machine that still lies there."""
        return self._folder.is_dir()

    def advance(self) -> bool:
        """Show some of what is new; False when that was all there is now."""
        done = sum(1 for _ in islice(self._pieces, PIECES_MAX))
        if done < PIECES_MAX:
            # What is left of a part that was begun comes before what is new.
            self._pieces = self._follower.advance()
            done = sum(1 for _ in islice(self._pieces, PIECES_MAX))
        return done == PIECES_MAX
