"""Commands and what they print, as a document shows them, and whether that is so."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

__all__ = ["Shown", "fits", "ids_of", "masked", "shown_in"]

ANY_LINES = "..."
_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_ID = re.compile(r"\b[0-9a-f]{12}\b")
# What differs from run to run, from the most particular to the least.
_MASKS = (
    (re.compile(r"\bprocess \d+ on \S+ since \d\d-\d\d \d\d:\d\d"), "process WHO"),
    (re.compile(r"\bhead [0-9a-f]{16}\b"), "head HASH"),
    (re.compile(r"\brun-[0-9a-f]{10}\b"), "run-ID"),
    (_ID, "ID"),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"), "MOMENT"),
    (re.compile(r"\d\d-\d\d \d\d:\d\d:\d\d"), "MOMENT"),
    (re.compile(r"\d\d:\d\d:\d\d"), "TIME"),
    (re.compile(r"\S+:\d{3,7}\b(?=$)", re.MULTILINE), "WHO"),
    (re.compile(r"127\.0\.0\.1:\d+"), "ADDRESS"),
    (re.compile(r"\bpid \d+|-p \d+"), "PID"),
    (re.compile(r"\brunning +\d+\b"), "running PID"),
    (re.compile(r"\b\d+\.\d+ s\b|\b\d+ (?:s|min)\b"), "SPAN"),
    (re.compile(r"\b\d+ entries, \d+ checkpoints?\b"), "COUNTS"),
    (re.compile(r"\bin \d+ checks"), "CHECKS"),
    (re.compile(r"\b\d+\.\d%"), "SHARE"),
    (re.compile(r"\(entry \d+\)"), "(entry SEQ)"),
    (re.compile(r"^ *\d+ +(?=TIME|MOMENT)", re.MULTILINE), "SEQ "),
    (re.compile(r"\bapproved by \S+?(?=:| at)"), "approved by WHO"),
    (re.compile(r"(?<=review node-2 )\S+|(?<=review  node-2  )\S+"), "WHO"),
    (re.compile(r"\b\d{4,6}\b"), "NUMBER"),
    (re.compile(r"[ \t]+"), " "),
)


@dataclass(frozen=True, slots=True)
class Shown:
    """A command as it is typed, and the lines that it is said to print."""

    command: str
    lines: tuple[str, ...]


def shown_in(document: str) -> Iterator[Shown]:
    """Every command of the document, in order."""
    for block in _BLOCK.findall(document):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, *lines = part.rstrip("\n").split("\n")
            yield Shown(command, tuple(lines))


def masked(text: str) -> list[str]:
    """Lines without what differs from run to run; blank ones at the ends do not count."""
    for pattern, word in _MASKS:
        text = pattern.sub(word, text)
    return [line.strip() for line in text.strip().split("\n")]


def fits(shown: Sequence[str], told: str) -> bool:
    """Whether the lines are those that are shown; three dots are any number of lines."""
    pattern = "".join(
        "(?:.*\n)*?" if line == ANY_LINES else f"{re.escape(line)}\n"
        for line in masked("\n".join(shown))
    )
    return re.fullmatch(pattern, "\n".join(masked(told)) + "\n") is not None


def ids_of(shown: Sequence[str], told: str) -> dict[str, str]:
    """What the ids of the document are called here, by the order in which they come."""
    mine = dict.fromkeys(_ID.findall("\n".join(shown)))
    return dict(zip(mine, dict.fromkeys(_ID.findall(told)), strict=False))
