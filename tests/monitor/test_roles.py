"""Conditions that belonged to a role go when the role has moved, and only then."""

from __future__ import annotations

from dataclasses import replace

import pytest

from operator_protocols.domain.health import Health
from operator_protocols.domain.observation import CheckResult, Finding, Observation, Seen
from operator_protocols.ports import Condition
from operator_sre.monitor.roles import find_moved, find_settled
from tests.contract.clock import NOON

OLD, NEW = Seen("db-1", {"role": "replica"}), Seen("db-2", {"role": "primary"})
BROKEN = Condition("shop", "writes", "db-1", Health.UNKNOWN, NOON, NOON)
UNKNOWN = replace(BROKEN, broken_since=None)
WELL = (Finding("up", "db-1", Health.HEALTHY), Finding("up", "db-2", Health.HEALTHY))
WRITES = Finding("writes", "db-2", Health.HEALTHY)


def _check(*findings: Finding, seen: tuple[Seen, ...] = (OLD, NEW)) -> CheckResult:
    return CheckResult(Observation("shop", NOON, seen), findings)


def test_what_was_broken_holds_once_the_role_has_moved_and_it_holds_there() -> None:
    (moved,) = find_moved(_check(*WELL, WRITES), [BROKEN])
    assert (moved.target, moved.health) == ("db-1", Health.HEALTHY)
    assert "db-2" in moved.detail


@pytest.mark.parametrize(
    "check",
    [
        _check(*WELL),  # nobody has the role
        _check(*WELL, replace(WRITES, health=Health.BROKEN)),
        _check(*WELL, replace(WRITES, health=Health.UNKNOWN)),
        _check(replace(WELL[0], health=Health.BROKEN), WELL[1], WRITES),
        _check(replace(WELL[0], health=Health.UNKNOWN), WELL[1], WRITES),
        _check(*WELL, WRITES, seen=(NEW,)),
        _check(*WELL, WRITES, seen=(replace(OLD, problem="no answer"), NEW)),
        _check(*WELL, WRITES, seen=(replace(OLD, readings={"role": "primary"}), NEW)),
        _check(*WELL, WRITES, seen=(replace(OLD, readings={}), NEW)),
        _check(*WELL, WRITES, replace(WRITES, target="db-1", health=Health.BROKEN)),
    ],
)
def test_nothing_else_is_a_recovery(check: CheckResult) -> None:
    assert find_moved(check, [BROKEN]) == ()


def test_what_was_never_broken_is_dropped_once_its_target_answers() -> None:
    assert find_settled([UNKNOWN, BROKEN], _check(*WELL)) == (UNKNOWN,)
    down = replace(WELL[0], health=Health.BROKEN)
    assert find_settled([UNKNOWN], _check(down, WELL[1])) == ()
    assert find_settled([UNKNOWN], _check(*WELL, replace(WRITES, target="db-1"))) == ()
