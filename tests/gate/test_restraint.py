"""What restrains an agent even where the policy would let it act, through the real gate."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path

import pytest
import pytest_asyncio

from operator_protocols.domain.action import Action, Outcome, Result
from operator_protocols.domain.entry import Actor, Draft, Kind
from operator_protocols.domain.limits import Limits
from operator_protocols.domain.permit import ApprovalState, Permit
from operator_protocols.domain.ticket import Ticket
from operator_protocols.domain.tool import ToolSpec
from operator_protocols.domain.verdict import Mode, Risk
from operator_sre.gate import Gate, Held, Policy, came_late
from operator_sre.gate.restraint import PROOFS_S_MAX, SCORES, TURN_S_MAX, Restraint
from operator_sre.store import Store, open_store
from tests.contract.clock import HeldClock, LeapingClock
from tests.contract.samples import violation

pytestmark = pytest.mark.asyncio

AGENT = Actor("ada", "user", "host:1")
WIDE = Limits(changes_per_hour=1000, targets_max=100)
LOOK = Action("status", {}, target="node-1")


def _act(tool: str, target: str = "node-1") -> Action:
    return Action(tool, {"target": target}, target=target)


class _Office:
    """A gate with a restraint on a real store; its policy lets everything run by itself."""

    def __init__(self, store: Store, clock: HeldClock, ticket: Ticket) -> None:
        self.store = store
        self.clock = clock
        self.ticket = ticket
        self.limits = WIDE
        self._ids = itertools.count(1)

    def gate(self, inside: Callable[[Action], bool] = lambda action: False) -> Gate:
        tools = tuple(
            ToolSpec(name, "It acts.", (), Risk.LOW, changes=name != LOOK.tool)
            for name in (*SCORES, LOOK.tool)
        )
        policy = Policy(mode=Mode.EXECUTE, tools=tools, auto=frozenset(Risk))
        store = self.store
        restraint = Restraint(
            store.switch,
            store.limit_usage,
            store.sessions,
            self.clock,
            lambda: self.limits,
            inside=inside,
        )
        return Gate(
            lambda: policy,
            store.journal,
            store.approvals,
            self.clock,
            lambda: f"{next(self._ids):012}",
            restrain=restraint,
            await_proofs=restraint.await_proofs,
        )

    async def want(self, action: Action, *, agent: Actor = AGENT) -> Permit | Result:
        gate = self.gate()
        return await gate.permit(gate.judge(action), self.ticket, agent)

    async def do(self, *actions: Action, agent: Actor = AGENT, exit_code: int = 0) -> None:
        """What is permitted at once, begun and ended."""
        for action in actions:
            permit = await self.want(action, agent=agent)
            assert isinstance(permit, Permit), permit
            intent = await self.store.intents.begin(permit, self.limits)
            await self.store.intents.end(intent, Result(Outcome.RAN, exit_code))
            self.clock.advance(31.0)

    async def refused(self, action: Action, word: str, *, agent: Actor = AGENT) -> None:
        refusal = await self.want(action, agent=agent)
        assert isinstance(refusal, Result)
        assert word in refusal.stderr

    async def asked(self, action: Action, word: str) -> None:
        """A person is asked; their yes lets it run."""
        waiting = asyncio.ensure_future(self.want(action))
        await self.clock.asleep()
        if not self.store.approvals.find(states=[ApprovalState.PENDING]):
            # Repairs of other targets may still be proven, and are not.
            self.clock.advance(PROOFS_S_MAX)
            await self.clock.asleep()
        (request,) = self.store.approvals.find(states=[ApprovalState.PENDING])
        assert word in request.explanation
        yes = ApprovalState.APPROVED
        bob = Actor("bob", "user")
        await self.store.approvals.decide(request.id, yes, by=bob, reason="", version=1)
        self.clock.advance(1.0)
        permit = await waiting
        assert isinstance(permit, Permit), permit
        intent = await self.store.intents.begin(permit, self.limits)
        await self.store.intents.end(intent, Result(Outcome.RAN, 0))
        self.clock.advance(31.0)


@pytest_asyncio.fixture
async def office(tmp_path: Path) -> AsyncIterator[_Office]:
    clock = HeldClock()
    store = open_store(tmp_path / "operator.db", clock=clock)
    await store.tickets.open([violation()])
    ticket = await store.leases.claim("host:1", run="run-1", lease_s=1e6, attempts_max=3)
    assert ticket is not None
    yield _Office(store, clock, ticket)
    store.close()


async def test_nothing_held_is_nothing_said() -> None:
    assert Held() == Held("", "")


async def test_while_the_switch_is_on_not_even_a_look_is_permitted(office: _Office) -> None:
    await office.store.switch.turn_on(by="ada", reason="")
    await office.refused(LOOK, "The kill switch is on")
    await office.refused(_act("add_peer"), "The kill switch is on")
    await office.store.switch.turn_off(by="ada", reason="")
    await office.do(LOOK, _act("add_peer"))


async def test_a_diagnosing_agent_is_not_held_up(office: _Office) -> None:
    await office.do(*[LOOK] * 30)
    await office.do(_act("docker_restart"))


async def test_at_high_a_person_is_asked_and_looks_still_run(office: _Office) -> None:
    await office.do(_act("delete_file"))
    await office.asked(_act("delete_file"), "is high (33)")
    await office.do(LOOK)


async def test_at_critical_the_agent_is_in_observe_until_a_person_resets_it(
    office: _Office, tmp_path: Path
) -> None:
    await office.do(_act("docker_restart"), _act("write_file"))
    await office.asked(_act("docker_exec"), "At 50 it is put into observe")
    await office.do(_act("delete_file"))
    await office.refused(_act("docker_exec"), "is critical")
    (held,) = office.store.sessions.find()
    assert (held.agent, held.held, held.score) == ("host", True, 50)
    assert "a restart, then a command inside: +20" in held.reason
    office.clock.advance(3600.0)
    await office.do(LOOK)
    await office.refused(_act("add_peer"), "operator session reset host")
    # Another process of the same agent, on another handle, is held as well; another agent is not.
    again = open_store(tmp_path / "operator.db", clock=office.clock)
    other = _Office(again, office.clock, office.ticket)
    await other.refused(_act("add_peer"), "observe", agent=Actor("ada", "user", "host:2"))
    await other.do(_act("add_peer"), agent=Actor("ada", "user", "elsewhere:1"))
    again.close()
    await office.store.sessions.reset("host", by="ada", reason="seen")
    await office.do(_act("delete_file"))
    kinds = [one.kind for one in office.store.entries.after(0, limit=999)]
    assert kinds.count(Kind.SESSION_HELD) == kinds.count(Kind.SESSION_RESET) == 1


async def test_what_stays_inside_a_rig_weighs_nothing(office: _Office) -> None:
    gate = office.gate(inside=lambda action: True)
    for _ in range(9):
        permit = await gate.permit(gate.judge(_act("delete_file")), office.ticket, AGENT)
        assert isinstance(permit, Permit)
        intent = await office.store.intents.begin(permit, office.limits)
        await office.store.intents.end(intent, Result(Outcome.RAN, 0))


async def test_a_change_waits_for_its_turn(office: _Office) -> None:
    permit = await office.want(_act("add_peer"))
    assert isinstance(permit, Permit)
    intent = await office.store.intents.begin(permit, office.limits)
    waiting = asyncio.ensure_future(office.want(_act("add_peer")))
    await office.clock.asleep()
    await office.store.intents.end(intent, Result(Outcome.RAN, 0))
    office.clock.advance(1.0)
    assert isinstance(await waiting, Permit)


async def test_a_change_does_not_wait_forever(office: _Office) -> None:
    permit = await office.want(_act("add_peer"))
    assert isinstance(permit, Permit)
    await office.store.intents.begin(permit, office.limits)
    leaping = LeapingClock(office.clock.now())
    begun = leaping.monotonic()
    other = _Office(office.store, leaping, office.ticket)
    await other.refused(_act("add_peer"), "another change of 'shop' is running")
    assert TURN_S_MAX <= leaping.monotonic() - begun < TURN_S_MAX + 1


async def test_a_change_that_runs_hides_nothing_else_that_refuses(office: _Office) -> None:
    """Whoever waits for their turn is told at once what no waiting would mend."""
    await office.do(*[_act("transfer_leader")] * 3, exit_code=1)
    await office.store.limit_usage.reset("shop", by="ada", reason="")
    permit = await office.want(_act("add_peer"))
    assert isinstance(permit, Permit)
    await office.store.intents.begin(permit, office.limits)
    other = _Office(office.store, LeapingClock(office.clock.now()), office.ticket)
    late = await other.want(_act("add_peer"))
    assert isinstance(late, Result)
    assert came_late(late)
    await office.store.sessions.hold("host", score=99, reason="")
    held = await other.want(_act("add_peer"))
    assert isinstance(held, Result)
    assert "in observe until a person resets it" in held.stderr
    assert not came_late(held)
    other.limits = Limits(changes_per_hour=0, targets_max=9)
    await other.refused(_act("add_peer"), "within an hour")


async def test_who_is_held_in_observe_gets_no_permit_while_another_change_runs(
    office: _Office,
) -> None:
    """People said yes, and somebody else's change began, and the agent was held meanwhile."""
    office.limits = Limits(targets_max=1)
    await office.do(_act("add_peer", "node-1"))
    waiting = asyncio.ensure_future(office.want(_act("add_peer", "node-2")))
    await office.clock.asleep()
    office.clock.advance(PROOFS_S_MAX)
    await office.clock.asleep()
    running = await office.want(_act("add_peer", "node-1"))
    assert isinstance(running, Permit)
    await office.store.intents.begin(running, office.limits)
    await office.store.sessions.hold("host", score=99, reason="")
    (request,) = office.store.approvals.find(states=[ApprovalState.PENDING])
    yes, bob = ApprovalState.APPROVED, Actor("bob", "user")
    await office.store.approvals.decide(request.id, yes, by=bob, reason="", version=1)
    while not waiting.done():
        office.clock.advance(1.0)
        await asyncio.sleep(0)
    refused = waiting.result()
    assert isinstance(refused, Result)
    assert "in observe until a person resets it" in refused.stderr


