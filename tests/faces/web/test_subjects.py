"""Subjects in the browser: how they are, how they were, and what is kept quiet."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from operator_protocols.domain.entry import Kind
from operator_sre.app.subjects import list_subjects
from operator_sre.faces.web.pictures import bar
from tests.faces.web.world import Web

NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)


def test_every_subject_has_a_line_and_a_page(web: Web) -> None:
    person = web.person("viewer")
    known = list_subjects(web.app)
    text = person.get("/subjects").text
    assert known
    for one in known:
        assert f'href="/subjects/{one.name}"' in text
        shown = person.get(f"/subjects/{one.name}?since=24h")
        assert shown.status_code == 200, shown.text
        assert 'class="spark strip"' in shown.text
        assert person.part(f"/parts/subjects/{one.name}/health").status_code == 200
    assert person.get("/subjects/nobody").status_code == 404
    assert person.get("/subjects/shop?since=yesterday").status_code == 404


def test_a_silence_is_made_by_an_admin_and_ended_by_an_approver(web: Web) -> None:
    asked = {"target": "node-7*", "for": "2h", "reason": "disks are changed"}
    refused = web.person("approver").post("/silences/add", web.person("approver").guard() | asked)
    assert refused.status_code == 403
    admin = web.person("admin")
    assert admin.send("/subjects", "/silences/add", **asked).status_code == 303
    assert "disks are changed" in admin.part("/parts/silences").text
    ended = web.person("approver").send("/subjects", "/silences/end", reason="done")
    assert ended.status_code == 303
    web.state.renderings._kept.clear()
    assert "disks are changed" not in admin.part("/parts/silences").text
    assert web.api.told(Kind.SILENCE_ADDED)


def test_a_silence_without_an_end_or_for_everything_is_refused(web: Web) -> None:
    admin = web.person("admin")
    for wrong in (
        {"target": "a", "for": "forever", "reason": "x"},
        {"for": "1h", "reason": "x"},
        {"target": "a", "for": "1h", "reason": ""},
        {"target": "a", "for": "90d", "reason": "x"},
    ):
        assert admin.send("/subjects", "/silences/add", **wrong).status_code == 400, wrong


def test_a_bar_shows_how_long_it_was_broken_and_when_nobody_looked() -> None:
    ends = (NOON, NOON + timedelta(hours=1))
    held = bar("disk_full", [], ends, ends)
    assert "disk_full: held" in held
    assert 'class="broken"' not in held
    half = bar("<b>", [(NOON - timedelta(hours=1), NOON + timedelta(minutes=30))], ends, ends)
    assert "broken for 30 min" in half
    assert 'width="120.0"' in half
    assert "<b>" not in half
    moment = bar("x", [(NOON + timedelta(hours=1), None)], ends, ends)
    assert 'x="238.5"' in moment, "what has just begun is seen"
    late = bar("x", [], ends, (NOON + timedelta(minutes=45), ends[1]))
    assert 'class="healthy" x="180.0" y="0" width="60.0"' in late
    unseen = bar("x", [], ends, None)
    assert "not checked" in unseen
    assert "healthy" not in unseen
