"""Command lines with what the gate has to think of them, as data."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from operator_protocols.domain.verdict import Level

__all__ = ["CORPORA", "Case", "cases", "corpus"]

ROOT = Path(__file__).resolve().parents[2]
CORPORA = ROOT.parent / "shared" / "corpora"


@dataclass(frozen=True, slots=True)
class Case:
    """One command line. It is only ever read, never run."""

    kind: str
    expect: Level
    command: str


def _read(path: Path) -> list[dict[str, str]]:
    # Not `splitlines`, which takes characters inside a command for the end of a line.
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


def cases() -> list[Case]:
    """Our own table."""
    found = _read(ROOT / "tests" / "cases" / "gate.jsonl")
    return [Case(one["class"], Level(one["expect"]), one["command"]) for one in found]


def corpus(name: str) -> list[str]:
    """The commands of a corpus from public research; never run, never copied."""
    return [str(one["command"]) for one in _read(CORPORA / name)]
