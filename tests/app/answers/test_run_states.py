"""What is told of a run follows its state: working, waiting, parked, orphaned, paused, over."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from operator_protocols.domain.action import Action
from operator_protocols.domain.category import ErrorCategory, NextAction
from operator_protocols.domain.entry import Actor, Entry, Kind
from operator_protocols.domain.health import Severity
from operator_protocols.domain.run import Answer, Escalate, Finish
from operator_protocols.domain.run_record import RunRecord
from operator_protocols.domain.ticket import Move, MoveKind, Pause, Ticket, TicketState
from operator_sre.app.answers import document_in, explain_failure, next_action, summarize_run
from operator_sre.clock import SystemClock
from operator_sre.contract.accounts import NotFailedError, RunFacts, idle_of, next_of, summary_of
from operator_sre.contract.messages import (
    ExplainFailureRequest,
    NextActionRequest,
    NextActionResponse,
    SummarizeRunRequest,
)
from operator_sre.contract.schemas import check_document
from tests.app.answering import Shopkeeper, shopkeeper
from tests.contract.workshop import Endless

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
Open = Callable[..., AbstractContextManager[Shopkeeper]]
LOOK = Answer("look", (Action.shell("true"),))


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Open:
    """Call it with the turns of an agent."""

    def make(*turns: Answer, **settings: str) -> AbstractContextManager[Shopkeeper]:
        return shopkeeper(tmp_path, monkeypatch, *turns, **settings)

    return make


class _Later(SystemClock):
    """The real clock, an hour ahead."""

    def now(self) -> datetime:
        return super().now() + timedelta(hours=1)


def _next(keeper: Shopkeeper, run: str) -> NextActionResponse:
    found = next_action(keeper.app, NextActionRequest(run_id=run))
    check_document(found)
    return found


def _refusal(keeper: Shopkeeper, run: str) -> NotFailedError:
    with pytest.raises(NotFailedError) as refused:
        explain_failure(keeper.app, ExplainFailureRequest(run_id=run))
    return refused.value


@pytest.mark.asyncio
async def test_a_run_is_told_as_working_then_orphaned_then_parked(shop: Open) -> None:
    with shop() as keeper:
        await keeper.break_one()
        agent, engine = Endless(), keeper.app.engine()
        engine = replace(engine, pipeline=replace(engine.pipeline, model=agent))
        work = asyncio.ensure_future(engine.work_once())
        await agent.begun.wait()
        run = keeper.newest()
        assert "in progress" in _next(keeper, run).rationale
        assert "has not ended" in _refusal(keeper, run).message
        later = replace(keeper, app=replace(keeper.app, clock=_Later()))
        answer = _next(later, run)
        assert answer.next_action is NextAction.RERUN
        assert answer.rationale.startswith("Orphaned: worker ")
        told = summarize_run(later.app, SummarizeRunRequest(run_id=run)).summary
        assert "Orphaned" in told
        assert not told.startswith("Running")
        amended = document_in(later.app, answer, "1.1.0")
        assert amended["schema_version"] == "1.1.0"
        assert amended["latest_reason"] == answer.rationale
        assert document_in(later.app, answer, "1.0.0") == check_document(answer)
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
        answer = _next(keeper, run)
        assert answer.next_action is NextAction.RERUN
        assert "Parked: no agent works on the run. The agent was stopped." in answer.rationale
        assert "operator agent start" in [ref.ref for ref in answer.evidence_refs]
        await keeper.app.store.ticket_moves.make(
            1, Move(MoveKind.HOLD, Actor("ann", "user"), "lunch")
        )
        answer = _next(keeper, run)
        assert answer.next_action is NextAction.ASK_USER
        assert answer.rationale.startswith("ann paused ticket 1")


@pytest.mark.asyncio
async def test_a_completed_run_says_how_it_completed(shop: Open) -> None:
    with shop(LOOK, Answer("over", (Finish("It came back."),))) as keeper:
        await keeper.break_one()
        keeper.down.clear()
        assert await keeper.app.engine().work_once()
        run = keeper.newest()
        refusal, answer = _refusal(keeper, run), _next(keeper, run)
        assert "did not fail: it completed." in refusal.message
        assert refusal.next_action is answer.next_action
        assert refusal.exit_code == 1
        await keeper.app.store.ticket_moves.make(
            1, Move(MoveKind.REOPEN, Actor("ann", "user"), "again")
        )
        assert "ticket is open again" in _next(keeper, run).rationale


@pytest.mark.asyncio
async def test_an_escalated_run_did_not_fail_and_wants_a_person(shop: Open) -> None:
    with shop(Answer("enough", (Escalate("I cannot go on."),))) as keeper:
        run = await keeper.carry()
        refusal = _refusal(keeper, run)
        assert refusal.next_action is NextAction.ASK_USER
        assert "I cannot go on." in str(refusal)


def _ticket(state: TicketState, **more: Any) -> Ticket:
    fields: dict[str, Any] = {"run": "run-1", "worker": "w1", "epoch": 1, **more}
    return Ticket(1, "shop", "n", Severity.CRITICAL, state, "", (), NOON, NOON, **fields)


def _facts(
    ticket: Ticket | None,
    *entries: tuple[Kind, Mapping[str, Any]],
    state: str = "running",
    lease_s: float | None = None,
) -> RunFacts:
    finished = None if state == "running" else NOON
    run = RunRecord("run-1", 1, "reasoner", state, NOON, finished, "")
    told = [
        Entry(seq, NOON, kind, payload, 1, "run-1", Actor(), "", "")
        for seq, (kind, payload) in enumerate(entries, start=1)
    ]
    ends = None if lease_s is None else NOON + timedelta(seconds=lease_s)
    idle = idle_of(run, ticket, told, lease_ends=ends, now=NOON)
    held = ticket.state.value if ticket and ticket.run == "run-1" else ""
    return RunFacts(run, told, held, idle=idle)


def test_every_state_of_a_run_has_its_answer() -> None:
    at = NOON.timestamp()
    failed = {"reason": "boom.", "not_before": at + 60, "category": ErrorCategory.POLICY_DENIED}
    decided = {"reason": "Pending approval: request a1.", "not_before": at}
    claimed, open_ = TicketState.CLAIMED, TicketState.OPEN
    released = Kind.TICKET_RELEASED
    pause = Pause("ann", "lunch", NOON + timedelta(hours=1))
    cases: list[tuple[RunFacts, NextAction, str]] = [
        (_facts(_ticket(claimed), lease_s=1), NextAction.ASK_USER, "in progress"),
        (_facts(_ticket(claimed), lease_s=0), NextAction.RERUN, "Orphaned: worker w1"),
        (_facts(_ticket(claimed)), NextAction.RERUN, "Orphaned: worker w1"),
        (_facts(_ticket(open_), (released, failed)), NextAction.RERUN, "tries again at"),
        (_facts(_ticket(open_), (released, decided)), NextAction.RERUN, "is decided"),
        (_facts(_ticket(open_)), NextAction.RERUN, "Parked"),
        (_facts(_ticket(open_, run="run-2")), NextAction.EXPORT_AUDIT, "run-2"),
        (_facts(None), NextAction.EXPORT_AUDIT, "was removed"),
        (_facts(_ticket(open_, pause=pause)), NextAction.ASK_USER, "paused ticket 1 until"),
        (_facts(_ticket(open_, pause=pause), state="stopped"), NextAction.ASK_USER, "paused"),
        (_facts(_ticket(open_), state="stopped"), NextAction.RERUN, "was stopped"),
        (_facts(_ticket(open_), state="completed"), NextAction.RERUN, "open again"),
        (_facts(_ticket(TicketState.WATCHED), state="completed"), NextAction.ASK_USER, "recovered"),
        (
            _facts(_ticket(TicketState.RESOLVED), state="completed"),
            NextAction.EXPORT_AUDIT,
            "normal",
        ),
        (_facts(_ticket(TicketState.ESCALATED), state="completed"), NextAction.ASK_USER, "escalat"),
    ]
    for facts, action, words in cases:
        answer = next_of(facts)
        check_document(answer)
        check_document(summary_of(facts))
        assert (answer.next_action, words in answer.rationale) == (action, True), answer.rationale
