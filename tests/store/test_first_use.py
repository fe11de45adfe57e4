"""Whoever comes first makes the tables, however many come at once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from operator_sre.store.schema import SCHEMA_VERSION
from operator_sre.store.store import database_at
from tests.store.life import Estate, quietly

AT_ONCE = 8


def test_many_who_meet_an_empty_place_make_one_store(estate: Estate) -> None:
    gate = threading.Barrier(AT_ONCE)

    def come(_: int) -> int:
        database = database_at(estate.place)
        gate.wait(10.0)
        database.prepare()
        return database.version()

    with ThreadPoolExecutor(AT_ONCE) as crowd:
        assert list(crowd.map(come, range(AT_ONCE))) == [SCHEMA_VERSION] * AT_ONCE
    assert estate.upkeep.check(progress=quietly).sound


def test_making_it_again_changes_nothing(lived: Estate) -> None:
    before = lived.change("SELECT * FROM entries ORDER BY seq")
    lived.upkeep.database.prepare()
    assert lived.change("SELECT * FROM entries ORDER BY seq") == before
