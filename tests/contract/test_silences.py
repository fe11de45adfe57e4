"""What Silences promise: they hold from their start to their end, and the ledger knows of both."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from operator_protocols.domain.entry import Kind
from operator_protocols.domain.silence import Silence
from operator_protocols.errors import ConflictError, NotFoundError
from tests.contract.clock import NOON, HeldClock
from tests.contract.stores import Home, Ports

pytestmark = pytest.mark.asyncio

HOUR = timedelta(hours=1)
QUIET = Silence("quiet-1", NOON, NOON + HOUR, "ada", "a new disk", "shop", "node-*")


async def test_a_silence_holds_until_its_end_and_survives(home: Home) -> None:
    await home.open().silences.add(QUIET)
    home.close()
    silences = home.open().silences
    assert list(silences.find()) == [QUIET]
    assert list(silences.find(at=NOON)) == [QUIET]
    assert list(silences.find(at=NOON + HOUR - timedelta(seconds=1))) == [QUIET]
    assert list(silences.find(at=NOON + HOUR)) == []


async def test_a_silence_that_is_still_to_come_does_not_hold(ports: Ports) -> None:
    await ports.silences.add(replace(QUIET, starts_at=NOON + HOUR / 2))
    assert list(ports.silences.find(at=NOON)) == []
    assert len(ports.silences.find(at=NOON + HOUR / 2)) == 1


async def test_ending_one_leaves_the_record_of_who_and_why(ports: Ports, clock: HeldClock) -> None:
    await ports.silences.add(QUIET)
    clock.advance(60.0)
    await ports.silences.end("quiet-1", by="bob", reason="it was quick")
    (ended,) = ports.silences.find()
    assert (ended.ended_at, ended.ended_by) == (clock.now(), "bob")
    assert ended.ended_because == "it was quick"
    assert list(ports.silences.find(at=clock.now())) == []
    told = ports.entries.after(0, limit=9)
    assert [(one.kind, one.actor.id) for one in told] == [
        (Kind.SILENCE_ADDED, "ada"),
        (Kind.SILENCE_ENDED, "bob"),
    ]


async def test_what_is_over_cannot_be_ended_again(ports: Ports, clock: HeldClock) -> None:
    await ports.silences.add(QUIET)
    await ports.silences.add(replace(QUIET, id="quiet-2"))
    await ports.silences.end("quiet-1", by="bob", reason="")
    with pytest.raises(ConflictError):
        await ports.silences.end("quiet-1", by="bob", reason="")
    clock.advance(3600.0)
    with pytest.raises(ConflictError):
        await ports.silences.end("quiet-2", by="bob", reason="")
    with pytest.raises(NotFoundError):
        await ports.silences.end("nosuch", by="bob", reason="")


async def test_an_id_is_used_once(ports: Ports) -> None:
    await ports.silences.add(QUIET)
    with pytest.raises(ConflictError):
        await ports.silences.add(replace(QUIET, reason="another"))
    assert list(ports.silences.find()) == [QUIET]


async def test_the_newest_comes_first(ports: Ports) -> None:
    for name in ("a", "b"):
        await ports.silences.add(replace(QUIET, id=name))
    assert [one.id for one in ports.silences.find()] == ["b", "a"]


async def test_hostile_words_do_no_harm(ports: Ports) -> None:
    await ports.silences.add(replace(QUIET, target="'; DROP \x00", reason="\ud800"))
    (found,) = ports.silences.find(at=NOON)
    assert found.target == "'; DROP \x00"
