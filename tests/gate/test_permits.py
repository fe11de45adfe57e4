"""From a verdict to a permit: at once, after a person's answer, or not at all."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from operator_protocols.domain.action import Action, Outcome, Result
from operator_protocols.domain.entry import Kind
from operator_protocols.domain.permit import ApprovalState, Permit
from operator_protocols.domain.verdict import Level, Mode, Risk
from operator_sre.gate import Profile
from tests.gate.office import ACTION, LOOK, POLL_S, TICKET, Office, crash

pytestmark = pytest.mark.asyncio

# For each mode, profile and place: SAFE, then REVIEW by risk, then BLOCKED.
MATRIX = [
    (Mode.OBSERVE, Profile.STANDARD, True, "run refuse refuse refuse refuse refuse"),
    (Mode.OBSERVE, Profile.LAB, True, "run refuse refuse refuse refuse refuse"),
    (Mode.OBSERVE, Profile.LAB, False, "run refuse refuse refuse refuse refuse"),
    (Mode.APPROVE, Profile.STANDARD, True, "run ask ask ask ask refuse"),
    (Mode.APPROVE, Profile.LAB, True, "run ask ask ask ask refuse"),
    (Mode.APPROVE, Profile.LAB, False, "run ask ask ask ask refuse"),
    (Mode.EXECUTE, Profile.STANDARD, True, "run run ask ask ask refuse"),
    (Mode.EXECUTE, Profile.LAB, True, "run run run run run refuse"),
    (Mode.EXECUTE, Profile.LAB, False, "run ask ask ask ask refuse"),
]
COLUMNS = [
    (Level.SAFE, Risk.LOW),
    *((Level.REVIEW, risk) for risk in Risk),
    (Level.BLOCKED, Risk.CRITICAL),
]
CELLS = [
    (mode, profile, inside, level, risk, expected)
    for mode, profile, inside, row in MATRIX
    for (level, risk), expected in zip(COLUMNS, row.split(), strict=True)
]


@pytest.mark.parametrize(("mode", "profile", "inside", "level", "risk", "expected"), CELLS)
async def test_what_happens_by_mode_profile_level_and_risk(
    office: Office,
    mode: Mode,
    profile: Profile,
    inside: bool,
    level: Level,
    risk: Risk,
    expected: str,
) -> None:
    office.policy = replace(
        office.policy,
        mode=mode,
        profile=profile,
        boundary_tools=frozenset({"restart_node"}),
        boundary_targets=frozenset({"node-1"} if inside else {"node-9"}),
    )
    gate = office.gate()
    verdict = replace(gate.judge(ACTION), level=level, risk=risk)
    waiting = asyncio.ensure_future(gate.permit(verdict, TICKET))
    asleep = asyncio.ensure_future(office.clock.asleep())
    await asyncio.wait([waiting, asleep], return_when=asyncio.FIRST_COMPLETED)
    asked = len(office.store.approvals.find(states=[ApprovalState.PENDING]))
    if expected == "ask":
        assert not waiting.done()
        assert asked == 1
        waiting.cancel()
    else:
        outcome = await waiting
        assert asked == 0
        assert isinstance(outcome, Permit if expected == "run" else Result)
        assert (Kind.PERMIT_MINTED in office.kinds()) is (expected == "run")
    assert office.kinds()[0] is Kind.VERDICT
    for task in (waiting, asleep):
        task.cancel()
    await asyncio.gather(waiting, asleep, return_exceptions=True)


async def test_a_permit_is_bound_to_the_claim_and_the_action(office: Office) -> None:
    permit = await office.ask(LOOK)
    assert isinstance(permit, Permit)
    assert (permit.ticket, permit.run, permit.epoch) == (TICKET.id, TICKET.run, TICKET.epoch)
    assert permit.policy_digest == office.policy.digest
    assert 0 < (permit.expires_at - office.clock.now()).total_seconds() <= 60.0


async def test_two_permits_are_never_the_same(office: Office) -> None:
    permits = [await office.ask(LOOK) for _ in range(2)]
    assert len({permit.id for permit in permits if isinstance(permit, Permit)}) == 2


async def test_a_refusal_says_why_and_is_remembered(office: Office) -> None:
    refusal = await office.ask(Action.shell("rm -rf /"))
    assert isinstance(refusal, Result)
    assert refusal.outcome is Outcome.REFUSED
    assert "Blocked" in refusal.stderr
    assert "deletes the root" in refusal.stderr
    (told,) = office.store.entries.after(0, limit=10)
    assert told.kind is Kind.VERDICT
    assert (told.payload["level"], told.payload["risk"]) == ("blocked", "critical")
    assert (told.ticket, told.run) == (TICKET.id, TICKET.run)


async def test_a_person_who_approves_gives_one_permit(office: Office) -> None:
    waiting = await office.asking()
    approval = await office.answer(ApprovalState.APPROVED)
    office.clock.advance(POLL_S)
    permit = await waiting
    assert isinstance(permit, Permit)
    assert permit.action == ACTION
    kept = office.store.approvals.get(approval.id)
    assert kept is not None
    assert kept.permit == permit.fingerprint
    assert office.kinds() == [
        Kind.VERDICT,
        Kind.APPROVAL_REQUESTED,
        Kind.APPROVAL_DECIDED,
        Kind.PERMIT_MINTED,
    ]


async def test_what_a_person_is_asked_is_what_would_run(office: Office) -> None:
    waiting = await office.asking()
    (asked,) = office.store.approvals.find()
    assert asked.action == ACTION
    assert asked.action.digest == ACTION.digest
    assert (asked.risk, asked.ticket, asked.run) == (Risk.MEDIUM, TICKET.id, TICKET.run)
    assert (asked.expires_at - asked.requested_at).total_seconds() == 60.0
    waiting.cancel()


async def test_a_person_who_rejects_is_obeyed(office: Office) -> None:
    waiting = await office.asking()
    await office.answer(ApprovalState.REJECTED, reason="not during the sale")
    office.clock.advance(POLL_S)
    refusal = await waiting
    assert isinstance(refusal, Result)
    assert "rejected" in refusal.stderr
    assert "not during the sale" in refusal.stderr
    assert Kind.PERMIT_MINTED not in office.kinds()


async def test_silence_refuses(office: Office) -> None:
    waiting = await office.asking()
    office.clock.advance(60.0)
    refusal = await waiting
    assert isinstance(refusal, Result)
    assert "expired" in refusal.stderr
    (asked,) = office.store.approvals.find()
    assert asked.state is ApprovalState.EXPIRED
    assert Kind.PERMIT_MINTED not in office.kinds()


@pytest.mark.parametrize(
    "change",
    [{"mode": Mode.OBSERVE}, {"tools": ()}, {"boundary_tools": frozenset({"other"})}],
    ids=str,
)
async def test_an_answer_under_another_policy_counts_for_nothing(
    office: Office, change: dict[str, object]
) -> None:
    waiting = await office.asking()
    await office.answer(ApprovalState.APPROVED)
    office.policy = replace(office.policy, **change)  # type: ignore[arg-type]
    office.clock.advance(POLL_S)
    refusal = await waiting
    assert isinstance(refusal, Result)
    assert "Superseded" in refusal.stderr
    assert Kind.PERMIT_MINTED not in office.kinds()


async def test_a_request_goes_on_after_a_restart(office: Office) -> None:
    await crash(await office.asking())
    waiting = await office.asking()
    assert len(office.store.approvals.find()) == 1
    await office.answer(ApprovalState.APPROVED)
    office.clock.advance(POLL_S)
    assert isinstance(await waiting, Permit)


async def test_an_answer_given_while_nobody_was_there_is_picked_up(office: Office) -> None:
    await crash(await office.asking())
    await office.answer(ApprovalState.APPROVED)
    assert isinstance(await office.ask(), Permit)
    assert len(office.store.approvals.find()) == 1


async def test_a_refusal_given_while_nobody_was_there_is_obeyed(office: Office) -> None:
    await crash(await office.asking())
    await office.answer(ApprovalState.REJECTED)
    assert isinstance(await office.ask(), Result)
    assert len(office.store.approvals.find()) == 1


async def test_an_answer_is_good_for_one_permit_only(office: Office) -> None:
    waiting = await office.asking()
    await office.answer(ApprovalState.APPROVED)
    office.clock.advance(POLL_S)
    await waiting
    again = await office.asking()
    states = [approval.state for approval in office.store.approvals.find()]
    assert states == [ApprovalState.APPROVED, ApprovalState.PENDING]
    await crash(again)


async def test_an_old_answer_does_not_count_any_more(office: Office) -> None:
    await crash(await office.asking())
    await office.answer(ApprovalState.APPROVED)
    office.clock.advance(61.0)
    again = await office.asking()
    assert len(office.store.approvals.find(states=[ApprovalState.PENDING])) == 1
    await crash(again)


@pytest.mark.parametrize(
    ("action", "run"),
    [
        (replace(ACTION, arguments={"target": "node-2"}), "run-1"),
        (replace(ACTION, cwd="/tmp"), "run-1"),
        (ACTION, "run-2"),
    ],
    ids=["another action", "another folder", "another run"],
)
async def test_an_answer_is_for_what_was_asked_in_this_run(
    office: Office, action: Action, run: str
) -> None:
    await crash(await office.asking())
    await office.answer(ApprovalState.APPROVED)
    again = await office.asking(action, replace(TICKET, run=run))
    assert len(office.store.approvals.find(states=[ApprovalState.PENDING])) == 1
    await crash(again)


async def test_ids_of_requests_cannot_be_guessed_from_one_another(office: Office) -> None:
    waiting = await office.asking()
    (asked,) = office.store.approvals.find()
    assert len(asked.id) >= 12
    await crash(waiting)
