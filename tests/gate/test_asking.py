"""Asking people: for how long, how many, and what their answer is bound to until it is used."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import msgspec
import pytest

from operator_protocols.domain.action import Action, Result
from operator_protocols.domain.entry import Actor, Kind
from operator_protocols.domain.permit import Approval, ApprovalState, Binding, Permit
from operator_protocols.domain.verdict import Mode, Risk, Verdict
from operator_protocols.errors import AuthorityError
from operator_sre.gate import Answering, Held, LocalPermissions, Policy, Terms
from operator_sre.gate.authority import Grant, GrantedCapabilities, Role
from operator_sre.gate.policy.rule import Decision
from tests.gate.office import ACTION, LOOK, POLL_S, TICKET, Office, crash

pytestmark = pytest.mark.asyncio

DESTROY = Action("destroy_node", {"target": "node-1"}, target="node-1")
YES = ApprovalState.APPROVED


def _refused(outcome: Permit | Result) -> str:
    assert isinstance(outcome, Result)
    return outcome.stderr


async def _after(office: Office, waiting: asyncio.Future[Permit | Result]) -> Permit | Result:
    office.clock.advance(POLL_S)
    return await waiting


def _kept(office: Office) -> Approval:
    (kept,) = office.store.approvals.find()
    return kept


async def test_a_request_says_all_that_a_person_and_a_program_need(office: Office) -> None:
    requester = Actor("felix", "user", agent="agent-7")
    waiting = await office.asking(requester=requester)
    asked = office.asked()
    assert asked.requester == requester
    assert (asked.subject, asked.level, asked.version, asked.needed) == ("shop", "review", 1, 1)
    assert asked.binding == Binding(
        ACTION.digest, "node-1: pid 7 started 1.5", "sha256:environment", office.policy.digest
    )
    assert {entry.actor for entry in office.entries()} == {requester}
    await crash(waiting)


@pytest.mark.parametrize(
    ("requester", "known"),
    [
        (None, Actor("system", "system", "worker-1")),
        (Actor("", "", ""), Actor("unknown", "unknown", "unknown")),
        (Actor("ada", "user"), Actor("ada", "user", "unknown")),
    ],
)
async def test_nobody_asks_without_a_name(
    office: Office, requester: Actor | None, known: Actor
) -> None:
    permit = await office.ask(LOOK, requester=requester)
    assert isinstance(permit, Permit)
    assert permit.requester == known
    assert [entry.actor for entry in office.entries()] == [known] * 2


async def test_a_yes_is_good_for_a_minute_from_when_it_was_said(office: Office) -> None:
    office.terms = Terms(approval_s=600.0)
    await crash(await office.asking())
    office.clock.advance(500.0)
    said_at = office.clock.now()
    await office.answer(YES)
    office.clock.advance(59.0)
    permit = await office.ask()
    assert isinstance(permit, Permit)
    assert (permit.expires_at - said_at).total_seconds() == 60.0


async def test_a_yes_that_nobody_used_in_time_is_over_on_record(office: Office) -> None:
    office.terms = Terms(approval_s=600.0)
    await crash(await office.asking())
    await office.answer(YES)
    office.clock.advance(60.0)
    await crash(await office.asking())
    states = [one.state for one in office.store.approvals.find()]
    assert states == [ApprovalState.EXPIRED, ApprovalState.PENDING]


@pytest.mark.parametrize("what", ["identity", "policy", "environment"])
async def test_a_yes_is_for_the_world_as_it_was_asked_about(office: Office, what: str) -> None:
    waiting = await office.asking()
    await office.answer(YES)
    if what == "identity":
        office.identities["node-1"] = "node-1: pid 7 started 99.5"
    elif what == "policy":
        office.policy = replace(office.policy, boundary_tools=frozenset({"other"}))
    else:
        await crash(waiting)
        office.changed = replace(office.changed, environment="sha256:other")
        waiting = await office.asking()
        assert office.store.approvals.find()[0].state is ApprovalState.SUPERSEDED
        await crash(waiting)
        return
    assert "Superseded" in _refused(await _after(office, waiting))
    kept = _kept(office)
    assert (kept.state, kept.version, kept.permit) == (ApprovalState.SUPERSEDED, 3, "")
    assert Kind.PERMIT_MINTED not in office.kinds()


async def test_a_pending_request_for_another_world_is_superseded(office: Office) -> None:
    await crash(await office.asking())
    office.identities["node-1"] = "node-1: pid 8 started 2.5"
    await crash(await office.asking())
    states = [one.state for one in office.store.approvals.find()]
    assert states == [ApprovalState.SUPERSEDED, ApprovalState.PENDING]


async def test_an_agent_that_asks_differently_withdraws_what_it_asked(office: Office) -> None:
    await crash(await office.asking())
    await crash(await office.asking(replace(ACTION, cwd="/tmp")))
    first, second = office.store.approvals.find()
    assert (first.state, second.state) == (ApprovalState.WITHDRAWN, ApprovalState.PENDING)
    assert "another action" in first.reason


async def test_what_another_run_asked_is_left_alone(office: Office) -> None:
    await crash(await office.asking())
    await crash(await office.asking(DESTROY, replace(TICKET, run="run-2")))
    assert {one.state for one in office.store.approvals.find()} == {ApprovalState.PENDING}


@pytest.mark.parametrize("state", [ApprovalState.WITHDRAWN, ApprovalState.CANCELLED])
async def test_a_request_that_is_taken_back_is_a_refusal(
    office: Office, state: ApprovalState
) -> None:
    waiting = await office.asking()
    await office.answer(state, "not now")
    assert f"The approval was {state}: not now." in _refused(await _after(office, waiting))


async def test_of_several_who_wait_for_one_answer_one_is_permitted(office: Office) -> None:
    waiting = [asyncio.ensure_future(office.ask()) for _ in range(1)]
    await office.clock.asleep()
    waiting += [asyncio.ensure_future(office.ask()) for _ in range(9)]
    await office.clock.asleep(10)
    await office.answer(YES)
    office.clock.advance(POLL_S)
    outcomes = await asyncio.gather(*waiting)
    assert sum(isinstance(one, Permit) for one in outcomes) == 1
    assert (
        sum("already been used" in one.stderr for one in outcomes if isinstance(one, Result)) == 9
    )


async def test_silence_is_escalated_once_and_can_still_be_answered(office: Office) -> None:
    office.terms = Terms(approval_s=60.0, escalate_s=10.0)
    waiting = await office.asking()
    office.clock.advance(9.0)
    await office.clock.asleep()
    assert not office.asked().escalated
    for _ in range(3):
        office.clock.advance(1.0)
        await office.clock.asleep()
    asked = office.asked()
    assert asked.escalated_at is not None
    assert (asked.escalated_at - asked.requested_at).total_seconds() == 10.0
    assert office.kinds().count(Kind.APPROVAL_ESCALATED) == 1
    await office.answer(YES)
    assert isinstance(await _after(office, waiting), Permit)


async def test_a_parked_request_waits_for_hours_and_over_a_restart(office: Office) -> None:
    office.terms = Terms(approval_s=60.0, parked_s=7200.0)
    await crash(await office.asking())
    assert office.asked().parked
    office.clock.advance(7000.0)
    waiting = await office.asking()
    await office.answer(YES)
    assert isinstance(await _after(office, waiting), Permit)
    assert len(office.store.approvals.find()) == 1


async def test_a_parked_request_expires_too(office: Office) -> None:
    office.terms = Terms(approval_s=60.0, parked_s=7200.0)
    waiting = await office.asking()
    office.clock.advance(7200.0)
    assert "expired" in _refused(await waiting)


async def test_what_is_critical_needs_two_different_people(office: Office) -> None:
    office.terms = Terms(approval_s=60.0, two_person=True)
    waiting = await office.asking(DESTROY)
    assert office.asked().needed == 2
    await office.answer(YES)
    office.clock.advance(POLL_S)
    await office.clock.asleep()
    assert not waiting.done()
    await office.answer(YES, by="bob")
    assert isinstance(await _after(office, waiting), Permit)
    assert _kept(office).approvers == ("ada", "bob")


async def test_what_is_not_critical_needs_one(office: Office) -> None:
    office.terms = Terms(approval_s=60.0, two_person=True)
    assert isinstance(await office.approved(), Permit)


@pytest.mark.parametrize("self_approval", [True, False])
async def test_nobody_approves_their_own_request_where_that_is_off(
    office: Office, self_approval: bool
) -> None:
    office.terms = Terms(approval_s=60.0, self_approval=self_approval)
    waiting = await office.asking(requester=Actor("ada", "user"))
    answering = Answering(office.store.approvals, LocalPermissions(), office.terms)
    asked = office.asked()
    if not self_approval:
        with pytest.raises(AuthorityError, match="'ada' requested this action"):
            await answering.answer(asked, YES, by="ada", reason="")
        assert office.asked() == asked
        # Whoever goes around the desk is found out before anything is permitted.
        await office.answer(YES)
        assert "and cannot approve it" in _refused(await _after(office, waiting))
    else:
        await answering.answer(asked, YES, by="ada", reason="")
        assert isinstance(await _after(office, waiting), Permit)


async def test_whoever_may_not_answer_any_more_has_not_answered(office: Office) -> None:
    waiting = await office.asking()
    await office.answer(YES)
    roles = {"ada": Role.VIEWER}
    office.changed = replace(office.changed, permissions=LocalPermissions(roles))
    # The gate that waits keeps the permissions it was made with; one that starts now does not.
    await crash(waiting)
    assert "'ada' is a viewer" in _refused(await office.ask())
    assert _kept(office).state is ApprovalState.SUPERSEDED


@pytest.mark.parametrize("lacking", ["permission", "capability"])
async def test_both_permission_and_capability_are_needed(office: Office, lacking: str) -> None:
    person = Actor("felix", "user", "agent-7")
    roles = {"felix": Role.VIEWER if lacking == "permission" else Role.ADMIN}
    granted = {"agent-7": Grant(frozenset(), frozenset())} if lacking == "capability" else {}
    office.policy = replace(office.policy, mode=Mode.EXECUTE, auto=frozenset(Risk))
    office.changed = replace(
        office.changed,
        permissions=LocalPermissions(roles),
        capabilities=GrantedCapabilities(granted),
    )
    refused = _refused(await office.ask(requester=person))
    assert ("viewer" in refused) is (lacking == "permission")
    assert ("'agent-7' has no grant" in refused) is (lacking == "capability")
    assert office.kinds() == [Kind.VERDICT]


async def _restrain(verdict: Verdict, subject: str, agent: str) -> Held | None:
    assert agent == "worker-1"
    held = {"late": Held(ask="It is late."), "over": Held(refuse="No more.")}
    return held.get(verdict.action.reasoning)


async def test_what_restrains_comes_before_anything_is_permitted(office: Office) -> None:
    office.changed = replace(office.changed, restrain=_restrain)
    assert _refused(await office.ask(replace(LOOK, reasoning="over"))).startswith("No more.")
    assert isinstance(await office.ask(LOOK), Permit)
    waiting = await office.asking(replace(LOOK, reasoning="late"))
    assert office.asked().explanation.startswith("It is late.")
    await office.answer(YES)
    assert isinstance(await _after(office, waiting), Permit)


async def test_what_restrains_is_asked_again_when_people_have_answered(office: Office) -> None:
    held: list[Held] = []

    async def restrain(verdict: Verdict, subject: str, agent: str) -> Held | None:
        return held[0] if held else None

    office.changed = replace(office.changed, restrain=restrain)
    waiting = await office.asking()
    await office.answer(YES)
    held.append(Held(refuse="The kill switch is on."))
    assert "The kill switch is on." in _refused(await _after(office, waiting))
    assert Kind.PERMIT_MINTED not in office.kinds()


async def test_nothing_runs_by_itself_under_a_policy_that_is_over(office: Office) -> None:
    gate = office.gate()
    verdict = gate.judge(LOOK)
    office.policy = Policy(mode=Mode.APPROVE)
    assert "Superseded" in _refused(await gate.permit(verdict, TICKET))


async def test_what_the_policy_denies_is_not_even_asked_about(office: Office) -> None:
    book = msgspec.structs.replace(office.policy.book, approval={"medium": Decision.DENY})
    office.policy = replace(office.policy, book=book)
    assert "Denied: the policy refuses actions of medium risk." in _refused(await office.ask())
    assert office.store.approvals.find() == []
    assert isinstance(await office.ask(LOOK), Permit)


@pytest.mark.parametrize("what", ["policy", "target"])
async def test_what_changes_while_people_think_ends_the_request_at_once(
    office: Office, what: str
) -> None:
    waiting = await office.asking()
    if what == "policy":
        office.policy = replace(office.policy, hosts=frozenset({"10.0.0.1"}))
    else:
        office.identities["node-1"] = "node-1: pid 8 started 2.5"
    office.clock.advance(1.0)
    assert "superseded" in _refused(await waiting)
    kept = _kept(office)
    assert kept.state is ApprovalState.SUPERSEDED
    assert what in kept.reason
    assert kept.approvers == ()


@pytest.mark.parametrize("mode", list(Mode), ids=str)
async def test_a_change_of_the_mode_decides_a_waiting_request_anew(
    office: Office, mode: Mode
) -> None:
    book = msgspec.structs.replace(office.policy.book, approval={"medium": Decision.AUTO})
    office.policy = replace(office.policy, mode=Mode.APPROVE, book=book)
    waiting = await office.asking()
    office.policy = replace(office.policy, mode=mode)
    office.clock.advance(1.0)
    if mode is Mode.APPROVE:
        await office.answer(YES)
        assert isinstance(await _after(office, waiting), Permit), "nothing has changed"
        return
    outcome = await _after(office, waiting)
    kept = _kept(office)
    assert (kept.state, kept.approvers) == (ApprovalState.SUPERSEDED, ())
    assert kept.reason == f"the mode has changed to {mode}"
    if mode is Mode.OBSERVE:
        assert "Proposed only: the mode is observe." in _refused(outcome)
        assert Kind.PERMIT_MINTED not in office.kinds()
    else:
        assert isinstance(outcome, Permit), "the policy lets it run in this mode"
        assert outcome.approval == ""
