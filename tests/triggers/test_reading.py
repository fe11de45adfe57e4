"""What notifications say, and that no body at all does harm."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from operator_protocols.domain.health import Severity
from operator_sre.triggers.trigger import (
    ALERTS_MAX,
    FIELDS,
    SentAlert,
    Trigger,
    UnreadableError,
    read_body,
)
from tests.contract.clock import NOON
from tests.triggers.payloads import ALERTMANAGER, JSON, webhook, webhook_alert


def _read(body: bytes, trigger: Trigger = ALERTMANAGER) -> list[SentAlert]:
    return list(read_body(trigger, body, at=NOON))


def _generic(document: object, **fields: str) -> list[SentAlert]:
    trigger = replace(JSON, fields={**FIELDS, **fields})
    return _read(json.dumps(document).encode(), trigger)


def test_a_notification_of_alertmanager_is_understood() -> None:
    firing, over = _read(
        webhook(webhook_alert(), webhook_alert("DiskFull", "node-2", status="resolved"))
    )
    assert (firing.name, firing.place, firing.firing) == ("HighLatency", "node-1", True)
    assert firing.severity is Severity.CRITICAL
    assert firing.summary == "HighLatency at node-1"
    assert firing.since == datetime(2026, 3, 4, 11, 58, 20, 123456, tzinfo=UTC)
    assert firing.labels["job"] == "api"
    assert (over.name, over.firing) == ("DiskFull", False)


def test_the_same_alert_has_the_same_fingerprint_and_others_have_others() -> None:
    again = webhook_alert(annotations={"summary": "worse"}, startsAt="2026-03-04T11:59:00Z")
    bare = {**webhook_alert(), "fingerprint": ""}
    other = {**webhook_alert(instance="node-2"), "fingerprint": ""}
    prints = [one.fingerprint for one in _read(webhook(webhook_alert(), again, bare, bare, other))]
    assert prints[0] == prints[1]
    assert prints[2] == prints[3]
    assert len(set(prints)) == 3


@pytest.mark.parametrize(
    ("word", "severity"),
    [
        ("critical", Severity.CRITICAL),
        ("Page", Severity.CRITICAL),
        ("warning", Severity.WARNING),
        ("", Severity.WARNING),
        ("who knows", Severity.WARNING),
        ("info", Severity.INFO),
    ],
)
def test_severities_of_others_are_translated(word: str, severity: Severity) -> None:
    assert _read(webhook(webhook_alert(severity=word)))[0].severity is severity


@pytest.mark.parametrize(
    "text", ["0001-01-01T00:00:00Z", "9999-01-01T00:00:00Z", "soon", "", 7, None, "2026-03-04"]
)
def test_a_beginning_that_makes_no_sense_is_now(text: Any) -> None:
    since = _read(webhook(webhook_alert(startsAt=text)))[0].since
    assert since == NOON or text == "2026-03-04"
    assert NOON - timedelta(days=1) < since <= NOON


def test_a_generic_body_is_read_by_its_paths() -> None:
    document = {
        "event": {"title": "Disk", "host": "db-1", "level": "fatal", "text": "97 % used"},
        "status": "alerting",
    }
    (told,) = _generic(
        document,
        name="event.title",
        target="event.host",
        severity="event.level",
        summary="event.text",
        state="status",
    )
    assert (told.name, told.place, told.firing) == ("Disk", "db-1", True)
    assert (told.severity, told.summary) == (Severity.CRITICAL, "97 % used")


def test_a_generic_body_may_hold_a_list() -> None:
    document = {"items": [{"name": "a"}, {"name": "b", "state": "ok"}]}
    assert [(one.name, one.firing) for one in _generic(document, alerts="items")] == [
        ("a", True),
        ("b", False),
    ]
    assert len(_generic([{"name": "a"}, {"name": "b"}])) == 2


def test_what_changes_of_an_event_does_not_make_it_another() -> None:
    one, two, other = _generic(
        [
            {"name": "a", "target": "x", "state": "firing", "summary": "1"},
            {"name": "a", "target": "x", "state": "ok", "summary": "2"},
            {"name": "a", "target": "y"},
        ]
    )
    assert one.fingerprint == two.fingerprint != other.fingerprint


@pytest.mark.parametrize("state", ["ok", "RESOLVED", " closed ", "up", False])
def test_a_word_that_says_so_ends_it(state: object) -> None:
    assert not _generic({"name": "a", "state": state})[0].firing


@pytest.mark.parametrize("state", ["firing", "weird", "", None, 0, {}, [], True])
def test_what_is_not_understood_fires(state: object) -> None:
    assert _generic({"name": "a", "state": state})[0].firing


@pytest.mark.parametrize(
    ("body", "word"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"NaN", "not JSON"),
        (b"[]", "not a notification"),
        (b'{"alerts": {}}', "not a notification"),
        (webhook(version="3"), "version '4'"),
        (webhook({"status": "maybe"}), "firing or resolved"),
        (webhook({**webhook_alert(), "labels": {"a": 1}}), "must be strings"),
        (webhook(*[webhook_alert()] * (ALERTS_MAX + 1)), f"the limit is {ALERTS_MAX}"),
    ],
)
def test_what_cannot_be_understood_is_said_in_a_sentence(body: bytes, word: str) -> None:
    with pytest.raises(UnreadableError, match=word):
        _read(body)


def test_a_generic_alert_needs_a_name() -> None:
    for document in ({}, {"name": ""}, {"name": {"a": 1}}, [3]):
        with pytest.raises(UnreadableError):
            _generic(document)


def test_texts_are_bounded_and_names_are_printable() -> None:
    long = "x" * 100_000
    body = webhook_alert(name=f"\x1b[31m{long}", annotations={"summary": long})
    body["labels"] |= {f"label-{n}": long for n in range(100)}
    (told,) = _read(webhook(body))
    assert told.name.isprintable()
    assert len(told.name) <= 120
    assert len(told.summary) <= 1000
    assert len(told.labels) <= 64
    assert all(len(text) <= 1000 for text in told.labels.values())


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
_ALERT = st.fixed_dictionaries(
    {},
    optional={
        name: _JSON | st.sampled_from(["firing", "resolved", {"alertname": "x"}])
        for name in ("status", "labels", "annotations", "startsAt", "fingerprint", "name", "state")
    },
)


@given(
    body=st.binary()
    | _JSON.map(json.dumps).map(str.encode)
    | st.lists(_ALERT, max_size=3)
    .map(lambda told: json.dumps({"version": "4", "alerts": told}))
    .map(str.encode),
    trigger=st.sampled_from(
        [ALERTMANAGER, JSON, replace(JSON, fields={**FIELDS, "alerts": "a.b"})]
    ),
)
@example(body=b'"\\ud800"', trigger=JSON)
@example(body=b'{"name": "\\u0000"}', trigger=JSON)
def test_no_body_does_harm(body: bytes, trigger: Trigger) -> None:
    try:
        told = _read(body, trigger)
    except UnreadableError:
        return
    assert all(one.name and len(one.fingerprint) == 16 and one.since <= NOON for one in told)
