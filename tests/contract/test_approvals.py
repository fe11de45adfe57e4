"""What Approvals promise: one answer to each request, in time, and bound to what was asked."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from operator_protocols.domain.entry import Actor, Draft, Kind
from operator_protocols.domain.permit import Approval, ApprovalState
from operator_protocols.errors import ConflictError, NotFoundError
from tests.contract.clock import NOON, HeldClock
from tests.contract.samples import approval, escalated, run_finished, run_started, violation
from tests.contract.stores import Home, Ports

pytestmark = pytest.mark.asyncio

ADA, BOB, OPERATOR = Actor("ada", "user"), Actor("bob", "user"), Actor()
YES, NO = ApprovalState.APPROVED, ApprovalState.REJECTED


async def _decide(
    ports: Ports,
    name: str,
    state: ApprovalState,
    *,
    by: Actor = ADA,
    reason: str = "",
    version: int = 1,
) -> Approval:
    return await ports.approvals.decide(name, state, by=by, reason=reason, version=version)


async def test_a_request_comes_back_as_it_was_made(ports: Ports) -> None:
    asked = approval()
    assert await ports.approvals.request(asked) == asked
    assert ports.approvals.get("a1") == asked
    assert ports.approvals.get("a2") is None


async def test_the_action_is_what_was_asked_for_to_the_last_field(ports: Ports) -> None:
    await ports.approvals.request(approval())
    kept = ports.approvals.get("a1")
    assert kept is not None
    assert kept.action.digest == approval().action.digest


async def test_the_same_id_is_one_request(ports: Ports) -> None:
    first = await ports.approvals.request(approval())
    other = replace(approval(), explanation="something else")
    assert await ports.approvals.request(other) == first
    assert list(ports.approvals.find()) == [first]
    assert len(ports.entries.after(0, limit=10)) == 1


@pytest.mark.parametrize("state", [ApprovalState.APPROVED, ApprovalState.REJECTED])
async def test_an_answer_is_kept_with_who_and_why(ports: Ports, state: ApprovalState) -> None:
    asked = await ports.approvals.request(approval())
    decided = await _decide(ports, "a1", state, reason="because 'quoted'")
    expected = replace(
        asked,
        state=state,
        decided_by="ada",
        decided_at=NOON,
        reason="because 'quoted'",
        approvers=("ada",) if state is YES else (),
        version=2,
    )
    assert decided == expected
    assert ports.approvals.get("a1") == expected
    told = ports.entries.newest(limit=1)[0]
    assert (told.kind, told.actor.id, told.ticket) == (Kind.APPROVAL_DECIDED, "ada", 1)


@pytest.mark.parametrize("second", list(ApprovalState)[1:])
@pytest.mark.parametrize("first", list(ApprovalState)[1:])
async def test_a_no_is_final_and_a_yes_can_only_be_taken_back(
    ports: Ports, first: ApprovalState, second: ApprovalState
) -> None:
    await ports.approvals.request(approval())
    decided = await _decide(ports, "a1", first)
    before = list(ports.entries.after(0, limit=10))
    if first is YES and second not in (YES, NO):
        taken_back = await _decide(ports, "a1", second, by=OPERATOR, version=2)
        assert (taken_back.state, taken_back.version) == (second, 3)
        return
    with pytest.raises(ConflictError, match="already"):
        await _decide(ports, "a1", second, by=BOB, version=2)
    assert ports.approvals.get("a1") == decided
    assert list(ports.entries.after(0, limit=10)) == before


async def test_whoever_saw_an_older_version_is_told_to_look_again(ports: Ports) -> None:
    await ports.approvals.request(replace(approval(), needed=2))
    await _decide(ports, "a1", YES)
    with pytest.raises(ConflictError, match=r"version 2, and you saw 1\. .*approvals show a1"):
        await _decide(ports, "a1", YES, by=BOB, version=1)
    assert (await _decide(ports, "a1", YES, by=BOB, version=2)).state is YES


async def test_two_people_are_two_different_people(ports: Ports) -> None:
    await ports.approvals.request(replace(approval(), needed=2))
    first = await _decide(ports, "a1", YES)
    assert (first.state, first.approvers) == (ApprovalState.PENDING, ("ada",))
    with pytest.raises(ConflictError, match=r"'ada' already approved .* 2 different approvers\."):
        await _decide(ports, "a1", YES, version=2)
    second = await _decide(ports, "a1", YES, by=BOB, version=2)
    assert (second.state, second.approvers) == (YES, ("ada", "bob"))


async def test_one_no_is_enough_where_two_have_to_say_yes(ports: Ports) -> None:
    await ports.approvals.request(replace(approval(), needed=2))
    await _decide(ports, "a1", YES)
    assert (await _decide(ports, "a1", NO, by=BOB, version=2)).state is NO


async def test_an_escalation_is_kept_and_takes_no_answer_away(ports: Ports) -> None:
    await ports.approvals.request(approval())
    louder = Draft(Kind.APPROVAL_ESCALATED, {"id": "a1", "reason": "silence"}, key="a1/escalated")
    await ports.journal.append(louder)
    await ports.journal.append(louder)
    kept = ports.approvals.get("a1")
    assert kept is not None
    assert (kept.escalated, kept.escalated_at, kept.version) == (True, NOON, 1)
    assert (await _decide(ports, "a1", YES)).escalated


@pytest.mark.parametrize("how", ["ended", "given up"])
async def test_a_run_that_is_over_waits_for_nobody(
    ports: Ports, clock: HeldClock, how: str
) -> None:
    await ports.tickets.open([violation()])
    held = await ports.leases.claim("w", run="run-1", lease_s=9.0, attempts_max=3)
    assert held is not None
    await ports.journal.append(run_started(held))
    await ports.approvals.request(approval())
    await ports.approvals.request(replace(approval("of-another"), run="run-2"))
    if how == "ended":
        await ports.leases.end(held, run_finished(held), escalated(held))
    else:
        clock.advance(10.0)
        assert await ports.leases.claim("v", run="x", lease_s=9.0, attempts_max=1) is None
    kept = {one.id: one for one in ports.approvals.find()}
    assert kept["a1"].state is ApprovalState.WITHDRAWN
    assert (kept["a1"].decided_by, bool(kept["a1"].reason)) == ("operator", True)
    assert kept["of-another"].state is ApprovalState.PENDING


async def test_requests_are_found_by_run(ports: Ports) -> None:
    await ports.approvals.request(approval("a"))
    await ports.approvals.request(replace(approval("b"), run="run-2"))
    assert [one.id for one in ports.approvals.find(run="run-2")] == ["b"]
    assert list(ports.approvals.find(run="run-2", states=[YES])) == []


async def test_one_of_two_answers_at_once_wins(home: Home) -> None:
    one, other = home.open(), home.open()
    await one.approvals.request(approval())
    outcomes = await asyncio.gather(
        _decide(one, "a1", ApprovalState.APPROVED),
        _decide(other, "a1", ApprovalState.REJECTED, by=BOB),
        return_exceptions=True,
    )
    assert sum(isinstance(outcome, Approval) for outcome in outcomes) == 1
    assert sum(isinstance(outcome, ConflictError) for outcome in outcomes) == 1


@pytest.mark.parametrize("state", [ApprovalState.APPROVED, ApprovalState.REJECTED])
async def test_an_answer_that_comes_too_late_counts_for_nothing(
    ports: Ports, clock: HeldClock, state: ApprovalState
) -> None:
    await ports.approvals.request(approval(within_s=60.0))
    clock.advance(60.0)
    with pytest.raises(ConflictError, match="expired"):
        await _decide(ports, "a1", state)
    expired = await _decide(ports, "a1", ApprovalState.EXPIRED, by=OPERATOR)
    assert expired.state is ApprovalState.EXPIRED


async def test_an_answer_at_the_last_moment_counts(ports: Ports, clock: HeldClock) -> None:
    await ports.approvals.request(approval(within_s=60.0))
    clock.advance(59.9)
    decided = await _decide(ports, "a1", ApprovalState.APPROVED)
    assert decided.state is ApprovalState.APPROVED


async def test_an_unknown_request_cannot_be_answered(ports: Ports) -> None:
    with pytest.raises(NotFoundError, match="'nothing'"):
        await _decide(ports, "nothing", ApprovalState.APPROVED)
    assert list(ports.entries.after(0, limit=10)) == []


async def test_requests_are_found_by_state_oldest_first(ports: Ports) -> None:
    for name in ("b", "c", "a"):
        await ports.approvals.request(approval(name))
    await _decide(ports, "c", ApprovalState.REJECTED)
    pending = ports.approvals.find(states=[ApprovalState.PENDING])
    assert [one.id for one in pending] == ["b", "a"]
    assert [one.id for one in ports.approvals.find()] == ["b", "c", "a"]


async def test_requests_and_answers_survive_a_reopened_database(home: Home) -> None:
    ports = home.open()
    await ports.approvals.request(approval("a"))
    await ports.approvals.request(approval("b"))
    decided = await _decide(ports, "b", ApprovalState.REJECTED, reason="no")
    home.close()
    again = home.open()
    assert list(again.approvals.find()) == [approval("a"), decided]


async def test_hostile_words_of_a_person_do_no_harm(ports: Ports) -> None:
    await ports.approvals.request(approval())
    reason = "\"}', \x00 \ud800"
    decided = await _decide(
        ports, "a1", ApprovalState.REJECTED, by=Actor("\udcff", "user"), reason=reason
    )
    assert decided.reason.startswith("\"}', ")
    assert decided.action == approval().action
