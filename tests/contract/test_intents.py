"""What Intents promise: nothing begins without a permit for exactly it, and nothing twice."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from operator_protocols.domain.action import Action, Outcome, Result
from operator_protocols.domain.entry import Actor, Draft, Entry, Kind
from operator_protocols.domain.permit import Approval, ApprovalState, Permit, permit_key
from operator_protocols.domain.ticket import Ticket
from operator_protocols.domain.verdict import Mode
from operator_protocols.errors import ConflictError, PermitError
from operator_sre.codec import from_json
from operator_sre.gate import Gate, Policy, Standing
from tests.contract.clock import HeldClock
from tests.contract.doing import Doer
from tests.contract.samples import escalated, standing_rule, violation
from tests.contract.stores import Home, Ports

pytestmark = pytest.mark.asyncio

LOOK = Action.shell("uptime", target="node-1", reasoning="to see")


async def _claimed(ports: Ports) -> Ticket:
    await ports.tickets.open([violation()])
    ticket = await ports.leases.claim("one", run="run-1", lease_s=30.0, attempts_max=3)
    assert ticket is not None
    return ticket


async def _permit(ports: Ports, clock: HeldClock, ticket: Ticket, action: Action = LOOK) -> Permit:
    """A permit from a real gate: nobody else mints them."""
    gate = Gate(Policy, ports.journal, ports.approvals, clock, lambda: "unused")
    permit = await gate.permit(gate.judge(action), ticket)
    assert isinstance(permit, Permit)
    return permit


def _intents(ports: Ports) -> list[Entry]:
    return [one for one in ports.entries.after(0, limit=1000) if one.kind is Kind.TOOL_CALL]


async def _refused(ports: Ports, permit: Permit, word: str) -> None:
    before = list(ports.entries.after(0, limit=1000))
    with pytest.raises(PermitError, match=word):
        await ports.intents.begin(permit)
    assert list(ports.entries.after(0, limit=1000)) == before


async def test_an_intent_tells_what_is_about_to_run(ports: Ports, clock: HeldClock) -> None:
    permit = await _permit(ports, clock, await _claimed(ports))
    intent = await ports.intents.begin(permit)
    assert (intent.kind, intent.ticket, intent.run) == (Kind.TOOL_CALL, 1, "run-1")
    assert intent.payload["permit"] == permit.fingerprint
    assert from_json(Action, intent.payload["action"]) == LOOK
    assert intent.actor == Actor("system", "system", "one")


async def test_whoever_reads_the_ledger_cannot_use_a_permit(home: Home, clock: HeldClock) -> None:
    ports = home.open()
    permit = await _permit(ports, clock, await _claimed(ports))
    assert len(permit.id) >= 43
    assert permit.id not in repr(permit)
    await _refused(ports, replace(permit, id=permit.fingerprint), "never issued")
    intent = await ports.intents.begin(permit)
    await ports.intents.end(intent, Result(Outcome.RAN, 0))
    with pytest.raises(PermitError) as refused:
        await ports.intents.begin(permit)
    entries = ports.entries.raw(0, limit=100)
    assert permit.id not in str(refused.value)
    assert not [one for one in entries if permit.id.encode() in (one[1] or b"")]
    assert [one for one in entries if permit.fingerprint.encode() in (one[1] or b"")]


async def test_a_permit_is_used_once(ports: Ports, clock: HeldClock) -> None:
    permit = await _permit(ports, clock, await _claimed(ports))
    await ports.intents.begin(permit)
    await _refused(ports, permit, "used")
    assert len(_intents(ports)) == 1


async def test_a_permit_stays_used_after_the_end(ports: Ports, clock: HeldClock) -> None:
    permit = await _permit(ports, clock, await _claimed(ports))
    await ports.intents.end(await ports.intents.begin(permit), Result(Outcome.RAN, 0))
    await _refused(ports, permit, "used")


async def test_of_many_who_use_a_permit_at_once_one_begins(home: Home, clock: HeldClock) -> None:
    one, other = home.open(), home.open()
    permit = await _permit(one, clock, await _claimed(one))
    outcomes = await asyncio.gather(
        *((one, other)[n % 2].intents.begin(permit) for n in range(10)), return_exceptions=True
    )
    assert sum(isinstance(outcome, Entry) for outcome in outcomes) == 1
    assert sum(isinstance(outcome, PermitError) for outcome in outcomes) == 9


async def test_a_permit_expires(ports: Ports, clock: HeldClock) -> None:
    permit = await _permit(ports, clock, await _claimed(ports))
    clock.advance((permit.expires_at - clock.now()).total_seconds())
    await _refused(ports, permit, "expired")


async def test_a_permit_cannot_be_stretched_by_its_holder(ports: Ports, clock: HeldClock) -> None:
    permit = await _permit(ports, clock, await _claimed(ports))
    clock.advance(100.0)
    stretched = replace(permit, expires_at=clock.now() + timedelta(hours=1))
    await _refused(ports, stretched, "expired")


@pytest.mark.parametrize(
    "change",
    [
        {"tool": "restart_node"},
        {"arguments": {"command": "uptime; reboot"}},
        {"arguments": {"command": "uptime", "more": 1}},
        {"target": "node-2"},
        {"cwd": "/tmp"},
        {"timeout_s": 121.0},
    ],
    ids=lambda change: next(iter(change)),
)
async def test_a_permit_is_for_one_action_only(
    ports: Ports, clock: HeldClock, change: dict[str, object]
) -> None:
    permit = await _permit(ports, clock, await _claimed(ports))
    other = replace(permit, action=replace(LOOK, **change))  # type: ignore[arg-type]
    await _refused(ports, other, "another action")
    await ports.intents.begin(permit)


async def test_other_words_for_the_same_action_do_not_matter(
    ports: Ports, clock: HeldClock
) -> None:
    permit = await _permit(ports, clock, await _claimed(ports))
    await ports.intents.begin(replace(permit, action=replace(LOOK, reasoning="another reason")))


async def test_a_permit_is_for_one_policy_only(ports: Ports, clock: HeldClock) -> None:
    permit = await _permit(ports, clock, await _claimed(ports))
    await _refused(ports, replace(permit, policy_digest="sha256:other"), "another action")


@pytest.mark.parametrize("binding", ["", "sha256:other"])
async def test_a_permit_is_for_one_state_of_the_world_only(
    ports: Ports, clock: HeldClock, binding: str
) -> None:
    permit = await _permit(ports, clock, await _claimed(ports))
    await _refused(ports, replace(permit, binding=binding), "another action")
    await ports.intents.begin(permit)


async def test_a_permit_that_nobody_gave_is_worth_nothing(ports: Ports, clock: HeldClock) -> None:
    permit = await _permit(ports, clock, await _claimed(ports))
    await _refused(ports, replace(permit, id="forged"), "never issued")


async def test_a_stale_worker_begins_nothing(ports: Ports, clock: HeldClock) -> None:
    stale = await _claimed(ports)
    clock.advance(30.0)
    fresh = await ports.leases.claim("two", run="run-2", lease_s=30.0, attempts_max=3)
    assert fresh is not None
    permit = await _permit(ports, clock, stale)
    await _refused(ports, permit, "claim that has ended")
    # The holder cannot lend its epoch either: what counts is what was minted.
    await _refused(ports, replace(permit, epoch=fresh.epoch), "claim that has ended")
    await ports.intents.begin(await _permit(ports, clock, fresh))


@pytest.mark.parametrize("how", ["ended", "released"])
async def test_nothing_begins_for_a_ticket_that_is_over(
    ports: Ports, clock: HeldClock, how: str
) -> None:
    claimed = await _claimed(ports)
    permit = await _permit(ports, clock, claimed)
    if how == "ended":
        await ports.leases.end(claimed, escalated(claimed))
    else:
        await ports.leases.release(claimed, reason="stopped", wait_s=0.0)
    await _refused(ports, permit, "claim that has ended")


async def test_a_refused_permit_can_still_be_used_rightly(ports: Ports, clock: HeldClock) -> None:
    permit = await _permit(ports, clock, await _claimed(ports))
    await _refused(ports, replace(permit, policy_digest="other"), "another")
    await ports.intents.begin(permit)


async def test_the_outcome_is_recorded_once(ports: Ports, clock: HeldClock) -> None:
    permit = await _permit(ports, clock, await _claimed(ports))
    intent = await ports.intents.begin(permit)
    result = Result(Outcome.RAN, 3, "out", "err", truncated=True, duration_s=0.5, data={"a": 1})
    first = await ports.intents.end(intent, result)
    again = await ports.intents.end(intent, Result(Outcome.UNKNOWN))
    assert again == first
    assert first.kind is Kind.TOOL_RESULT
    assert first.payload["permit"] == permit.fingerprint
    assert from_json(Result, first.payload["result"]) == result
    assert (first.ticket, first.run) == (1, "run-1")


async def test_a_used_permit_is_remembered_by_a_reopened_database(
    home: Home, clock: HeldClock
) -> None:
    ports = home.open()
    permit = await _permit(ports, clock, await _claimed(ports))
    await ports.intents.begin(permit)
    home.close()
    await _refused(home.open(), permit, "used")


async def _approved(ports: Ports, clock: HeldClock) -> tuple[Permit, Approval]:
    """A permit that a person gave."""
    doer = await Doer.hired(ports, clock, mode=Mode.APPROVE)
    verdict = doer.gate.judge(Action.shell("systemctl restart db"))
    asking = asyncio.ensure_future(doer.gate.permit(verdict, doer.ticket))
    await clock.asleep()
    await doer.answer(ApprovalState.APPROVED, by="ada")
    clock.advance(1.0)
    permit = await asking
    assert isinstance(permit, Permit)
    approval = ports.approvals.get(permit.approval)
    assert approval is not None
    return permit, approval


@pytest.mark.parametrize(
    "state", [ApprovalState.CANCELLED, ApprovalState.SUPERSEDED, ApprovalState.WITHDRAWN]
)
async def test_a_yes_that_was_taken_back_begins_nothing(
    ports: Ports, clock: HeldClock, state: ApprovalState
) -> None:
    permit, approval = await _approved(ports, clock)
    version = approval.version
    await ports.approvals.decide(approval.id, state, by=Actor(), reason="", version=version)
    await _refused(ports, permit, "is no longer valid")


async def test_a_yes_that_was_used_is_not_taken_back(ports: Ports, clock: HeldClock) -> None:
    permit, approval = await _approved(ports, clock)
    await ports.intents.begin(permit)
    with pytest.raises(ConflictError, match="already been used"):
        await ports.approvals.decide(
            approval.id,
            ApprovalState.CANCELLED,
            by=Actor(),
            reason="",
            version=approval.version,
        )


@pytest.mark.parametrize("used", [True, False])
async def test_a_second_permit_for_one_yes_gives_no_second_begin(
    ports: Ports, clock: HeldClock, used: bool
) -> None:
    permit, _ = await _approved(ports, clock)
    (minted,) = [one for one in ports.entries.after(0, limit=99) if one.kind is Kind.PERMIT_MINTED]
    if used:
        await ports.intents.begin(permit)
    forged = replace(permit, id="somebody who can write to the ledger")
    payload = {**minted.payload, "permit": forged.fingerprint}
    key = permit_key(forged.fingerprint, "")
    draft = Draft(Kind.PERMIT_MINTED, payload, ticket=1, run=permit.run, key=key)
    await ports.journal.append(draft)
    if used:
        await _refused(ports, forged, "was never issued")
    await _refused(ports, permit, "used" if used else "is no longer valid")


async def test_nothing_begins_by_a_rule_that_was_revoked(ports: Ports, clock: HeldClock) -> None:
    doer = await Doer.hired(ports, clock, mode=Mode.APPROVE)
    rule = replace(standing_rule(), target="")
    await ports.standing.add(rule)
    gate = replace(doer.gate, standing=Standing(ports.standing, resolve=lambda path: path))
    verdict = gate.judge(Action.shell("mkdir zz"))
    first, second = [await gate.permit(verdict, doer.ticket) for _ in range(2)]
    assert isinstance(first, Permit)
    assert isinstance(second, Permit)
    await ports.intents.begin(first)
    await ports.standing.revoke(rule.id, by=Actor("bob", "user"), reason="")
    await _refused(ports, second, "rule that was revoked")
    kept = ports.standing.get(rule.id)
    assert kept is not None
    assert kept.uses == 2
