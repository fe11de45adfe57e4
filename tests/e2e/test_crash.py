"""Agents that die in the middle: another goes on from the ledger, and nothing runs twice."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable, Iterator

import pytest

from operator_protocols.domain.entry import Entry, Kind
from operator_protocols.domain.permit import Approval, ApprovalState
from operator_protocols.domain.ticket import Ticket, TicketState
from tests.e2e.home import Home, Running
from tests.e2e.story import Story
from tests.e2e.waiting import eventually

Moment = Callable[[list[Entry]], bool]


@pytest.fixture(scope="module")
def monitored(rigged: Home) -> Iterator[Home]:
    """The rig with a monitor on it, and no agent."""
    running = rigged.fork("monitor", "run", "--subject", "ratelimiter")
    rigged.looked(1)
    yield rigged
    assert running.end() == 128 + signal.SIGTERM


def _agent(home: Home, mode: str) -> Running:
    return home.fork_module("tests.e2e.short_lease_agent", str(home.path), mode)


def _kill(home: Home, target: str) -> Ticket:
    # A ticket that is still open would take the new violation in, and no other would be opened.
    live = (TicketState.OPEN, TicketState.CLAIMED)
    eventually(lambda: not home.tickets(*live), "no ticket is open")
    before = max([ticket.id for ticket in home.tickets()], default=0)
    os.kill(home.rig()[target]["pid"], signal.SIGKILL)
    return home.new_ticket(before, *live)


def _asked(home: Home, ticket: Ticket) -> Approval:
    """The request about a ticket that waits for a person."""

    def pending() -> Approval | None:
        found = home.store.approvals.find(states=(ApprovalState.PENDING,))
        return next((one for one in found if one.ticket == ticket.id), None)

    return eventually(pending, f"a request about ticket {ticket.id}")


def _ended(home: Home, number: int) -> Story:
    """The story of a ticket that was worked on by two agents and came to its proof."""

    def resolved() -> bool:
        ticket = home.store.tickets.get(number)
        assert ticket is not None
        assert ticket.state is not TicketState.ESCALATED, ticket.reason
        return ticket.state is TicketState.RESOLVED

    eventually(resolved, f"ticket {number} is resolved")
    story = Story(home, number)
    claims = [entry["payload"] for entry in story.all("ticket_claimed")]
    assert [claim["resumed"] for claim in claims] == [False] + [True] * (len(claims) - 1)
    assert len({claim["worker"] for claim in claims}) == 2
    assert len(story.all("run_started")) == len(story.all("run_finished")) == 1
    story.check_order()
    story.check_proof()
    story.check_chain()
    return story


def _intends_repair(entries: list[Entry]) -> bool:
    last = entries[-1]
    return last.kind is Kind.TOOL_CALL and last.payload["action"]["tool"] == "restart_node"


def _has_repaired(entries: list[Entry]) -> bool:
    permits = [one.payload["permit"] for one in entries if _intends_repair([one])]
    return entries[-1].kind is Kind.TOOL_RESULT and entries[-1].payload["permit"] in permits


def _at_random(entries: list[Entry]) -> bool:
    steps = [entry for entry in entries if entry.run]
    return len(steps) >= random.Random(6).randint(2, 20)


@pytest.mark.parametrize(
    ("target", "moment"),
    [
        pytest.param("node-1", _at_random, marks=pytest.mark.slow),
        ("node-2", _intends_repair),
        pytest.param("node-3", _has_repaired, marks=pytest.mark.slow),
    ],
    ids=["at a random moment", "in the middle of the repair", "before the proof"],
)
def test_another_agent_goes_on_after_kill_nine(
    monitored: Home, target: str, moment: Moment
) -> None:
    ticket = _kill(monitored, target)
    first = _agent(monitored, "execute")

    def comes() -> bool:
        entries = monitored.store.entries.after(0, limit=10_000, ticket=ticket.id)
        return any(moment(list(entries[: end + 1])) for end in range(len(entries)))

    eventually(comes, "the moment to kill the agent")
    assert first.end(signal.SIGKILL) == -signal.SIGKILL
    second = _agent(monitored, "execute")
    story = _ended(monitored, ticket.id)
    repairs = [
        outcome["payload"]["result"]["outcome"]
        for intent in story.all("tool_call")
        for outcome in story.all("tool_result")
        if intent["payload"]["permit"] == outcome["payload"]["permit"]
        and intent["payload"]["action"]["tool"] == "restart_node"
    ]
    assert repairs in (["ran"], ["unknown"], ["unknown", "ran"])
    assert monitored.rig()[target]["state"] == "running"
    second.end(signal.SIGKILL)


@pytest.mark.parametrize(
    ("target", "nobody_there"),
    [pytest.param("node-1", False, marks=pytest.mark.slow), ("node-2", True)],
    ids=["answered after the restart", "answered while no agent lives"],
)
def test_a_request_outlives_the_agent_that_made_it(
    monitored: Home, target: str, nobody_there: bool
) -> None:
    ticket = _kill(monitored, target)
    first = _agent(monitored, "approve")
    asked = _asked(monitored, ticket)
    assert monitored.rig()[target]["state"] == "exited", "nothing runs before the answer"
    assert first.end(signal.SIGKILL) == -signal.SIGKILL
    if nobody_there:
        assert monitored.run("approvals", "approve", asked.id).code == 0
        second = _agent(monitored, "approve")
    else:
        second = _agent(monitored, "approve")
        claims = (Kind.TICKET_CLAIMED,)
        eventually(
            lambda: len(monitored.entries(*claims, ticket=ticket.id)) == 2, "the second claim"
        )
        assert monitored.run("approvals", "approve", asked.id).code == 0
    story = _ended(monitored, ticket.id)
    (requested,) = story.all("approval_requested")
    assert requested["payload"]["approval"]["id"] == asked.id, "nobody was asked twice"
    assert story.intended.count("restart_node") == 1
    second.end(signal.SIGKILL)


@pytest.mark.slow
def test_a_stopped_agent_hands_its_ticket_on_at_once(monitored: Home) -> None:
    ticket = _kill(monitored, "node-3")
    first = monitored.fork("agent", "start", "--mode", "approve")
    asked = _asked(monitored, ticket)
    assert first.end(signal.SIGTERM) == 128 + signal.SIGTERM
    parked = monitored.store.tickets.get(ticket.id)
    assert parked is not None
    assert (parked.state, parked.reason) == (TicketState.OPEN, "The agent was stopped.")
    second = monitored.fork("agent", "start", "--mode", "approve")
    eventually(
        lambda: len(monitored.entries(Kind.TICKET_CLAIMED, ticket=ticket.id)) == 2,
        "the second claim, without waiting for a lease to end",
        within_s=25,  # a lease lasts 30 s
    )
    monitored.ask("approvals", "approve", asked.id)
    story = _ended(monitored, ticket.id)
    assert len(story.all("approval_requested")) == 1
    assert story.intended.count("restart_node") == 1
    assert second.end() == 128 + signal.SIGTERM
