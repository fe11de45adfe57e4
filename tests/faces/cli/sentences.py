"""How a line that cannot be done is answered."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tests.e2e.warm import Done

__all__ = ["Bad", "one_sentence"]


@dataclass(frozen=True, slots=True)
class Bad:
    """A line that cannot be done: its exit code, and what the sentence has to say."""

    line: str
    code: int
    says: str


def one_sentence(done: Done, bad: Bad) -> None:
    """It failed as it should, in one line for people."""
    assert done.code == bad.code, done
    assert done.out == ""
    assert done.err.startswith("operator: ")
    assert done.err.count("\n") == 1
    assert re.search(bad.says, done.err), done.err
