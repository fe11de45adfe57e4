"""What was seen, and what it means for a violation."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace
from datetime import timedelta

import pytest

from operator_protocols.domain.health import Health, Severity
from operator_protocols.domain.observation import (
    CheckResult,
    Finding,
    Observation,
    Seen,
    key_of,
)
from tests.contract.clock import NOON
from tests.contract.samples import violation

OBSERVATION = Observation("shop", NOON, (Seen("node-1", {"up": True}),))


def _sighting(*findings: Finding) -> CheckResult:
    return CheckResult(OBSERVATION, findings)


def _finding(target: str, health: Health, invariant: str = "node_down") -> Finding:
    return Finding(invariant, target, health)


def test_a_target_that_was_not_looked_at_has_a_problem() -> None:
    assert OBSERVATION.of("node-1").problem == ""
    assert OBSERVATION.of("node-2").problem != ""
    blind = Observation("shop", NOON, problem="no route")
    assert blind.of("node-1") == Seen("node-1", problem="no route")


def test_a_key_is_equal_for_the_same_break_whenever_it_is_seen() -> None:
    first = violation()
    again = replace(
        first, since=NOON + timedelta(days=1), detail="other words", severity=Severity.INFO
    )
    assert first.key == again.key == key_of("shop", "node-1", "node_down")


@pytest.mark.parametrize("field", ["subject", "target", "invariant"])
def test_a_key_differs_for_another_break(field: str) -> None:
    changes: dict[str, str] = {field: "other"}
    assert replace(violation(), **changes).key != violation().key  # type: ignore[arg-type]


def test_what_is_not_spoken_of_is_unknown() -> None:
    check = _sighting(_finding("node-1", Health.HEALTHY))
    known = key_of("shop", "node-1", "node_down")
    assert check.health_of([known]) is Health.HEALTHY
    assert check.health_of([known, key_of("shop", "node-2", "node_down")]) is Health.UNKNOWN
    assert check.health_of([key_of("bank", "node-1", "node_down")]) is Health.UNKNOWN
    assert check.health_of([]) is Health.UNKNOWN


@pytest.mark.parametrize("turned", [False, True])
def test_two_words_about_one_target_count_as_the_worse(turned: bool) -> None:
    findings = [_finding("node-1", Health.BROKEN), _finding("node-1", Health.HEALTHY)]
    check = _sighting(*(findings[::-1] if turned else findings))
    assert check.health_of([key_of("shop", "node-1", "node_down")]) is Health.BROKEN


def test_broken_names_exactly_what_is_broken() -> None:
    check = _sighting(
        _finding("node-1", Health.BROKEN),
        _finding("node-2", Health.UNKNOWN),
        _finding("node-3", Health.HEALTHY),
        _finding("node-3", Health.BROKEN, "store"),
    )
    assert check.broken() == {"shop/node-1/node_down", "shop/node-3/store"}


def test_what_was_seen_cannot_be_changed_afterwards() -> None:
    with pytest.raises(FrozenInstanceError):
        OBSERVATION.problem = "none"  # type: ignore[misc]
