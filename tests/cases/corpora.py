"""Commands as data: one collection in each file of JSON lines."""

from __future__ import annotations

import json
from pathlib import Path

__all__ = ["CORPORA", "commands_in"]

FOLDER = Path(__file__).parent
CORPORA = tuple(sorted(path.stem for path in FOLDER.glob("*.jsonl")))


def commands_in(name: str) -> list[str]:
    """The commands of one collection, a JSON object with its `kind` and `command` in each line."""
    lines = (FOLDER / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["command"] for line in lines]