async def test_too_many_targets_are_asked_about(office: _Office) -> None:
    office.limits = Limits(targets_max=1)
    await office.do(_act("add_peer", "node-1"))
    await office.asked(_act("add_peer", "node-2"), "2 targets of 'shop'")


@pytest.mark.parametrize(
    ("held", "target", "room"),
    [(True, "node-1", True), (True, "", True), (True, "node-9", False), (False, "node-1", False)],
)
async def test_a_proven_repair_makes_room_for_the_next_target(
    office: _Office, held: bool, target: str, room: bool
) -> None:
    office.limits = Limits(targets_max=1)
    await office.do(_act("add_peer", "node-1"))
    payload = {"held": held, "target": target}
    draft = Draft(Kind.PROOF, payload, ticket=office.ticket.id, run=office.ticket.run)
    await office.store.journal.append(draft)
    usage = office.store.limit_usage.usage("shop", office.limits, now=office.clock.now())
    assert usage.targets == (frozenset() if room else {"node-1"})
    if room:
        await office.do(_act("add_peer", "node-2"))
    else:
        await office.asked(_act("add_peer", "node-2"), "2 targets of 'shop'")


async def test_what_waits_for_a_proof_is_thought_over_when_it_comes(office: _Office) -> None:
    office.limits = Limits(targets_max=1)
    await office.do(_act("add_peer", "node-1"))
    waiting = asyncio.ensure_future(office.want(_act("add_peer", "node-2")))
    await office.clock.asleep()
    payload = {"held": True, "target": "node-1"}
    draft = Draft(Kind.PROOF, payload, ticket=office.ticket.id, run=office.ticket.run)
    await office.store.journal.append(draft)
    office.clock.advance(1.0)
    refused = await waiting
    assert isinstance(refused, Result)
    assert came_late(refused)


