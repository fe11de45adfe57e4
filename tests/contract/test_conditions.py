"""What Conditions promise: clocks that survive a restart."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from operator_protocols.domain.health import Health
from operator_protocols.ports import Condition
from tests.contract.clock import NOON
from tests.contract.stores import Home, Ports

pytestmark = pytest.mark.asyncio

BROKEN = Condition(
    subject="shop",
    invariant="node_down",
    target="node-1",
    health=Health.BROKEN,
    since=NOON + timedelta(microseconds=123456),
    broken_since=NOON - timedelta(days=400),
    detail='it says "no"\n\ud800',
)
WELL = replace(BROKEN, target="node-2", health=Health.HEALTHY, broken_since=None, detail="")
FLAPS = replace(BROKEN, breaks=(NOON, NOON + timedelta(minutes=1), NOON + timedelta(minutes=2)))


async def test_conditions_come_back_as_they_were(ports: Ports) -> None:
    await ports.conditions.update([BROKEN, WELL])
    assert set(ports.conditions.of("shop")) == {BROKEN, WELL}
    assert list(ports.conditions.of("bank")) == []


async def test_a_condition_is_kept_once_for_its_place(ports: Ports) -> None:
    await ports.conditions.update([BROKEN])
    later = replace(BROKEN, health=Health.UNKNOWN, since=NOON)
    await ports.conditions.update([later])
    assert list(ports.conditions.of("shop")) == [later]


async def test_what_is_not_mentioned_stays(ports: Ports) -> None:
    await ports.conditions.update([BROKEN, WELL])
    await ports.conditions.update([])
    await ports.conditions.update([replace(WELL, detail="fine")])
    assert set(ports.conditions.of("shop")) == {BROKEN, replace(WELL, detail="fine")}


async def test_subjects_do_not_mix(ports: Ports) -> None:
    await ports.conditions.update([BROKEN, replace(BROKEN, subject="bank")])
    assert [one.subject for one in ports.conditions.of("bank")] == ["bank"]


async def test_what_is_forgotten_is_gone_and_nothing_else(ports: Ports) -> None:
    await ports.conditions.update([BROKEN, WELL, replace(BROKEN, subject="bank")])
    await ports.conditions.forget([BROKEN, replace(WELL, target="nosuch")])
    await ports.conditions.forget([])
    assert list(ports.conditions.of("shop")) == [WELL]
    assert len(ports.conditions.of("bank")) == 1


async def test_conditions_survive_a_reopened_database(home: Home) -> None:
    await home.open().conditions.update([FLAPS, WELL])
    home.close()
    assert set(home.open().conditions.of("shop")) == {FLAPS, WELL}
