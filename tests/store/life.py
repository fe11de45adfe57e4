"""A store in which everything has happened that leaves a row, and its upkeep."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from operator_protocols.domain.action import Action, Outcome, Result
from operator_protocols.domain.confirmation import ConfirmationState
from operator_protocols.domain.entry import Actor, Draft, Kind
from operator_protocols.domain.health import Health
from operator_protocols.domain.observation import Observation
from operator_protocols.domain.pattern import Pattern
from operator_protocols.domain.permit import ApprovalState, Permit
from operator_protocols.domain.run import Spent
from operator_protocols.domain.silence import Silence
from operator_protocols.domain.ticket import Move, MoveKind
from operator_protocols.domain.token import Role, Token
from operator_protocols.domain.verdict import Mode
from operator_protocols.domain.watcher import Watch, Watcher, Worker
from operator_protocols.domain.workflow import StepNote, WorkflowState
from operator_protocols.ports import Clock, Condition
from operator_sre.codec import to_json
from operator_sre.gate import Gate, Policy
from operator_sre.ledger import KeyFile
from operator_sre.store import Store, store_on
from operator_sre.store.maintenance import Maintenance
from operator_sre.store.store import database_at
from operator_sre.store.transaction import Rules
from tests.contract.clock import HeldClock
from tests.contract.samples import (
    alert,
    approval,
    confirmation,
    escalated,
    resolved,
    run_finished,
    run_started,
    standing_rule,
    violation,
    workflow_record,
)

__all__ = ["Estate", "live_through_everything", "quietly"]


def quietly(count: int) -> None:
    """Progress that nobody watches."""


class Estate:
    """A store at a place, its key, and the hands that look after it."""

    def __init__(self, place: str, folder: Path, clock: Clock) -> None:
        self.place = place
        self.clock = clock
        self.folder = folder
        self.rules = Rules(clock, signer=KeyFile(folder / "ledger.key"), checkpoint_every=7)

    @property
    def upkeep(self) -> Maintenance:
        """Everything that is done to it as a whole."""
        return Maintenance(database_at(self.place), self.rules, self.folder / "backups")

    def elsewhere(self, place: str) -> Estate:
        """Another store with the same key and clock."""
        return Estate(place, self.folder, self.clock)

    def open(self) -> Store:
        """The store, open."""
        database = database_at(self.place)
        database.prepare()
        return store_on(database, self.rules)

    def do(self, act: Callable[[Store], Awaitable[object]]) -> None:
        """Open it, do something, and close it."""
        store = self.open()
        try:
            asyncio.run(_awaited(act, store))
        finally:
            store.close()

    def live(self) -> None:
        """Everything happens."""
        clock = self.clock
        assert isinstance(clock, HeldClock)
        self.do(lambda store: live_through_everything(store, clock))

    def think(self, *payloads: Mapping[str, object]) -> None:
        """Some entries that no table follows from."""

        async def act(store: Store) -> None:
            for payload in payloads:
                await store.journal.append(Draft(Kind.REASONING, payload))

        self.do(act)

    def change(self, *statements: str) -> list[list[tuple[Any, ...]]]:
        """Statements of somebody who goes around the store; returns their rows."""
        connection = database_at(self.place).session()
        found = []
        for sql in statements:
            cursor = connection.execute(sql)
            found.append(cursor.fetchall() if sql.startswith("SELECT") else [])
        connection.close()
        return found


async def _awaited(act: Callable[[Store], Awaitable[object]], store: Store) -> None:
    await act(store)


_BARE: dict[str, object] = {
    "target": "node-1",
    "severity": "warning",
    "timeline": [],
    "affected": [],
    "evidence": [],
    "hypotheses": [],
    "alternatives": [],
    "options": [],
    "choice": "",
    "why": "",
    "confidence": 0.9,
}


async def live_through_everything(store: Store, clock: HeldClock) -> None:
    """Tickets of every end, runs, permits, commands, approvals, patterns and telemetry."""
    first = await store.tickets.open([violation("node-1"), violation("node-2")])
    await store.tickets.open([violation("node-3")])
    await store.tickets.grow(first, [violation("store", detail="\ud800")])
    await store.leases.claim("gone", run="run-a", lease_s=30.0, attempts_max=3)
    clock.advance(40.0)
    claimed = await store.leases.claim("worker", run="run-b", lease_s=30.0, attempts_max=3)
    assert claimed is not None
    await store.journal.append(run_started(claimed))
    for kind, spent in ((Kind.REASONING, Spent(900, 80, 0.0125)), (Kind.SUMMARY, Spent(40, 9))):
        paid = {"reasoning": "so", "calls": [], "spent": to_json(spent)}
        await store.journal.append(Draft(kind, paid, ticket=1, run=claimed.run))
    for cause, summary in (("process_dead", "node-1: it is not running \ud800"), ("unknown", "?")):
        found = {**_BARE, "cause": cause, "summary": summary}
        of = claimed.id if cause != "unknown" else 2
        await store.journal.append(Draft(Kind.DIAGNOSIS, found, ticket=of, run=claimed.run))
    gate = Gate(Policy, store.journal, store.approvals, clock, lambda: "permit-1")
    permit = await gate.permit(gate.judge(Action.shell("uptime")), claimed)
    assert isinstance(permit, Permit)
    intent = await store.intents.begin(permit)
    await store.intents.end(intent, Result(Outcome.RAN, 0))
    for name in ("a", "b"):
        await store.approvals.request(approval(name, at=clock.now()))
    ada = Actor("ada", "user")
    await store.approvals.decide("a", ApprovalState.REJECTED, by=ada, reason="no", version=1)
    louder = {"id": "b", "reason": "nobody answered"}
    await store.journal.append(Draft(Kind.APPROVAL_ESCALATED, louder, ticket=1, run="run-1"))
    for name in ("yes", "no", "wait"):
        await store.confirmations.request(confirmation(name, at=clock.now()))
    await store.confirmations.decide("yes", ConfirmationState.APPROVED, by=ada, reason="")
    await store.confirmations.settle("yes", applied=True, outcome="applied")
    await store.confirmations.decide("no", ConfirmationState.DECLINED, by=ada, reason="no")
    for name in ("r", "s"):
        await store.standing.add(standing_rule(name))
    await store.standing.revoke("s", by=ada, reason="no more")
    await store.leases.release(claimed, reason="stopped", wait_s=3.5)
    again = await store.leases.claim("worker", run="run-c", lease_s=30.0, attempts_max=3)
    assert again is not None
    await store.leases.end(again, escalated(again))
    clock.advance(10.0)
    last = await store.leases.claim("worker", run="run-d", lease_s=30.0, attempts_max=3)
    assert last is not None
    await store.journal.append(run_finished(last))
    await store.leases.end(last, resolved(last))
    await store.patterns.create(Pattern("mine", ("df -h {path}",)), by="ada")
    await store.patterns.use("mine", lines=["df -h /"], level="review", by="ada")
    await store.patterns.hide("learned-1234", reason="no", by="ada")
    await _live_through_moves(store, clock, ada)
    await store.switch.turn_on(by="ada", reason="enough")
    await store.switch.turn_off(by="ada", reason="")
    await store.sessions.hold("worker", score=51, reason="too much")
    await store.sessions.reset("worker", by="ada", reason="")
    await store.limit_usage.reset("shop", by="ada", reason="")
    for name in ("shop", "other"):
        await store.modes.set(name, Mode.APPROVE, by="ada", reason="\ud800")
    await store.modes.reset("other", by="ada", reason="")
    await _live_through_workflows(store, clock, ada)
    await store.alerts.take([alert("f1", summary="\ud800"), alert("f2")])
    await store.alerts.take([replace(alert("f2"), firing=False)])
    await store.cursors.claim("notify/a", "worker", lease_s=30.0)
    await _live_through_silences(store, clock)
    await _live_through_tokens(store, clock)
    await store.observations.add(Observation("shop", clock.now()))
    condition = Condition("shop", "up", "node-1", Health.BROKEN, clock.now(), None)
    await store.conditions.update([condition])
    await store.watchers.beat(Watcher("here", clock.now(), clock.now(), (Watch("shop", 5.0),)))
    now = clock.now()
    await store.workers.beat(Worker("here:1", "here", "here", 1, "local", "1.0", now, now))


async def _live_through_moves(store: Store, clock: HeldClock, by: Actor) -> None:
    opened = await store.tickets.open([violation("node-7", detail="\ud800")])
    soon = clock.now() + timedelta(hours=1)
    for kind in (*MoveKind, MoveKind.SNOOZE):
        until = soon if kind is MoveKind.SNOOZE else None
        move = Move(kind, by, "\ud800", until=until, assignee="bob")
        await store.ticket_moves.make(opened.id, move)
    seen = store.tickets.get(opened.id)
    assert seen is not None
    watched = {"reason": "it holds", "proof": {}}
    draft = Draft(Kind.TICKET_WATCHED, watched, ticket=opened.id, run=opened.run)
    await store.leases.end(seen, draft)


async def _live_through_silences(store: Store, clock: HeldClock) -> None:
    for name in ("quiet-1", "quiet-2"):
        until = clock.now() + timedelta(hours=1)
        silence = Silence(name, clock.now(), until, "ada", "\ud800", "shop", "node-*")
        await store.silences.add(silence)
    await store.silences.end("quiet-2", by="bob", reason="it was quick")
    flaps = Draft(Kind.TICKET_FLAPPING, {"violations": ["shop/node-1/up"]}, ticket=1)
    await store.journal.append(flaps)


async def _live_through_tokens(store: Store, clock: HeldClock) -> None:
    for name in ("token-1", "token-2"):
        until = clock.now() + timedelta(days=30)
        token = Token(name, "\ud800", Role.VIEWER, "ada", clock.now(), until)
        await store.tokens.add(token, fingerprint=f"hash of {name}")
    await store.tokens.revoke("token-2", by=Actor("bob", "user"), reason="it was lost")


async def _live_through_workflows(store: Store, clock: HeldClock, by: Actor) -> None:
    claims = store.workflow_claims
    made = workflow_record("workflow-1", at=clock.now())
    await store.workflows.add(workflow_record("workflow-2", at=clock.now()))
    record = await store.workflows.add(made, worker="worker", lease_s=30.0)
    done = StepNote("look", WorkflowState.COMPLETED, 1, "workflow-1/look/1", exit_code=0)
    await claims.note(record, done)
    await claims.note(record, replace(done, run="workflow-1/look/undo", undoes=True))
    await store.workflows.cancel("workflow-1", by=by, reason="enough")
    await claims.end(record, WorkflowState.CANCELLED, reason="cancelled by ada")
