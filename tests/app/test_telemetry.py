"""Traces of real runs at a real collector: each span once, whoever sends; none ever in the way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from operator_protocols.domain.action import Action
from operator_protocols.domain.category import ErrorCategory, NextAction
from operator_protocols.domain.run import Answer, Finish, Spent
from operator_protocols.domain.ticket import TicketState
from operator_protocols.domain.trace import span_id, trace_id
from operator_protocols.errors import NotFoundError, OperatorError, UsageError
from operator_sre.app import telemetry
from operator_sre.app.answers import run_timeline
from operator_sre.app.telemetry import (
    Sender,
    TelemetryStatus,
    entry_of,
    run_spans,
    send_spans,
    telemetry_status,
    try_collector,
)
from operator_sre.app.wiring import App
from operator_sre.contract.evidence import command_for, of_span
from operator_sre.contract.messages import EvidenceType, GetRunTimelineRequest
from operator_sre.telemetry import spans
from tests.app.home import opened
from tests.contract.workshop import DIAGNOSIS, MEND, Script, Workshop
from tests.processes.waiting import eventually
from tests.telemetry.collector import collecting

SECRET = "hunter2-never-in-a-trace"
TURNS = (
    Answer(SECRET, (Action.shell(f"echo {SECRET}"),), Spent(100, 10, 0.5)),
    Answer("act", (DIAGNOSIS, MEND), Spent(50, 5, 0.25)),
    Answer("over", (Finish("repaired"),)),
)
NAMES = [
    *("chat script", "execute_tool shell", "chat script", "execute_tool mend"),
    *("chat script", "prove", "invoke_agent operator"),
]


def _toml(url: str) -> str:
    return f'otlp_endpoint = "{url}"\n'


async def _carried(folder: Path) -> None:
    shop = Workshop(folder / "home", Script(*TURNS))
    try:
        assert (await shop.carry()).state is TicketState.RESOLVED
    finally:
        shop.close()


@asynccontextmanager
async def _sending(app: App) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.ensure_future(send_spans(app))
    try:
        await eventually(lambda: app.store.cursors.find("traces"))
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])


@pytest.mark.asyncio
async def test_a_run_arrives_as_one_trace(tmp_path: Path) -> None:
    with collecting() as inbox, opened(tmp_path, _toml(inbox.url)) as app:
        async with _sending(app) as task:
            await _carried(tmp_path)
            await eventually(lambda: len(inbox.spans) >= len(NAMES))
            assert not task.done()
            await eventually(lambda: telemetry_status(app).sent == len(NAMES))
        found = inbox.spans
        assert sorted(one.name for one in found) == sorted(NAMES)
        assert len({one.id for one in found}) == len(NAMES)
        assert {one.trace for one in found} == {trace_id("run-1")}
        (root,) = [one for one in found if one.name == "invoke_agent operator"]
        assert {one.parent for one in found} == {"", root.id}
        assert root.attributes["gen_ai.usage.input_tokens"] == 150
        assert root.attributes["operator.cost.usd"] == 0.75
        assert [one.id for one in run_spans(app, "run-1")] == [one.id for one in found]
        for body in inbox.bodies:
            assert SECRET.encode() not in body
        assert telemetry_status(app) == TelemetryStatus(inbox.url, len(NAMES), 0, 0)
        # What the contract calls evidence leads to the spans that were sent, and back.
        events = run_timeline(app, GetRunTimelineRequest(run_id="run-1")).events
        refs = {one.ref for event in events for one in event.evidence_refs if one.type == "span"}
        assert refs == {one.id for one in found}
        for span in refs:
            entry = entry_of(app, span)
            assert span == span_id("run-1", entry.seq) == of_span(entry).ref
            assert command_for(EvidenceType.SPAN, span) == f"operator audit show --span {span}"
        for nonsense in (span_id("run-2", 3), span_id("run-1", 99_999), "", "x"):
            with pytest.raises(NotFoundError, match="no span"):
                entry_of(app, nonsense)
        with pytest.raises(NotFoundError, match="no run"):
            run_spans(app, "run-9")


@pytest.mark.asyncio
async def test_nobody_waits_for_a_collector_and_its_spans_wait_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spans, "SEND_S_MAX", 0.3)
    monkeypatch.setattr(telemetry, "BACK_OFF_S_MAX", 0.1)
    with collecting() as inbox, opened(tmp_path, _toml(inbox.url)) as app:
        inbox.status = 400
        async with _sending(app) as task:
            await _carried(tmp_path)
            await eventually(lambda: telemetry_status(app).problem)
            assert not task.done()
            assert telemetry_status(app).behind > 0
        assert inbox.spans == []
        inbox.status = 200
        # Another process goes on where the first was, and nothing comes twice.
        async with _sending(app):
            await eventually(lambda: len(inbox.spans) >= len(NAMES))
            await eventually(lambda: telemetry_status(app).behind == 0)
        assert sorted(one.name for one in inbox.spans) == sorted(NAMES)
        assert telemetry_status(app).problem == ""


@pytest.mark.asyncio
async def test_what_is_too_much_is_dropped_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(telemetry, "BEHIND_MAX", 3)
    monkeypatch.setattr(telemetry, "PAGE", 10)
    with collecting() as inbox, opened(tmp_path, _toml(inbox.url)) as app:
        inbox.status = 400
        await _carried(tmp_path)
        cursors = app.store.cursors
        cursor = await cursors.claim("traces", "me", lease_s=30)
        assert cursor is not None
        cursor = replace(cursor, seq=0)
        sender = Sender(app, spans.Collector(inbox.url, "1"))
        after = await sender.step(cursor)
        dropped = after.note["dropped"]
        assert dropped > 0
        assert after.seq == 10
        # Once few enough wait, they do.
        last = await sender.step(replace(after, seq=after.seq + 8))
        assert last.seq == after.seq + 8
        assert last.note["dropped"] == dropped
        inbox.status = 200
        done = await sender.step(after)
        assert done.note["sent"] == len(NAMES) - dropped
        assert done.note["problem"] == ""
        sender.collector.close()


def test_trying_the_collector_says_whether_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spans, "SEND_S_MAX", 0.3)
    with opened(tmp_path) as app, pytest.raises(UsageError, match="otlp_endpoint"):
        try_collector(app)
    with collecting() as inbox:
        with opened(tmp_path, _toml(inbox.url)) as app:
            assert try_collector(app) == inbox.spans[0].trace
        url = inbox.url
    with opened(tmp_path, _toml(url)) as app, pytest.raises(OperatorError) as failed:
        try_collector(app)
    assert failed.value.category is ErrorCategory.DASHBOARD_UNAVAILABLE
    assert failed.value.next_action is NextAction.RERUN


@pytest.mark.asyncio
async def test_a_token_is_not_sent_in_clear(tmp_path: Path) -> None:
    secret = tmp_path / "token"
    secret.write_text("the-token\n")
    secret.chmod(0o600)
    more = f'otlp_token_file = "{secret}"\n'
    with opened(tmp_path, _toml("http://192.0.2.1:4318") + more) as app:
        await send_spans(app)  # it is logged, and that is all
        with pytest.raises(UsageError, match="unencrypted"):
            try_collector(app)
    with collecting() as inbox, opened(tmp_path, _toml(inbox.url) + more) as app:
        try_collector(app)
        assert inbox.headers[0]["authorization"] == "Bearer the-token"


@pytest.mark.asyncio
async def test_without_an_endpoint_nothing_is_sent_or_kept(tmp_path: Path) -> None:
    with opened(tmp_path) as app:
        await send_spans(app)
        assert app.store.cursors.find("traces") == []
        assert telemetry_status(app) == TelemetryStatus("", 0, 0, 0)


def test_an_endpoint_that_makes_no_sense_is_refused(tmp_path: Path) -> None:
    for wrong in ("localhost:4318", "ftp://h", "http://", "http://a:b@h", "http://h?key=1"):
        with pytest.raises(UsageError, match="otlp_endpoint"), opened(tmp_path, _toml(wrong)):
            pass
