"""What Watchers promise: who is there, as they last said."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from operator_protocols.domain.watcher import Watch, Watcher
from tests.contract.clock import NOON
from tests.contract.stores import Home, Ports

pytestmark = pytest.mark.asyncio

HERE = Watcher("here:1", NOON, NOON, (Watch("shop", 5.0, NOON, 0.25, looks=7, missed=1),))


async def test_the_last_word_counts_and_survives(home: Home) -> None:
    ports = home.open()
    await ports.watchers.beat(HERE)
    later = replace(HERE, at=NOON + timedelta(seconds=5), watches=())
    await ports.watchers.beat(later)
    home.close()
    assert list(home.open().watchers.find()) == [later]


async def test_who_spoke_last_comes_first(ports: Ports) -> None:
    await ports.watchers.beat(HERE)
    other = replace(HERE, worker="there:2", at=NOON + timedelta(seconds=1))
    await ports.watchers.beat(other)
    assert list(ports.watchers.find()) == [other, HERE]


async def test_who_leaves_is_not_there(ports: Ports) -> None:
    await ports.watchers.beat(HERE)
    await ports.watchers.leave("here:1")
    await ports.watchers.leave("nosuch")
    assert list(ports.watchers.find()) == []


async def test_who_said_nothing_for_a_day_is_forgotten(ports: Ports) -> None:
    await ports.watchers.beat(HERE)
    late = replace(HERE, worker="there:2", at=NOON + timedelta(days=1, seconds=1))
    await ports.watchers.beat(late)
    assert list(ports.watchers.find()) == [late]


async def test_a_heartbeat_is_no_entry_of_the_ledger(ports: Ports) -> None:
    await ports.watchers.beat(HERE)
    assert list(ports.entries.after(0, limit=9)) == []
