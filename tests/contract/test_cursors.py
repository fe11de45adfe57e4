"""What Cursors promise: one follower at a time, which goes on where the last one stopped."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from operator_protocols.domain.entry import Cursor, Draft, Kind
from tests.contract.clock import HeldClock
from tests.contract.stores import Home, Ports

pytestmark = pytest.mark.asyncio

NAME = "notify/a"


async def _claimed(ports: Ports, holder: str = "one") -> Cursor:
    cursor = await ports.cursors.claim(NAME, holder, lease_s=30.0)
    assert cursor is not None
    return cursor


async def test_it_begins_at_the_head_and_goes_on_where_it_was(home: Home) -> None:
    ports = home.open()
    for _ in range(3):
        await ports.journal.append(Draft(Kind.REASONING, {}))
    cursor = await _claimed(ports)
    assert (cursor.seq, cursor.note) == (3, {})
    note = {"sent": 1, "text": "'\x00 ü"}
    assert await ports.cursors.keep(replace(cursor, seq=7, note=note), lease_s=30.0)
    await ports.cursors.release(cursor)
    home.close()
    again = await _claimed(home.open(), "two")
    assert (again.seq, again.note, again.holder) == (7, note, "two")


async def test_one_holds_it_until_its_lease_is_over(ports: Ports, clock: HeldClock) -> None:
    first = await _claimed(ports)
    assert await ports.cursors.claim(NAME, "two", lease_s=30.0) is None
    clock.advance(29.0)
    assert await ports.cursors.keep(first, lease_s=30.0)
    clock.advance(29.0)
    assert await ports.cursors.claim(NAME, "two", lease_s=30.0) is None
    clock.advance(2.0)
    second = await _claimed(ports, "two")
    assert second.epoch > first.epoch
    assert not await ports.cursors.keep(replace(first, seq=99), lease_s=30.0)
    await ports.cursors.release(first)
    (known,) = ports.cursors.find()
    assert (known.holder, known.seq) == ("two", 0)


async def test_whoever_holds_it_may_claim_it_again(ports: Ports) -> None:
    first = await _claimed(ports)
    assert (await _claimed(ports)).epoch == first.epoch + 1


async def test_of_many_who_claim_one_gets_it(home: Home) -> None:
    one, other = home.open(), home.open()
    claims = [(one, other)[n % 2].cursors.claim(NAME, str(n), lease_s=30.0) for n in range(8)]
    got = [cursor for cursor in await asyncio.gather(*claims) if cursor is not None]
    assert len(got) == 1


async def test_they_are_found_by_the_beginning_of_their_name(ports: Ports) -> None:
    for name in ("notify/b", "notify/a", "other"):
        await ports.cursors.claim(name, "one", lease_s=1.0)
    assert [one.name for one in ports.cursors.find("notify/")] == ["notify/a", "notify/b"]
    assert [one.name for one in ports.cursors.find("notify/%")] == []
    assert len(ports.cursors.find()) == 3
