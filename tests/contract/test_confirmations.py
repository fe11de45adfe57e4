"""What Confirmations promise: asked once, answered once, settled once, and all of it on record."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from operator_protocols.domain.confirmation import Boundary, Confirmation, ConfirmationState
from operator_protocols.domain.entry import Actor, Draft, Kind
from operator_protocols.domain.ticket import Move, MoveKind, TicketState
from operator_protocols.errors import ConflictError, NotFoundError
from operator_protocols.ports import Confirmations
from tests.contract.clock import HeldClock
from tests.contract.samples import confirmation, violation
from tests.contract.stores import Home, Ports

pytestmark = pytest.mark.asyncio

ADA, BOB = Actor("ada", "user"), Actor("bob", "user")
YES, NO = ConfirmationState.APPROVED, ConfirmationState.DECLINED


def asked(name: str = "conf_1", **more: object) -> Confirmation:
    """A change that waits for a person."""
    return replace(confirmation(name), **more)  # type: ignore[arg-type]


def _states(ports: Ports) -> list[tuple[str, str]]:
    told = ports.entries.after(0, limit=50)
    return [(one.kind.value, str(one.payload.get("state", ""))) for one in told]


async def test_it_is_asked_once_and_survives(home: Home) -> None:
    store = home.open()
    assert isinstance(store.confirmations, Confirmations)
    assert await store.confirmations.request(asked()) == asked()
    assert await store.confirmations.request(asked(rationale="other")) == asked()
    home.close()
    again = home.open()
    assert list(again.confirmations.find()) == [asked()]
    assert list(again.confirmations.find("conf_1", states=[ConfirmationState.PENDING])) == [asked()]
    assert list(again.confirmations.find("nosuch")) == []
    assert len(again.entries.after(0, limit=9)) == 1


async def test_a_yes_is_said_once_and_settled_once(ports: Ports, clock: HeldClock) -> None:
    await ports.confirmations.request(asked())
    clock.advance(9.0)
    decided = await ports.confirmations.decide("conf_1", YES, by=BOB, reason="fine")
    assert (decided.state, decided.decided_by, decided.decided_at) == (YES, "bob", clock.now())
    assert decided.open
    for answer in (YES, NO):
        with pytest.raises(ConflictError, match="already approved"):
            await ports.confirmations.decide("conf_1", answer, by=BOB, reason="")
    draft = Draft(Kind.POLICY_CHANGED, {"old": "a", "new": "b"}, actor=BOB)
    settled = await ports.confirmations.settle(
        "conf_1", applied=True, outcome="applied", drafts=[draft]
    )
    assert (settled.applied, settled.outcome, settled.open) == (True, "applied", False)
    with pytest.raises(ConflictError, match="already applied"):
        await ports.confirmations.settle("conf_1", applied=True, outcome="x", drafts=[draft])
    assert [kind for kind, _ in _states(ports)] == [
        "confirmation_requested",
        "confirmation_decided",
        "policy_changed",
        "confirmation_settled",
    ]
    with pytest.raises(NotFoundError):
        await ports.confirmations.decide("nosuch", YES, by=BOB, reason="")


async def test_a_no_is_final_and_nothing_can_be_settled(ports: Ports) -> None:
    await ports.confirmations.request(asked())
    await ports.confirmations.decide("conf_1", NO, by=BOB, reason="too much")
    with pytest.raises(ConflictError):
        await ports.confirmations.decide("conf_1", YES, by=ADA, reason="")
    with pytest.raises(ConflictError):
        await ports.confirmations.settle("conf_1", applied=True, outcome="applied")
    (known,) = ports.confirmations.find(states=[NO])
    assert (known.reason, known.applied) == ("too much", False)


async def test_what_came_too_late_or_changed_is_ended_and_recorded(
    ports: Ports, clock: HeldClock
) -> None:
    for name in ("late", "other", "moved", "forged"):
        await ports.confirmations.request(
            asked(name, change={"x": 1}) if name == "forged" else asked(name)
        )
    confirmations = ports.confirmations
    ends = [
        await confirmations.decide("other", YES, by=BOB, reason="", digest="sha256:9"),
        await confirmations.decide("moved", YES, by=BOB, reason="", changed=lambda _: "it moved"),
        await confirmations.decide("forged", YES, by=BOB, reason=""),
    ]
    clock.advance(300.0)
    ends.append(await confirmations.decide("late", YES, by=BOB, reason=""))
    assert {one.state for one in ends} == {ConfirmationState.EXPIRED}
    assert not any(one.applied or one.open for one in ends)
    assert [one.reason for one in ends] == [
        "the reviewed change differs from the requested change",
        "it moved",
        "the stored change differs from the requested change",
        "no decision in time",
    ]
    assert _states(ports)[4:] == [("confirmation_decided", "expired")] * 4


async def test_of_two_who_answer_at_once_one_wins(home: Home) -> None:
    first, second = home.open(), home.open()
    await first.confirmations.request(asked())
    draft = Draft(Kind.LIMITS_RESET, {"subject": "shop", "reason": ""}, actor=BOB)
    answers = await asyncio.gather(
        *(
            one.confirmations.decide("conf_1", YES, by=by, reason="", drafts=[draft])
            for one, by in ((first, ADA), (second, BOB))
        ),
        return_exceptions=True,
    )
    assert sorted(type(one).__name__ for one in answers) == ["Confirmation", "ConflictError"]
    kinds = [kind for kind, _ in _states(first)]
    assert kinds.count("limits_reset") == kinds.count("confirmation_settled") == 1


async def test_what_follows_is_in_the_same_transaction_as_the_yes(ports: Ports) -> None:
    ticket = await ports.tickets.open([violation()])
    await ports.leases.claim("worker", run="run-1", lease_s=30.0, attempts_max=3)
    move = (ticket.id, Move(MoveKind.HAND_OFF, BOB, "theirs", assignee="network team"))
    await ports.confirmations.request(asked(boundary=Boundary.HANDOFF, ticket=ticket.id))
    done = await ports.confirmations.decide("conf_1", YES, by=BOB, reason="", move=move)
    assert (done.applied, done.outcome) == (True, "applied")
    now = ports.tickets.get(ticket.id)
    assert now is not None
    assert (now.state, now.assignee, now.worker) == (TicketState.ESCALATED, "network team", "")
    assert await ports.leases.claim("other", run="run-2", lease_s=30.0, attempts_max=3) is None
    await ports.confirmations.request(asked("conf_2", boundary=Boundary.HANDOFF, ticket=99))
    with pytest.raises(NotFoundError):
        await ports.confirmations.decide("conf_2", YES, by=BOB, reason="", move=(99, move[1]))
    (pending,) = ports.confirmations.find("conf_2")
    assert pending.state is ConfirmationState.PENDING


async def test_hostile_words_do_no_harm(ports: Ports) -> None:
    await ports.confirmations.request(asked("'; DROP \x00", rationale="\ud800"))
    (found,) = ports.confirmations.find("'; DROP \x00")
    assert found.id == "'; DROP \x00"
    await ports.confirmations.decide(found.id, NO, by=BOB, reason="\x00")
