"""Tickets, runs, entries and approvals as people ask for them."""

from __future__ import annotations

import getpass
from collections.abc import Iterator
from pathlib import Path

import pytest

from operator_protocols.domain.permit import ApprovalState
from operator_protocols.errors import ConflictError, NotFoundError, UsageError
from operator_sre.app.approvals import approve, list_approvals, reject
from operator_sre.app.audit import (
    RunView,
    list_runs,
    show_entry,
    show_run,
    verify_ledger,
)
from operator_sre.app.tickets import TicketView, list_tickets, show_ticket
from operator_sre.app.wiring import App
from tests.app.home import opened
from tests.contract.samples import approval, escalated, run_started, violation

pytestmark = pytest.mark.asyncio


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    with opened(tmp_path) as one:
        yield one


async def test_a_ticket_is_shown_with_its_story(app: App) -> None:
    first = await app.store.tickets.open([violation("node-1")])
    await app.store.tickets.open([violation("node-2")])
    await app.store.leases.end(first, escalated(first))
    view: TicketView = show_ticket(app, first.id)
    assert view.ticket.id == first.id
    assert [entry.kind for entry in view.entries] == ["ticket_opened", "ticket_escalated"]


async def test_tickets_are_listed_by_state_and_subject(app: App) -> None:
    first = await app.store.tickets.open([violation("node-1")])
    await app.store.tickets.open([violation("node-2", subject="bank")])
    await app.store.leases.end(first, escalated(first))
    assert [one.id for one in list_tickets(app, states=["escalated"], subject="")] == [first.id]
    assert [one.subject for one in list_tickets(app, states=[], subject="bank")] == ["bank"]
    assert len(list_tickets(app, states=[], subject="")) == 2


async def test_what_is_not_there_is_told_with_the_next_step(app: App) -> None:
    for look in (
        lambda: show_ticket(app, 7),
        lambda: show_run(app, "run-7"),
        lambda: show_entry(app, 7),
    ):
        with pytest.raises(NotFoundError, match="7") as caught:
            look()
        assert "operator " in caught.value.next_step


async def test_a_state_that_is_none_is_refused_with_those_there_are(app: App) -> None:
    with pytest.raises(UsageError, match="'done'") as caught:
        list_tickets(app, states=["open", "done"], subject="")
    assert "open, claimed, watched, resolved, escalated, closed" in caught.value.next_step


async def test_a_run_is_shown_as_it_went(app: App) -> None:
    await app.store.tickets.open([violation()])
    claimed = await app.store.leases.claim("w", run="run-1", lease_s=9.0, attempts_max=3)
    assert claimed is not None
    started = await app.store.journal.append(run_started(claimed))
    view: RunView = show_run(app, "run-1")
    assert view.run.state == "running"
    assert view.entries[-1] == started
    assert [run.id for run in list_runs(app, limit=5)] == ["run-1"]
    assert show_entry(app, started.seq) == started


async def test_the_ledger_is_verified_with_progress(app: App) -> None:
    await app.store.tickets.open([violation()])
    told: list[int] = []
    report = verify_ledger(app, progress=told.append)
    assert report.whole
    assert report.entries == 1
    assert told


async def test_an_answer_is_given_in_the_name_of_whoever_is_signed_in(app: App) -> None:
    asked = await app.store.approvals.request(approval(at=app.clock.now()))
    decided = (await approve(app, asked.id, reason="go on")).approval
    assert (decided.state, decided.reason) == (ApprovalState.APPROVED, "go on")
    assert decided.decided_by == getpass.getuser()
    with pytest.raises(ConflictError):
        await reject(app, asked.id, reason="too late")


async def test_pending_requests_are_listed_by_themselves(app: App) -> None:
    for name in ("a", "b"):
        await app.store.approvals.request(approval(name, at=app.clock.now()))
    await reject(app, "a", reason="no")
    assert [one.id for one in list_approvals(app, pending_only=True)] == ["b"]
    assert [one.id for one in list_approvals(app, pending_only=False)] == ["a", "b"]
