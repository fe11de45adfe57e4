"""Operators killed while they execute: nothing runs twice, is lost, or is told wrong."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.crash.executing import ROUND_S_MAX, STEPS
from tests.e2e.warm import start_module

# From the intent on there is something to find out; before it nothing may have run.
BEGUN = STEPS[STEPS.index("intent") :]


def _rounds(folder: Path, seed: int, count: int, *steps: str) -> list[dict[str, Any]]:
    log = folder.with_suffix(".log")
    with log.open("wb") as said:
        words = (str(folder), str(seed), str(count), *steps)
        process = start_module("tests.crash.executing", *words, err=said.fileno())
    assert process.stdin is not None
    assert process.stdout is not None
    with process.stdin, process.stdout as lines:
        told = [json.loads(line) for line in lines]
    assert process.wait(ROUND_S_MAX) == 0, log.read_text()[-2000:]
    assert len(told) == count
    return told


def _check(told: dict[str, Any]) -> str:
    """One round keeps every promise; returns the outcome that the ledger tells, or none."""
    assert told["whole"], told
    assert told["open"] == 0, told
    assert told["orphans"] == [], told
    assert told["boxes"] == [], told
    assert len(told["outcomes"]) <= 1, told
    if not told["outcomes"]:
        assert told["runs"] == 0, f"it ran without an intent: {told}"
        return "not begun"
    (recorded,) = told["outcomes"]
    assert len(recorded) == 1, f"one intent, one outcome: {told}"
    outcome, code, stdout = recorded[0]
    if outcome == "ran":
        assert (code, stdout, told["runs"]) == (0, "said\nmore\n", 1), told
    elif outcome == "cancelled":
        assert told["runs"] == 0, told
    else:
        assert outcome == "unknown", told
        assert told["runs"] <= 1, told
        assert told["step"] == "both", f"the runner lives and knows: {told}"
    return str(outcome)


@pytest.mark.timeout(300)
def test_an_operator_killed_at_each_step_leaves_the_truth(tmp_path: Path) -> None:
    rounds = _rounds(tmp_path, 1, len(STEPS), *STEPS)
    outcomes = {one["step"]: _check(one) for one in rounds}
    assert all(one["killed"] for one in rounds)
    assert [step for step in STEPS if outcomes[step] != "not begun"] == list(BEGUN)
    assert [outcomes[step] for step in BEGUN[3:]] == ["ran"] * len(BEGUN[3:])


@pytest.mark.timeout(300)
def test_an_operator_killed_at_any_moment_leaves_the_truth(tmp_path: Path) -> None:
    for one in _rounds(tmp_path, 7, 4, "random", "random", "random", "both"):
        _check(one)


def _check_script(told: dict[str, Any]) -> str:
    """The same for a script: nothing of its box is left, and what it said is told."""
    assert (told["whole"], told["open"], told["orphans"], told["boxes"]) == (True, 0, [], []), told
    outcomes = [one for recorded in told["outcomes"] for one in recorded]
    assert len(outcomes) <= 1, told
    if outcomes and outcomes[0][0] == "ran":
        assert outcomes[0][1:] == [0, f"{told['number']}\n"], told
    return str(outcomes[0][0]) if outcomes else "not begun"


@pytest.mark.timeout(300)
def test_an_operator_killed_while_a_script_runs_leaves_no_box(tmp_path: Path) -> None:
    told = {_check_script(one) for one in _rounds(tmp_path, 3, 3, "script")}
    assert told <= {"ran", "cancelled", "not begun"}, "the runner lives and knows"


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(4))
def test_hundreds_of_kills_leave_the_truth(
    tmp_path: Path, seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Four times 75 random moments, the runner dying too in a fifth of them, and each label."""
    steps = ["random"] * 4 + ["both"]
    rounds = [
        *_rounds(tmp_path / "moments", seed, 75, *steps),
        *_rounds(tmp_path / "labels", seed, 3 * len(STEPS), *STEPS),
    ]
    table = Counter((one["step"], _check(one)) for one in rounds)
    scripts = _rounds(tmp_path / "scripts", seed, 15, "script")
    table.update(("script", _check_script(one)) for one in scripts)
    with capsys.disabled():
        lines = [f"{step:>8} {outcome:>10} {count:4}" for (step, outcome), count in table.items()]
        sys.stdout.write("\n" + "\n".join(sorted(lines)) + "\n")
