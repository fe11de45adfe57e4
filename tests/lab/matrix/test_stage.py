"""What the matrix takes for health, and for something else that moved."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from operator_protocols.domain.health import Health, Severity
from operator_protocols.domain.observation import CheckResult, Finding, Observation, Violation
from operator_protocols.domain.target import Target
from operator_sre.monitor import OBSERVABLE, Watched
from tests.lab.matrix.stage import strangers, unwell

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
TARGETS = (
    Target("store", "store"),
    Target("node-1", "node", depends_on=("store",)),
    Target("node-2", "node", depends_on=("store",)),
)


def _watched(*places: tuple[str, str], health: Health = Health.BROKEN) -> Watched:
    findings = tuple(Finding(invariant, target, health) for invariant, target in places)
    violations = tuple(
        Violation("shop", invariant, target, Severity.CRITICAL, "", NOON)
        for invariant, target in places
    )
    return Watched(CheckResult(Observation("shop", NOON), findings), TARGETS, (), violations)


@pytest.mark.parametrize("health", [Health.BROKEN, Health.UNKNOWN])
def test_only_healthy_is_well_and_nothing_seen_is_not(health: Health) -> None:
    assert unwell(_watched(("up", "store"), health=Health.HEALTHY)) == []
    assert unwell(_watched(("up", "store"), health=health)) == [f"up at store: {health} "]
    assert unwell(_watched()) == ["nothing"]


@pytest.mark.parametrize(
    ("place", "hit", "strange"),
    [
        (("up", "store"), "store", False),  # named by the fault, wherever it is
        (("up", "node-2"), "node-1", False),
        (("slow", "node-1"), "store", False),  # it needs what was hit
        (("slow", "store"), "node-1", True),  # what it needs does not follow
        (("slow", "node-2"), "node-1", True),
        (("slow", "node-1"), "node-1", True),  # a fault has to name what it breaks
        ((OBSERVABLE, "node-1"), "node-1", False),
        ((OBSERVABLE, "node-2"), "node-1", True),
        ((OBSERVABLE, "shop"), "node-1", True),
    ],
)
def test_what_neither_is_named_nor_follows_is_strange(
    place: tuple[str, str], hit: str, strange: bool
) -> None:
    found = strangers(_watched(place), ("up",), frozenset({hit}))
    assert found == ({f"{place[0]} at {place[1]}: "} if strange else set())