async def test_what_a_person_approved_or_a_proof_covers_is_no_risk_of_the_session(
    office: _Office,
) -> None:
    office.limits = Limits(targets_max=1)
    await office.do(_act("add_peer", "node-1"))
    await office.asked(_act("add_peer", "node-2"), "2 targets of 'shop'")
    since = office.clock.now() - timedelta(hours=1)
    weighed = office.store.sessions.actions("host", since=since)
    assert [deed.command for deed in weighed] == ["add_peer(target=node-1)"]
    payload = {"held": True, "target": "node-1"}
    draft = Draft(Kind.PROOF, payload, ticket=office.ticket.id, run=office.ticket.run)
    await office.store.journal.append(draft)
    assert office.store.sessions.actions("host", since=since) == []


async def test_too_often_and_too_many_failures_are_refused(office: _Office) -> None:
    office.limits = Limits(changes_per_hour=2, targets_max=9)
    await office.do(_act("transfer_leader"), _act("transfer_leader"))
    await office.refused(_act("transfer_leader"), "2 times within an hour")
    office.limits = WIDE
    await office.store.limit_usage.reset("shop", by="ada", reason="")
    office.clock.advance(timedelta(minutes=10).total_seconds())
    await office.do(*[_act("transfer_leader")] * 3, exit_code=1)
    await office.refused(_act("transfer_leader"), "3 changes of 'shop' failed in a row")
    await office.do(LOOK)
