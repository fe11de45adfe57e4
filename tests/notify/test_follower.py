"""Followers: at least once, once where nothing goes wrong, grouped, bounded, one at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from operator_protocols.domain.entry import Cursor, Draft, Kind
from operator_protocols.domain.health import Severity
from operator_sre.notify.channel import ATTEMPTS_MAX, LEASE_S, Channel, Follower, Terms
from operator_sre.notify.notice import Event, Message, quiet_of
from operator_sre.store import Store, open_store
from tests.contract.clock import HeldClock, LeapingClock
from tests.contract.samples import approval, resolved, violation
from tests.processes.waiting import eventually

pytestmark = pytest.mark.asyncio


class Wire:
    """A channel that refuses as often as the test says."""

    name = "wire"

    def __init__(self) -> None:
        self.sent: list[Message] = []
        self.tried = 0
        self.refuse = 0
        self.die = False

    async def send(self, message: Message) -> str:
        self.tried += 1
        if self.refuse > 0:
            self.refuse -= 1
            return "not now"
        self.sent.append(message)
        if self.die:  # the process is killed when it has sent, and before it can write that down
            raise asyncio.CancelledError
        return ""

    @property
    def titles(self) -> list[str]:
        return [one.title.removeprefix("Operator: ") for one in self.sent]


@pytest.fixture
def clock() -> LeapingClock:
    return LeapingClock()


@pytest.fixture
def store(tmp_path: Path, clock: LeapingClock) -> Iterator[Store]:
    opened = open_store(tmp_path / "operator.db", clock=clock)
    yield opened
    opened.close()


def _follower(
    store: Store, clock: HeldClock, wire: Channel, holder: str = "one", **terms: object
) -> Follower:
    return Follower(
        channel=wire,
        cursors=store.cursors,
        entries=store.entries,
        tickets=store.tickets,
        approvals=store.approvals,
        clock=clock,
        holder=holder,
        terms=replace(Terms(), **terms),  # type: ignore[arg-type]
        redact=lambda text: text.replace("hunter2", "[gone]"),
    )


async def _claimed(store: Store, holder: str = "one") -> Cursor:
    cursor = await store.cursors.claim("notify/wire", holder, lease_s=LEASE_S)
    assert cursor is not None
    return cursor


async def _open(store: Store, *names: str, severity: Severity = Severity.CRITICAL) -> None:
    for name in names:
        await store.tickets.open([violation(name, severity=severity, detail="hunter2")])


async def test_what_happened_before_anybody_followed_is_not_told(
    store: Store, clock: LeapingClock
) -> None:
    wire = Wire()
    await _open(store, "old")
    cursor = await _claimed(store)
    await _open(store, "new")
    await _follower(store, clock, wire).step(cursor)
    assert wire.titles == ["ticket 2 opened (critical): new: node_down: [gone]"]


async def test_several_within_the_time_are_one_message_and_none_is_told_twice(
    store: Store, clock: LeapingClock
) -> None:
    wire, cursor = Wire(), await _claimed(store)
    follower = _follower(store, clock, wire)
    await _open(store, "a", "b", "c")
    cursor = await follower.step(cursor)
    for _ in range(5):
        cursor = await follower.step(cursor)
    assert wire.titles == ["3 opened (critical): tickets 1, 2, 3"]
    assert "[gone]" in wire.sent[0].body
    assert "hunter2" not in wire.sent[0].body


async def test_it_waits_for_more_before_it_sends(tmp_path: Path) -> None:
    clock, wire = HeldClock(), Wire()
    store = open_store(tmp_path / "operator.db", clock=clock)
    cursor = await _claimed(store)
    await _open(store, "a")
    step = asyncio.ensure_future(_follower(store, clock, wire, group_s=8.0).step(cursor))
    await clock.asleep(for_s=8.0)
    await _open(store, "b")
    assert wire.sent == []
    clock.advance(8.0)
    await step
    assert wire.titles == ["2 opened (critical): tickets 1, 2"]
    store.close()


async def test_at_night_only_what_is_critical_is_told_and_the_rest_afterwards(
    store: Store, clock: LeapingClock
) -> None:
    begun, wire, cursor = clock.now(), Wire(), await _claimed(store)
    follower = _follower(store, clock, wire, quiet=quiet_of("11:00-12:05"))
    await _open(store, "a", severity=Severity.WARNING)
    cursor = await follower.step(cursor)
    assert (clock.now() - begun).total_seconds() >= 300
    assert wire.titles[0].startswith("ticket 1 opened")
    late = _follower(store, clock, wire, quiet=quiet_of("00:00-23:59"))
    await _open(store, "b", severity=Severity.WARNING)
    await _open(store, "c")
    before = clock.now()
    await late.step(cursor)
    assert (clock.now() - before).total_seconds() < 60
    assert wire.titles[1:] == ["2 opened (critical): tickets 2, 3"]


async def test_only_what_is_wanted_is_told(store: Store, clock: LeapingClock) -> None:
    wire, cursor = Wire(), await _claimed(store)
    await _open(store, "a", severity=Severity.INFO)
    await _open(store, "b", severity=Severity.WARNING)
    claimed = await store.leases.claim("worker", run="run-1", lease_s=30.0, attempts_max=3)
    assert claimed is not None
    await store.leases.end(claimed, resolved(claimed))
    wanted = _follower(
        store,
        clock,
        wire,
        events=frozenset({Event.OPENED}),
        min_severity=Severity.WARNING,
    )
    await wanted.step(cursor)
    assert wire.titles == ["ticket 2 opened (warning): b: node_down: [gone]"]


async def test_requests_and_their_escalation_are_told(store: Store, clock: LeapingClock) -> None:
    wire, cursor = Wire(), await _claimed(store)
    follower = _follower(store, clock, wire)
    await store.approvals.request(approval("a9", at=clock.now()))
    cursor = await follower.step(cursor)
    louder = {"id": "a9", "reason": "nobody answered"}
    await store.journal.append(Draft(Kind.APPROVAL_ESCALATED, louder))
    await follower.step(cursor)
    first, second = wire.sent
    assert "operator approvals approve a9" in first.body
    assert "still needed" in second.title


async def test_it_tries_again_and_a_success_leaves_no_trace(
    store: Store, clock: LeapingClock
) -> None:
    wire, cursor = Wire(), await _claimed(store)
    wire.refuse = ATTEMPTS_MAX - 1
    await _open(store, "a")
    begun = clock.monotonic()
    cursor = await _follower(store, clock, wire).step(cursor)
    assert (len(wire.sent), wire.tried) == (1, ATTEMPTS_MAX)
    assert clock.monotonic() - begun >= 10 + 1 + 2 + 4 + 8
    assert (cursor.note["sent"], cursor.note["lost"], cursor.note["problem"]) == (1, 0, "")


async def test_attempts_are_bounded_and_what_was_lost_is_said_later(
    store: Store, clock: LeapingClock
) -> None:
    wire, cursor = Wire(), await _claimed(store)
    follower = _follower(store, clock, wire)
    wire.refuse = ATTEMPTS_MAX
    await _open(store, "a", "b")
    cursor = await follower.step(cursor)
    assert (wire.sent, wire.tried) == ([], ATTEMPTS_MAX)
    (known,) = store.cursors.find()
    assert (known.note["failed"], known.note["lost"]) == (1, 2)
    assert known.note["problem"] == "not now"
    await _open(store, "c")
    cursor = await follower.step(cursor)
    assert "2 earlier notices could not be delivered" in wire.sent[0].body
    assert (cursor.note["lost"], cursor.note["failed"]) == (0, 1)


async def test_too_many_in_an_hour_are_held_back_and_summed_up(
    store: Store, clock: LeapingClock
) -> None:
    wire, cursor = Wire(), await _claimed(store)
    follower = _follower(store, clock, wire, per_hour_max=3)
    for name in "abc":
        await _open(store, name)
        cursor = await follower.step(cursor)
    first = clock.monotonic()
    await _open(store, "d", "e")
    cursor = await follower.step(cursor)
    assert len(wire.sent) == 4
    assert wire.titles[3] == "2 opened (critical): tickets 4, 5"
    assert "were delayed" in wire.sent[3].body
    assert clock.monotonic() - first > 3000
    assert "were delayed" not in wire.sent[2].body


async def test_killed_between_sending_and_writing_it_down_it_is_sent_again_and_says_so(
    store: Store, clock: LeapingClock
) -> None:
    wire, cursor = Wire(), await _claimed(store)
    wire.die = True
    await _open(store, "a", "b")
    with pytest.raises(asyncio.CancelledError):
        await _follower(store, clock, wire).step(cursor)
    wire.die = False
    clock.advance(LEASE_S + 1)
    await _open(store, "c")  # which nobody has told of yet
    after = await _claimed(store, "two")
    follower = _follower(store, clock, wire, "two")
    after = await follower.step(after)
    after = await follower.step(after)
    await follower.step(after)
    assert [one.title for one in wire.sent] == [
        "Operator: 2 opened (critical): tickets 1, 2",
        "[again] Operator: 2 opened (critical): tickets 1, 2",
        "Operator: ticket 3 opened (critical): c: node_down: [gone]",
    ]


async def test_of_several_followers_one_sends(store: Store, clock: LeapingClock) -> None:
    wire = Wire()
    await _claimed(store, "somebody")
    await store.cursors.release(await _claimed(store, "somebody"))
    followers = [_follower(store, clock, wire, str(n)) for n in range(4)]
    tasks = [asyncio.ensure_future(one.run()) for one in followers]
    await _open(store, "a")
    await eventually(lambda: wire.sent)
    for _ in range(500):  # long enough, on a clock that leaps, for each of them to send it too
        await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    assert wire.titles == ["ticket 1 opened (critical): a: node_down: [gone]"]


async def test_a_store_that_is_closed_keeps_nobody_from_stopping(
    store: Store, clock: LeapingClock
) -> None:
    task = asyncio.ensure_future(_follower(store, clock, Wire()).run())
    await eventually(lambda: store.cursors.find())
    store.close()
    task.cancel()
    done, _ = await asyncio.wait([task], timeout=20)
    assert done
    assert task.cancelled()


async def test_whoever_lost_the_lease_sends_nothing_more(store: Store, clock: LeapingClock) -> None:
    wire, stale = Wire(), await _claimed(store)
    clock.advance(LEASE_S + 1)
    await _claimed(store, "two")
    await _open(store, "a")
    with pytest.raises(Exception, match=r"^$"):
        await _follower(store, clock, wire).step(stale)
    assert wire.sent == []


async def test_a_busy_ledger_is_followed_without_writing(store: Store, clock: LeapingClock) -> None:
    cursor = await _claimed(store)
    drafts = [Draft(Kind.REASONING, {"a": 1})] * 1200
    await asyncio.gather(*(store.journal.append(draft) for draft in drafts))
    moved = await _follower(store, clock, Wire()).step(cursor)
    assert moved.seq == 1200
    assert store.cursors.find()[0].seq == 0
