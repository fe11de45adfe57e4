"""kill -9 at any moment: what was acknowledged is there, the chain is whole, and life goes on."""

from __future__ import annotations

import random

import pytest

from operator_sre.ledger import KeyFile, verify
from operator_sre.store import Store
from tests.crash.victim import Victim, size_of
from tests.store.life import Estate, quietly

LINES_MAX = 400
EVERY = 10


def _must_be_whole(estate: Estate, store: Store) -> None:
    key = KeyFile(estate.folder / "ledger.key").key
    report = verify(store.entries, store.checkpoints, trusted_key=key)
    assert report.whole, report.damages


def _must_be_there(store: Store, name: str, lines: list[str]) -> None:
    for line in lines:
        what, place, number = line.split()
        if what == "ticket":
            ticket = store.tickets.get(int(place))
            assert ticket is not None, line
            assert ticket.target == f"{name}-{number}"
            continue
        entry = store.entries.get(int(place))
        assert entry is not None, line
        assert entry.payload["by"] == name
        assert entry.payload["number"] == int(number)
        assert len(entry.payload["text"]) == size_of(int(number))


def _one_life(estate: Estate, name: str, lines_max: int) -> list[str]:
    """A writer that is killed after so many acknowledgements; after none it is still opening."""
    victim = Victim(estate, "forever", name)
    assert victim.line() == "opening\n"
    said = [victim.line() for _ in range(lines_max)]
    return [*said, *victim.kill()]


def _live_and_die(estate: Estate, times: int) -> None:
    moments = random.Random(42)
    acknowledged = 0
    for life in range(times):
        lines_max = moments.choice([0, 1, 5, moments.randrange(LINES_MAX)])
        said = _one_life(estate, f"life-{life}", lines_max)
        acknowledged += len(said)
        if not said and estate.upkeep.database.version() == 0:
            continue  # it came to its end before the store was made
        store = estate.open()
        _must_be_there(store, f"life-{life}", said)
        if life % EVERY == 0:
            _must_be_whole(estate, store)
        store.close()
    assert acknowledged > times
    estate.think({"alive": True})
    store = estate.open()
    _must_be_whole(estate, store)
    store.close()
    assert estate.upkeep.check(progress=quietly).sound


def test_writers_that_are_killed_lose_nothing_they_acknowledged(estate: Estate) -> None:
    _live_and_die(estate, 8)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_two_hundred_writers_that_are_killed_lose_nothing(estate: Estate) -> None:
    _live_and_die(estate, 200)


def test_whoever_is_killed_while_making_a_store_leaves_no_half_of_one(estate: Estate) -> None:
    for life in range(3):
        said = _one_life(estate, f"life-{life}", 0)
        assert said == [] or estate.upkeep.database.version() > 0
    estate.open().close()
    assert estate.upkeep.check(progress=quietly).sound
