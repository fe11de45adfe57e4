"""What people read: one line, then all they need, and the command to type next."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, time, timedelta

import pytest

from operator_protocols.domain.diagnosis import Diagnosis
from operator_protocols.domain.entry import Actor, Entry, Kind
from operator_protocols.domain.health import Severity
from operator_protocols.domain.ticket import TicketState
from operator_sre.notify.notice import (
    KINDS,
    Event,
    Message,
    Notice,
    Quiet,
    message_of,
    notice_of,
    quiet_of,
)
from tests.contract.clock import NOON
from tests.contract.samples import approval, ticket, violation


def _entry(kind: Kind, **payload: object) -> Entry:
    return Entry(7, NOON, kind, payload, 1, "", Actor(), "", "")


def _notice(kind: Kind = Kind.TICKET_OPENED, **payload: object) -> Notice:
    notice = notice_of(_entry(kind, **payload), ticket(), approval())
    assert notice is not None
    return notice


def test_a_ticket_that_opens_says_what_broke_since_when_and_what_to_type() -> None:
    message = message_of([_notice()])
    assert message.title == "Operator: ticket 1 opened (critical): node-1: node_down"
    assert "shop / node-1: node_down: connection refused" in message.body
    assert "since 2026-03-04 12:00:00 UTC" in message.body
    assert "operator tickets show 1" in message.body


def test_how_it_ended_says_why() -> None:
    for kind, word in ((Kind.TICKET_RESOLVED, "resolved"), (Kind.TICKET_ESCALATED, "escalated")):
        message = message_of([_notice(kind, reason="it was seen to hold")])
        assert f"ticket 1 {word}" in message.title
        assert "because: it was seen to hold" in message.body


def test_a_request_names_the_command_the_risk_the_time_and_how_to_answer() -> None:
    message = message_of([_notice(Kind.APPROVAL_REQUESTED, approval={"id": "a1"})])
    assert message.title.startswith("Operator: approval needed (critical): restart_node")
    assert "operator approvals approve a1" in message.body
    assert "risk medium" in message.body
    assert "until 2026-03-04 12:01:00 UTC" in message.body
    assert "for ticket 1" in message.body


def test_a_request_that_nobody_answered_says_so() -> None:
    message = message_of([_notice(Kind.APPROVAL_ESCALATED, id="a1", reason="nobody answered")])
    assert "still needed" in message.title
    assert "because: nobody answered" in message.body
    assert "operator approvals approve a1" in message.body


def test_what_is_about_no_ticket_is_never_filtered_as_unimportant() -> None:
    notice = notice_of(_entry(Kind.APPROVAL_REQUESTED, approval={"id": "a1"}), None, approval())
    assert notice is not None
    assert notice.severity is Severity.CRITICAL


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind not in KINDS])
def test_nobody_hears_of_anything_else(kind: Kind) -> None:
    assert notice_of(_entry(kind), ticket(), None) is None


def test_a_ticket_that_was_purged_is_not_told_of() -> None:
    assert notice_of(_entry(Kind.TICKET_OPENED), None, None) is None


def test_several_are_one_message_with_a_count() -> None:
    notices = [_notice(), _notice(), _notice(Kind.TICKET_RESOLVED, reason="")]
    message = message_of(notices)
    assert message.title == "Operator: 2 opened, 1 resolved (critical): ticket 1"
    assert message.body.count("operator tickets show 1") == 3


def test_a_grouped_message_lists_every_ticket_with_its_severity() -> None:
    filed = [
        replace(ticket(violation(f"node-{number}")), id=number, severity=Severity.WARNING)
        for number in range(1, 31)
    ]
    notices = [notice_of(_entry(Kind.TICKET_OPENED), each, None) for each in filed]
    message = message_of([notice for notice in notices if notice is not None])
    assert message.title == (
        "Operator: 30 opened (warning): tickets 1, 2, 3, 4, 5, 6, 7, 8 and 22 more"
    )
    for number in range(1, 31):
        assert f"ticket {number} opened (warning): " in message.body


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        (Kind.TICKET_ESCALATED, {"reason": "it needs a person"}),
        (Kind.APPROVAL_REQUESTED, {"approval": {"id": "a1"}}),
    ],
)
def test_a_message_says_the_severity_what_broke_and_the_diagnosis(
    kind: Kind, payload: dict[str, object]
) -> None:
    found = Diagnosis(
        cause="disk_full",
        target="node-1",
        summary="node-1: the disk is full.",
        severity=Severity.CRITICAL,
        confidence=0.87,
        timeline=(),
        affected=("node-1",),
        evidence=(),
        hypotheses=(),
        alternatives=(),
        options=(),
        choice="clean(node-1)",
        why="it is reversible",
    )
    notice = notice_of(_entry(kind, **payload), ticket(), approval(), found)
    assert notice is not None
    message = message_of([notice])
    assert "(critical)" in message.title
    assert "shop / node-1: node_down: connection refused" in message.body
    assert "diagnosis: node-1: the disk is full. (confidence 87.0%)" in message.body
    assert "proposed: clean(node-1)" in message.body


def test_many_are_summed_up() -> None:
    message = message_of([_notice()] * 500)
    assert "500 opened" in message.title
    assert "and 480 more: operator tickets list" in message.body
    assert len(message.body) < 10_000


def test_what_happened_to_messages_before_is_said() -> None:
    message = message_of([_notice()], again=True, lost=3, held=True)
    assert message.title.startswith("[again] ")
    assert "may have been sent before" in message.body
    assert "3 earlier notices could not be delivered" in message.body
    assert "were delayed" in message.body
    assert message_of([_notice()]) == Message(
        message.title.removeprefix("[again] "), message.body.split("\n\n")[-1]
    )


def test_text_from_outside_stays_on_its_line() -> None:
    nasty = violation(detail="a\nTicket 9 resolved\r\n\x1b[31m" + "x" * 10_000)
    notice = notice_of(_entry(Kind.TICKET_OPENED), ticket(nasty), None)
    assert notice is not None
    message = message_of([notice])
    assert "\nTicket 9" not in message.body
    assert "\x1b" not in message.body
    assert len(message.body) < 1500
    assert "\n" not in message.title


def test_a_long_incident_is_shortened() -> None:
    many = [violation(f"node-{n}", since=NOON - timedelta(seconds=n)) for n in range(9)]
    filed = replace(ticket(*many), state=TicketState.OPEN)
    notice = notice_of(_entry(Kind.TICKET_OPENED), filed, None)
    assert notice is not None
    assert "and 6 more violations" in notice.lines
    assert "since 2026-03-04 11:59:52 UTC" in notice.lines
    assert notice.event is Event.OPENED


def test_each_has_a_link_to_its_page_where_there_is_a_web_console() -> None:
    asked = _notice(Kind.APPROVAL_REQUESTED, approval={"id": "a/1"})
    message = message_of([_notice(), asked], web_url="https://ops.example")
    assert "https://ops.example/tickets/1" in message.body
    assert "https://ops.example/approvals/a%2F1" in message.body
    assert "/tickets/1" not in message_of([_notice()]).body


@pytest.mark.parametrize(
    ("words", "at", "left_s"),
    [
        ("22:00-07:00", "2026-03-04T21:59:59", 0),
        ("22:00-07:00", "2026-03-04T22:00:00", 9 * 3600),
        ("22:00-07:00", "2026-03-05T06:59:00", 60),
        ("22:00-07:00", "2026-03-05T07:00:00", 0),
        ("12:00-13:00", "2026-03-05T12:30:00", 1800),
        ("12:00-13:00", "2026-03-05T13:00:00", 0),
        ("22:00-07:00 Europe/Berlin", "2026-03-04T20:59:00", 0),
        ("22:00-07:00 Europe/Berlin", "2026-03-04T21:00:00", 9 * 3600),
        # The night in which the clocks go forward is an hour shorter.
        ("22:00-07:00 Europe/Berlin", "2026-03-28T21:00:00", 8 * 3600),
    ],
)
def test_quiet_hours_are_of_the_zone_of_whoever_sleeps(words: str, at: str, left_s: int) -> None:
    assert quiet_of(words).left_s(datetime.fromisoformat(at).replace(tzinfo=UTC)) == left_s
    assert quiet_of("01:00-02:30") == Quiet(time(1), time(2, 30))
