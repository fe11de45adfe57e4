"""Several processes on one database: one chain, one ticket for a break, one worker for a ticket."""

from __future__ import annotations

import pytest

from operator_protocols.domain.ticket import TicketState
from tests.contract.actor import APPENDED, OPENED, Actor, actors
from tests.contract.samples import violation
from tests.contract.stores import Home
from tests.contract.verified import verified


def test_two_writers_make_one_chain(home: Home) -> None:
    said = [actor.rest() for actor in actors(home, "append", "left", "right")]
    ports = home.open()
    report = verified(ports.entries)
    assert (report.entries, report.damages) == (2 * APPENDED, ())
    for name, numbers in zip(("left", "right"), said, strict=True):
        mine = ports.entries.after(0, limit=2 * APPENDED, run=name)
        assert [entry.seq for entry in mine] == [int(number) for number in numbers]
        assert [entry.payload["number"] for entry in mine] == list(range(APPENDED))


def test_two_monitors_open_one_ticket_for_each_break(home: Home) -> None:
    said = [actor.rest() for actor in actors(home, "open", "left", "right")]
    tickets = home.open().tickets.find()
    assert sorted(one.target for one in tickets) == sorted(f"node-{n}" for n in range(OPENED))
    assert sum(word == "conflict" for words in said for word in words) == OPENED
    assert sum(len(words) for words in said) == 2 * OPENED


@pytest.mark.asyncio
async def test_two_workers_share_the_tickets(home: Home) -> None:
    ports = home.open()
    for number in range(OPENED):
        await ports.tickets.open([violation(f"node-{number}")])
    said = [actor.rest() for actor in actors(home, "claim", "left", "right")]
    assert sorted(int(word) for words in said for word in words) == list(range(1, OPENED + 1))
    for name, words in zip(("left", "right"), said, strict=True):
        held = [one.id for one in ports.tickets.find() if one.worker == name]
        assert sorted(held) == sorted(int(word) for word in words)
    assert {one.state for one in ports.tickets.find()} == {TicketState.CLAIMED}


@pytest.mark.parametrize(
    "after", [7, *(pytest.param(count, marks=pytest.mark.slow) for count in (1, 60))]
)
def test_what_was_acknowledged_survives_a_kill(home: Home, after: int) -> None:
    writer = Actor(home, "stream", "victim")
    writer.go()
    acknowledged = [int(writer.line()) for _ in range(after)]
    acknowledged += [int(line) for line in writer.kill()]
    ports = home.open()
    report = verified(ports.entries)
    assert report.whole
    assert report.entries >= len(acknowledged)
    for number, seq in enumerate(acknowledged):
        entry = ports.entries.get(seq)
        assert entry is not None
        assert entry.payload == {"by": "victim", "number": number}


def test_a_killed_writer_does_not_lock_the_others_out(home: Home) -> None:
    victim = Actor(home, "stream", "victim")
    victim.go()
    victim.line()
    victim.kill()
    (heir,) = actors(home, "append", "heir")
    assert len(heir.rest()) == APPENDED
    assert verified(home.open().entries).whole


def test_several_processes_may_meet_a_database_that_is_not_there_yet(home: Home) -> None:
    said = [actor.rest() for actor in actors(home, "create", *"abcd")]
    assert sorted(int(word) for words in said for word in words) == [1, 2, 3, 4]
    assert verified(home.open().entries).whole
