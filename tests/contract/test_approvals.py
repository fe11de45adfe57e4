"""What Approvals promise: one answer to each request, in time, and bound to what was asked."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from operator_protocols.domain.entry import Kind
from operator_protocols.domain.permit import Approval, ApprovalState
from operator_protocols.errors import ConflictError, NotFoundError
from tests.contract.clock import HeldClock
from tests.contract.samples import approval
from tests.contract.stores import Home, Ports

pytestmark = pytest.mark.asyncio


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
    decided = await ports.approvals.decide("a1", state, by="ada", reason="because 'quoted'")
    expected = replace(asked, state=state, decided_by="ada", reason="because 'quoted'")
    assert decided == expected
    assert ports.approvals.get("a1") == expected
    told = ports.entries.newest(limit=1)[0]
    assert (told.kind, told.actor.id, told.ticket) == (Kind.APPROVAL_DECIDED, "ada", 1)


@pytest.mark.parametrize("second", list(ApprovalState)[1:])
@pytest.mark.parametrize("first", list(ApprovalState)[1:])
async def test_no_answer_follows_an_answer(
    ports: Ports, first: ApprovalState, second: ApprovalState
) -> None:
    await ports.approvals.request(approval())
    decided = await ports.approvals.decide("a1", first, by="ada", reason="")
    before = list(ports.entries.after(0, limit=10))
    with pytest.raises(ConflictError, match="already"):
        await ports.approvals.decide("a1", second, by="bob", reason="")
    assert ports.approvals.get("a1") == decided
    assert list(ports.entries.after(0, limit=10)) == before


async def test_one_of_two_answers_at_once_wins(home: Home) -> None:
    one, other = home.open(), home.open()
    await one.approvals.request(approval())
    outcomes = await asyncio.gather(
        one.approvals.decide("a1", ApprovalState.APPROVED, by="ada", reason=""),
        other.approvals.decide("a1", ApprovalState.REJECTED, by="bob", reason=""),
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
        await ports.approvals.decide("a1", state, by="ada", reason="")
    expired = await ports.approvals.decide("a1", ApprovalState.EXPIRED, by="operator", reason="")
    assert expired.state is ApprovalState.EXPIRED


async def test_an_answer_at_the_last_moment_counts(ports: Ports, clock: HeldClock) -> None:
    await ports.approvals.request(approval(within_s=60.0))
    clock.advance(59.9)
    decided = await ports.approvals.decide("a1", ApprovalState.APPROVED, by="ada", reason="")
    assert decided.state is ApprovalState.APPROVED


async def test_an_unknown_request_cannot_be_answered(ports: Ports) -> None:
    with pytest.raises(NotFoundError, match="'nothing'"):
        await ports.approvals.decide("nothing", ApprovalState.APPROVED, by="ada", reason="")
    assert list(ports.entries.after(0, limit=10)) == []


async def test_requests_are_found_by_state_oldest_first(ports: Ports) -> None:
    for name in ("b", "c", "a"):
        await ports.approvals.request(approval(name))
    await ports.approvals.decide("c", ApprovalState.REJECTED, by="ada", reason="")
    pending = ports.approvals.find(states=[ApprovalState.PENDING])
    assert [one.id for one in pending] == ["b", "a"]
    assert [one.id for one in ports.approvals.find()] == ["b", "c", "a"]


async def test_requests_and_answers_survive_a_reopened_database(home: Home) -> None:
    ports = home.open()
    await ports.approvals.request(approval("a"))
    await ports.approvals.request(approval("b"))
    decided = await ports.approvals.decide("b", ApprovalState.REJECTED, by="ada", reason="no")
    home.close()
    again = home.open()
    assert list(again.approvals.find()) == [approval("a"), decided]


async def test_hostile_words_of_a_person_do_no_harm(ports: Ports) -> None:
    await ports.approvals.request(approval())
    reason = "\"}', \x00 \ud800"
    decided = await ports.approvals.decide("a1", ApprovalState.REJECTED, by="\udcff", reason=reason)
    assert decided.reason.startswith("\"}', ")
    assert decided.action == approval().action
