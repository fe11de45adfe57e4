"""Limits as pure sentences: what may begin, what not, and what must be asked."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from operator_protocols.domain.limits import Limits, Usage
from operator_sre.gate.restraint import RIG_CHANGES_PER_HOUR, limits_for
from tests.contract.clock import NOON


@pytest.mark.parametrize(("targets", "most"), [(0, 1), (1, 1), (3, 1), (5, 1), (6, 2), (30, 10)])
def test_a_third_of_the_targets_may_be_touched_and_always_one(targets: int, most: int) -> None:
    assert limits_for(targets, changes_per_hour=30).targets_max == most


def test_what_is_told_counts_and_a_rig_may_be_changed_as_a_whole() -> None:
    assert limits_for(9, changes_per_hour=5, targets_max=7) == Limits(5, targets_max=7)
    rig = limits_for(4, changes_per_hour=5, rig=True)
    assert (rig.changes_per_hour, rig.targets_max) == (RIG_CHANGES_PER_HOUR, 4)


def test_nothing_used_refuses_nothing() -> None:
    assert Limits().refusal(Usage("shop"), NOON) == ""
    assert Limits().question(Usage("shop"), "node-1") == ""


def test_the_breaker_opens_for_a_time() -> None:
    broken = Usage("shop", failures=3, failed_at=NOON)
    limits = Limits()
    assert "operator limits reset shop" in limits.refusal(broken, NOON)
    both = replace(broken, running=("mend",))
    assert limits.refusal(both, NOON) == limits.refusal_in_turn(both, NOON) != limits.busy(both)
    assert "before 12:15:00 UTC" in limits.refusal(broken, NOON)
    just_before = NOON + timedelta(seconds=limits.pause_s - 1)
    assert limits.refusal(broken, just_before)
    assert limits.refusal(broken, NOON + timedelta(seconds=limits.pause_s)) == ""
    assert limits.refusal(Usage("shop", failures=2, failed_at=NOON), NOON) == ""


def test_a_target_that_was_touched_may_be_touched_again() -> None:
    usage = Usage("shop", targets=frozenset({"node-1"}))
    assert Limits().question(usage, "node-1") == ""
    assert "2 targets" in Limits().question(usage, "node-2")
    assert Limits(targets_max=2).question(usage, "node-2") == ""
