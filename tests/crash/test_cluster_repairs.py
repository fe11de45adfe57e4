"""Operators killed while they repair a cluster: no request is repeated, and none is told wrong."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.crash.cluster_repairs import STEPS
from tests.crash.executing import ROUND_S_MAX
from tests.e2e.warm import start_module
from tests.subjects.kubernetes.tool_bench import CASES

# From here on the API server may have been asked to keep something.
SENT = STEPS[STEPS.index("sent") :]


def rounds(folder: Path, words: Sequence[str]) -> list[dict[str, Any]]:
    """What came of each round."""
    log = folder.with_suffix(".log")
    with log.open("wb") as errors:
        process = start_module(
            "tests.crash.cluster_repairs", str(folder), *words, err=errors.fileno()
        )
    assert process.stdin is not None
    assert process.stdout is not None
    with process.stdin, process.stdout as lines:
        told = [json.loads(line) for line in lines]
    assert process.wait(ROUND_S_MAX) == 0, log.read_text()[-2000:]
    assert len(told) == len(words)
    return told


def check(told: dict[str, Any]) -> None:
    """One round keeps every promise."""
    step, kept = told["step"], [tuple(each) for each in told["kept"]]
    assert told["killed"] is True, told
    assert told["whole"] is True, told
    assert told["open"] == 0, told
    assert len(kept) == len(set(kept)), f"a request was repeated: {told}"
    if step in ("judge", "permit"):
        assert (told["calls"], told["outcomes"], kept) == (0, [], []), told
        return
    assert told["calls"] == 1, told
    assert len(told["outcomes"]) == 1, f"one intent, one outcome: {told}"
    if step == "ledger":
        assert told["outcomes"] == ["ran"], told
    else:
        # Nobody knows whether the server did it: the next check says what is there.
        assert told["outcomes"] == ["unknown"], told
    if step in SENT or step.startswith("sent-"):
        assert told["again"], "the same call was done twice"
        assert kept, told
    else:
        # Nothing was sent: the same approved call is done now, once.
        assert kept, told


def test_a_repair_that_was_interrupted_is_not_repeated(tmp_path: Path) -> None:
    words = ("undo_rollout-web:send", "restart_rollout-store:sent", "drain_node-node-a:sent")
    for told in rounds(tmp_path / "rounds", words):
        check(told)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("case", [each.id for each in CASES])
def test_a_repair_is_not_repeated_wherever_it_was_interrupted(case: str, tmp_path: Path) -> None:
    steps = (*STEPS, *(("sent-2",) if case.startswith("drain_node") else ()))
    for told in rounds(tmp_path / "rounds", [f"{case}:{step}" for step in steps]):
        check(told)
