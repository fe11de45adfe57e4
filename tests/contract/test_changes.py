"""What Changes promise: what limits go by is counted right, and no two pass where one may."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from operator_protocols.domain.action import Action, Outcome, Result
from operator_protocols.domain.entry import Actor, Entry
from operator_protocols.domain.limits import Limits, Usage
from operator_protocols.domain.permit import Permit
from operator_protocols.errors import PermitError
from tests.contract.actor import CHANGED, actors
from tests.contract.clock import HeldClock
from tests.contract.doing import DONE, Doer
from tests.contract.stores import Home, Ports

pytestmark = pytest.mark.asyncio

LIMITS = Limits(changes_per_hour=30, targets_max=9)
SUBJECT = "shop"
HOUR_S = 3600.0


def _fix(target: str = "node-1") -> Action:
    return Action.shell("systemctl restart x", target=target)


async def _permit(doer: Doer, action: Action) -> Permit:
    permit = await doer.gate.permit(doer.gate.judge(action), doer.ticket)
    assert isinstance(permit, Permit)
    return permit


def _usage(ports: Ports, clock: HeldClock, limits: Limits = LIMITS) -> Usage:
    return ports.limit_usage.usage(SUBJECT, limits, now=clock.now())


async def test_looks_are_no_changes(ports: Ports, clock: HeldClock) -> None:
    doer = await Doer.hired(ports, clock)
    await doer.begin("uptime")
    await doer.refuse(_fix())
    assert _usage(ports, clock) == Usage(SUBJECT)


async def test_changes_are_found_newest_first_and_by_subject(
    ports: Ports, clock: HeldClock
) -> None:
    doer = await Doer.hired(ports, clock)
    await doer.begin("uptime")
    await doer.refuse(_fix())
    first, _ = await doer.begin(_fix())
    assert ports.commands.changes(limit=9)[0][1:] == (SUBJECT, None), "it runs"
    end = await ports.intents.end(first, DONE)
    second, _ = await doer.begin(_fix("node-2"))
    found = ports.commands.changes(limit=9)
    assert [command.seq for command, _, _ in found] == [second.seq, first.seq]
    assert found[1][1:] == (SUBJECT, end.seq)
    assert ports.commands.changes(limit=1, before=second.seq) == found[1:]
    assert ports.commands.changes(subject=SUBJECT, limit=9) == found
    assert ports.commands.changes(subject="bank", limit=9) == []
    hashed = found[1][0].command_hash
    assert ports.commands.succeeded_after(0, hashed, "node-1") == first.seq
    assert ports.commands.succeeded_after(first.seq, hashed, "node-1") is None
    assert ports.commands.succeeded_after(0, hashed, "node-2") is None, "it has not ended"


async def test_a_change_counts_from_its_begin(home: Home, clock: HeldClock) -> None:
    ports = home.open()
    doer = await Doer.hired(ports, clock)
    intent, _ = await doer.begin(_fix())
    begun = Usage(SUBJECT, ("systemctl restart x",), 1, frozenset({"node-1"}))
    assert _usage(ports, clock) == begun
    await ports.intents.end(intent, DONE)
    home.close()
    assert _usage(home.open(), clock) == Usage(SUBJECT, (), 1, frozenset({"node-1"}))


async def test_another_subject_is_another_count(ports: Ports, clock: HeldClock) -> None:
    await (await Doer.hired(ports, clock)).begin(_fix())
    assert ports.limit_usage.usage("bank", LIMITS, now=clock.now()) == Usage("bank")


async def test_a_change_without_a_ticket_counts_for_the_subject_it_was_permitted_for(
    home: Home, clock: HeldClock
) -> None:
    ports = home.open()
    gate = (await Doer.hired(ports, clock)).gate
    me, verdict = Actor("ada", "user", "ada@host:1"), gate.judge(_fix())
    first, second = [await gate.permit(verdict, None, me, subject=SUBJECT) for _ in range(2)]
    assert isinstance(first, Permit)
    assert isinstance(second, Permit)
    assert first.ticket is None
    begun = await ports.intents.begin(first, LIMITS)
    assert (begun.ticket, begun.run, begun.actor) == (None, "", me)
    assert _usage(ports, clock).running == ("systemctl restart x",)
    await _refused(ports, second, LIMITS, "another change of 'shop' is running")
    await ports.intents.end(begun, DONE)
    home.close()
    assert _usage(home.open(), clock).changes == 1


async def test_a_change_that_nobody_ended_stops_counting_as_running(
    ports: Ports, clock: HeldClock
) -> None:
    doer = await Doer.hired(ports, clock)
    await doer.begin(_fix())
    clock.advance(_fix().timeout_s)
    assert _usage(ports, clock).running, "its end may still be on its way"
    clock.advance(20.0)
    assert not _usage(ports, clock).running


async def test_a_tool_changes_the_target_in_its_arguments(ports: Ports, clock: HeldClock) -> None:
    doer = await Doer.hired(ports, clock)
    lie = Action("shell", {"command": "systemctl restart x", "target": "node-2"}, target="node-1")
    await doer.begin(lie)
    assert _usage(ports, clock).targets == {"node-2"}


async def test_windows_forget(ports: Ports, clock: HeldClock) -> None:
    doer = await Doer.hired(ports, clock)
    await doer.run(_fix("node-1"))
    clock.advance(LIMITS.targets_window_s)
    await doer.run(_fix("node-2"))
    assert _usage(ports, clock).targets == {"node-2"}
    assert _usage(ports, clock).changes == 2
    clock.advance(HOUR_S - LIMITS.targets_window_s)
    assert _usage(ports, clock).changes == 1


async def test_failures_count_while_nothing_succeeds(ports: Ports, clock: HeldClock) -> None:
    doer = await Doer.hired(ports, clock)
    for _ in range(2):
        await doer.fail(_fix())
        clock.advance(1.0)
    await doer.run(_fix(), Result(Outcome.CANCELLED))  # says nothing about it
    await doer.fail("ps -p 1")  # a look
    found = _usage(ports, clock)
    assert (found.failures, found.failed_at) == (2, clock.now() - timedelta(seconds=1))
    await doer.run(_fix(), Result(Outcome.TIMED_OUT, 124))
    assert _usage(ports, clock).failures == 3
    await doer.run(_fix())
    assert _usage(ports, clock).failures == 0


async def test_a_reset_counts_anew_and_is_on_record(ports: Ports, clock: HeldClock) -> None:
    doer = await Doer.hired(ports, clock)
    for _ in range(3):
        await doer.fail(_fix())
    await ports.limit_usage.reset(SUBJECT, by="ada", reason="I looked")
    assert _usage(ports, clock) == Usage(SUBJECT)
    told = ports.entries.newest(limit=1)[0]
    assert (told.kind, told.actor.id) == ("limits_reset", "ada")
    await doer.fail(_fix())
    assert _usage(ports, clock).failures == 1


async def _refused(ports: Ports, permit: Permit, limits: Limits, word: str) -> None:
    with pytest.raises(PermitError, match=word):
        await ports.intents.begin(permit, limits)


async def test_a_change_begins_only_within_its_limits(ports: Ports, clock: HeldClock) -> None:
    doer = await Doer.hired(ports, clock)
    intent = await ports.intents.begin(await _permit(doer, _fix()), Limits())
    await _refused(ports, await _permit(doer, _fix()), Limits(), "another change of 'shop'")
    await ports.intents.begin(await _permit(doer, Action.shell("uptime")), Limits())
    await ports.intents.end(intent, DONE)
    often = Limits(changes_per_hour=1)
    await _refused(ports, await _permit(doer, _fix()), often, "1 times within an hour")
    wide = await _permit(doer, _fix("node-2"))
    await _refused(ports, wide, Limits(), "2 targets of 'shop' within 5 minutes, and 1")
    await ports.intents.begin(wide, Limits(targets_max=2))


async def test_after_three_failures_nothing_is_changed_for_a_while(
    ports: Ports, clock: HeldClock
) -> None:
    doer = await Doer.hired(ports, clock)
    for _ in range(3):
        await doer.fail(_fix())
    await _refused(ports, await _permit(doer, _fix()), Limits(), "failed in a row")
    clock.advance(Limits().pause_s)
    intent = await ports.intents.begin(await _permit(doer, _fix()), Limits())
    await ports.intents.end(intent, Result(Outcome.RAN, 1))
    await _refused(ports, await _permit(doer, _fix()), Limits(), "failed in a row")
    await ports.limit_usage.reset(SUBJECT, by="ada", reason="")
    await ports.intents.begin(await _permit(doer, _fix()), Limits())


async def test_of_two_agents_at_once_one_changes_the_subject(home: Home, clock: HeldClock) -> None:
    one, other = home.open(), home.open()
    doers = [await Doer.hired(one, clock, run=f"run-{number}") for number in range(8)]
    permits = [await _permit(doer, _fix()) for doer in doers]
    outcomes = await asyncio.gather(
        *(
            (one, other)[number % 2].intents.begin(permit, LIMITS)
            for number, permit in enumerate(permits)
        ),
        return_exceptions=True,
    )
    assert sum(isinstance(outcome, Entry) for outcome in outcomes) == 1
    refused = [outcome for outcome in outcomes if isinstance(outcome, PermitError)]
    assert len(refused) == len(permits) - 1
    assert all("another change of 'shop' is running" in str(one) for one in refused)


async def test_two_processes_never_change_a_subject_at_once(home: Home) -> None:
    """Each tries again and again; the ledger tells that no two changes overlapped."""
    said = [actor.rest() for actor in actors(home, "change", "left", "right")]
    assert [len(words) for words in said] == [CHANGED, CHANGED]
    open_now = 0
    for entry in home.open().entries.after(0, limit=10_000):
        open_now += {"tool_call": 1, "tool_result": -1}.get(entry.kind, 0)
        assert open_now in (0, 1), f"entry {entry.seq}"
