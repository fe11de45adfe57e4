"""What Observations promise: the newest looks at each subject, as they were."""

from __future__ import annotations

from datetime import timedelta

import pytest

from operator_protocols.domain.observation import Observation, Seen
from tests.contract.clock import NOON
from tests.contract.stores import Home, Ports

pytestmark = pytest.mark.asyncio


def _look(number: int, subject: str = "shop") -> Observation:
    seen = (
        Seen("node-1", {"reachable": True, "p99": 1.5, "n": number, "none": None, "s": "ü"}),
        Seen("node-2", problem="it answered 500"),
    )
    return Observation(subject, NOON + timedelta(seconds=number), seen)


async def test_a_look_comes_back_as_it_was(ports: Ports) -> None:
    blind = Observation("shop", NOON, problem="ObservationError: \ud800")
    await ports.observations.add(blind)
    await ports.observations.add(_look(1))
    assert list(ports.observations.newest("shop", limit=10)) == [_look(1), blind]


async def test_the_newest_look_comes_first(ports: Ports) -> None:
    for number in (2, 1, 3):
        await ports.observations.add(_look(number))
    assert list(ports.observations.newest("shop", limit=2)) == [_look(3), _look(2)]


async def test_looks_behind_a_moment_come_in_their_order(ports: Ports) -> None:
    for number in (4, 1, 3, 2):
        await ports.observations.add(_look(number))
    await ports.observations.add(_look(5, "bank"))
    after = NOON + timedelta(seconds=1)
    assert list(ports.observations.after("shop", after, limit=9)) == [_look(2), _look(3), _look(4)]
    assert list(ports.observations.after("shop", after, limit=2)) == [_look(2), _look(3)]


async def test_figures_that_are_no_numbers_come_back(ports: Ports) -> None:
    strange = {"up": float("inf"), "down": float("-inf"), "big": 2**53 + 1}
    await ports.observations.add(Observation("shop", NOON, (Seen("node-1", strange),)))
    (found,) = ports.observations.newest("shop", limit=1)
    assert found.seen[0].readings == strange


async def test_subjects_do_not_mix(ports: Ports) -> None:
    await ports.observations.add(_look(1, "shop"))
    await ports.observations.add(_look(2, "bank"))
    assert list(ports.observations.newest("bank", limit=10)) == [_look(2, "bank")]
    assert list(ports.observations.newest("zoo", limit=10)) == []


async def test_telemetry_stays_out_of_the_ledger(ports: Ports) -> None:
    await ports.observations.add(_look(1))
    assert list(ports.entries.after(0, limit=10)) == []


async def test_looks_survive_a_reopened_database(home: Home) -> None:
    await home.open().observations.add(_look(1))
    home.close()
    assert list(home.open().observations.newest("shop", limit=10)) == [_look(1)]
