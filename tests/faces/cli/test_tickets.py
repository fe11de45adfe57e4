"""What people do with tickets, as they type it."""

from __future__ import annotations

import asyncio
import getpass
from datetime import UTC, datetime

import pytest

from operator_protocols.domain.entry import Kind
from operator_protocols.domain.health import Severity
from operator_protocols.domain.ticket import Ticket, TicketState
from tests.contract.samples import violation
from tests.e2e.home import Home

ME = getpass.getuser()


@pytest.fixture
def filed(home: Home) -> Home:
    """Two tickets about a subject that nobody can look at."""
    home.run("tickets", "list")
    since = datetime.now(UTC)
    for target, severity in [("node-1", Severity.CRITICAL), ("node-2", Severity.INFO)]:
        one = violation(target, severity=severity, detail="it is 100% full", since=since)
        asyncio.run(home.store.tickets.open([one]))
    return home


def _ticket(home: Home, number: int = 1) -> Ticket:
    found = home.store.tickets.get(number)
    assert found is not None
    return found


def _last(home: Home) -> tuple[Kind, str]:
    entry = home.store.entries.newest(limit=1, ticket=1)[0]
    return entry.kind, entry.actor.id


def test_a_ticket_is_held_and_let_go(filed: Home) -> None:
    done = filed.run("tickets", "hold", "1", "--reason", "I am on it")
    assert (done.code, done.out) == (0, f"Ticket 1 is open, held by {ME}.\n")
    assert _last(filed) == (Kind.TICKET_HELD, ME)
    assert f"open, held by {ME}" in filed.run("tickets", "list").out
    shown = filed.run("tickets", "show", "1").out
    assert f"open, held by {ME}" in shown
    assert "I am on it" in shown
    again = filed.ask("tickets", "hold", "1", "--reason", "I am on it")["ticket"]
    assert again["pause"]["by"] == ME
    assert len(filed.store.entries.after(0, limit=99, ticket=1)) == 2
    assert filed.ask("tickets", "unhold", "1")["ticket"]["pause"] is None


def test_a_ticket_is_put_off_until_a_time(filed: Home) -> None:
    told = filed.ask("tickets", "snooze", "1", "--for", "2h", "--reason", "after lunch")["ticket"]
    assert told["pause"]["snoozed"]
    assert "snoozed until" in filed.run("tickets", "list").out
    assert _ticket(filed).is_paused(datetime.now(UTC))


def test_a_ticket_is_somebodys_and_can_be_found(filed: Home) -> None:
    filed.ask("tickets", "assign", "2", "ada")
    found = filed.ask("tickets", "list", "--assignee", "ada")["tickets"]
    assert [one["id"] for one in found] == [2]
    assert filed.ask("tickets", "list", "--severity", "critical")["tickets"][0]["id"] == 1
    assert len(filed.ask("tickets", "list", "--text", "100% FULL")["tickets"]) == 2
    assert filed.ask("tickets", "list", "--text", "nowhere")["tickets"] == []
    assert filed.run("tickets", "list", "--severity", "loud").code == 2
    assert "assigned to ada" in filed.run("tickets", "show", "2").out
    filed.ask("tickets", "assign", "2", "")
    assert _ticket(filed, 2).assignee == ""


def test_a_comment_is_part_of_the_story_and_obeys_nobody(filed: Home) -> None:
    text = "I saw this before\x1b[2J"
    assert filed.run("tickets", "comment", "1", text).code == 0
    filed.ask("tickets", "comment", "1", text)
    shown = filed.run("tickets", "show", "1").out
    assert shown.count("I saw this before") == 1
    assert ME in shown
    assert "\x1b" not in shown
    refused = filed.run("tickets", "comment", "1", " ")
    assert (refused.code, refused.out) == (2, "")


def test_closing_needs_a_reason_and_reopening_begins_anew(filed: Home) -> None:
    refused = filed.run("tickets", "close", "1")
    assert refused.code == 2
    assert "--reason" in refused.err
    done = filed.run("tickets", "close", "1", "--reason", "a known fault")
    assert "Ticket 1 is closed." in done.out
    assert "operator silences add --subject shop --target node-1" in done.out
    assert (_ticket(filed).state, _ticket(filed).reason) == (TicketState.CLOSED, "a known fault")
    assert filed.ask("tickets", "close", "1", "--reason", "again")["ticket"]["state"] == "closed"
    held = filed.run("tickets", "hold", "1")
    assert held.code == 1
    assert "closed already" in held.err
    assert "operator tickets reopen 1" in held.err
    assert filed.ask("tickets", "reopen", "1", "--reason", "oh")["ticket"]["state"] == "open"
    assert "closed" in filed.run("tickets", "show", "1").out.lower()


def test_a_ticket_is_given_to_people(filed: Home) -> None:
    assert filed.run("tickets", "escalate", "1").code == 2
    told = filed.ask("tickets", "escalate", "1", "--reason", "the disk is ours")["ticket"]
    assert (told["state"], told["reason"]) == ("escalated", "the disk is ours")
    assert _last(filed) == (Kind.TICKET_ESCALATED, ME)


def test_only_what_we_see_ourselves_is_resolved(filed: Home) -> None:
    refused = filed.run("tickets", "resolve", "1", "--reason", "trust me")
    assert refused.code == 1
    assert "not resolved" in refused.err
    assert "operator tickets close 1 --reason" in refused.err
    assert _ticket(filed).state is TicketState.OPEN


@pytest.mark.parametrize("verb", ["hold", "unhold", "escalate", "reopen", "close", "resolve"])
def test_a_ticket_that_is_not_there_is_one_sentence(home: Home, verb: str) -> None:
    refused = home.run("tickets", verb, "7", "--reason", "x")
    assert refused.code == 2
    assert refused.err.startswith("operator: There is no ticket 7.")
    assert len(refused.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("snooze 1", "A snooze requires an end"),
        ("snooze 1 --for soon", "not a valid duration"),
        ("snooze 1 --for 2h --until 2199-01-01", "cannot be used together"),
        ("snooze 1 --for 400d", "90 days"),
        ("hold 1 --until 2001-01-01", "in the past"),
    ],
)
def test_times_that_make_no_sense_are_said_to(filed: Home, line: str, says: str) -> None:
    refused = filed.run("tickets", *line.split())
    assert refused.code == 2
    assert says in refused.err
    assert _ticket(filed).pause is None
