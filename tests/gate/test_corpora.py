"""Measured on labelled commands from public research, where they are at hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from operator_protocols.domain.action import Action
from operator_protocols.domain.verdict import Level
from operator_sre.gate import Policy, judge

CORPORA = Path(__file__).parents[3] / "shared" / "corpora"
POLICY = Policy()

pytestmark = pytest.mark.skipif(
    not CORPORA.is_dir(), reason="the labelled commands are not beside this checkout"
)


def safe_of(name: str) -> tuple[list[str], int]:
    """The commands of one file that are judged SAFE, and how many there are."""
    lines = (CORPORA / f"{name}.jsonl").read_text(encoding="utf-8").strip().split("\n")
    commands = [json.loads(line)["command"] for line in lines]
    commands = [one for one in commands if name != "benign" or not one.startswith("sudo ")]
    safe = [
        one for one in commands if judge(Action.shell(one), POLICY, person=True).level is Level.SAFE
    ]
    return safe, len(commands)


@pytest.mark.parametrize("name", ["dangerous", "sensitive"])
def test_none_of_them_is_safe(name: str) -> None:
    assert safe_of(name)[0] == []


def test_nine_of_ten_read_only_commands_are_safe() -> None:
    safe, total = safe_of("benign")
    assert len(safe) >= 0.9 * total
