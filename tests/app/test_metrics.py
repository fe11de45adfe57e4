"""Our own figures and heartbeat as use cases: none of them stops the watching."""

from __future__ import annotations

import asyncio
import logging
import socket
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import httpx2
import pytest

from operator_protocols.domain.entry import Draft, Kind
from operator_protocols.domain.watcher import Watch
from operator_protocols.errors import StoreError
from operator_sre.app.service import attend_beside
from operator_sre.app.telemetry import Meter, send_heartbeats, serve_metrics
from operator_sre.telemetry.metrics import exposition
from tests.app.home import SUBJECTS, opened
from tests.contract.samples import alert, violation
from tests.notify.sink import sink
from tests.processes.waiting import eventually

pytestmark = pytest.mark.asyncio


def _watches() -> list[Watch]:
    return [Watch("shop", 5.0, datetime.now(UTC), 0.2, looks=3)]


async def test_a_meter_counts_from_where_it_began(tmp_path: Path) -> None:
    toml = SUBJECTS + '[triggers.prometheus]\nkind = "json"\nopen = 1\n'
    with opened(tmp_path, toml) as app:
        await app.store.tickets.open([violation("old")])
        meter = Meter(app, _watches)
        meter.follow()
        await app.store.tickets.open([violation("new")])
        await app.store.alerts.take([alert()])
        finished = {"state": "completed", "summary": "", "category": None}
        await app.store.journal.append(Draft(Kind.RUN_FINISHED, finished, run="run-1"))
        meter.follow()
        meter.follow()
        text = exposition(meter.figures).decode()
    for line in (
        'operator_ticket_events_total{event="opened"} 1.0',
        'operator_tickets{severity="critical",state="open"} 2.0',
        'operator_runs_total{outcome="completed"} 1.0',
        'operator_alerts_firing{trigger="prometheus"} 1.0',
        'operator_looks_total{subject="shop"} 3.0',
        'operator_subject_health{health="unknown",subject="shop"} 1.0',
        "operator_ledger_head_seq 4.0",
        "operator_store_errors_total 0.0",
    ):
        assert line in text, line


async def test_a_store_that_is_away_is_counted_and_the_rest_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*words: object, **more: object) -> None:
        raise StoreError("away")

    with opened(tmp_path, SUBJECTS) as app:
        meter = Meter(app, _watches)
        monkeypatch.setattr(type(app.store.reader), "rows", away)
        meter.follow()
        text = exposition(meter.figures).decode()
        assert 'operator_looks_total{subject="shop"} 3.0' in text
        assert "operator_ledger_head_seq" not in text
        assert "operator_store_errors_total 0.0" not in text


async def test_an_address_that_is_taken_stops_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(logging.getLogger("operator_sre"), "propagate", True)
    monkeypatch.setattr("operator_sre.app.telemetry.AGAIN_S", 0.05)
    caplog.set_level(logging.INFO)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with opened(tmp_path, metrics=address) as app:
            work = asyncio.ensure_future(serve_metrics(app, _watches))
            await eventually(lambda: "cannot be served" in caplog.text)
            taken.close()
            await eventually(lambda: f"http://{address}/metrics" in caplog.text)
            async with httpx2.AsyncClient(timeout=20) as client:
                answer = await client.get(f"http://{address}/metrics")
            assert "operator_build_info" in answer.text
            work.cancel()
            await asyncio.wait([work])


async def test_the_heartbeat_is_sent_and_its_address_is_never_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(logging.getLogger("operator_sre"), "propagate", True)
    caplog.set_level(logging.INFO)
    file = tmp_path / "heart"
    with sink() as heart, opened(tmp_path, heartbeat_url_file=str(file), heartbeat_s="1") as app:
        work = asyncio.ensure_future(send_heartbeats(app, _watches))
        await eventually(lambda: "cannot be read" in caplog.text)
        said: list[str] = []
        for text in ("not a url s3cret", "http://127.0.0.1:1/s3cret", "\x00", "ftp://s3cret"):
            file.write_text(text)
            said.append(caplog.text)
            caplog.clear()
            await eventually(lambda: caplog.text)
        file.write_text(f"http://127.0.0.1:{heart.port}/s3cret\n")
        await eventually(lambda: heart.paths)
        assert heart.paths[0] == "/s3cret"
        work.cancel()
        await asyncio.wait([work])
    assert "s3cret" not in "".join([*said, caplog.text])


async def test_nothing_goes_on_beside_where_nothing_is_asked_for(tmp_path: Path) -> None:
    with opened(tmp_path) as app:
        before = asyncio.all_tasks()

        def beside() -> set[str]:
            tasks = (asyncio.all_tasks() - before) - {asyncio.current_task()}
            return {getattr(each.get_coro(), "__name__", "") for each in tasks}

        async with attend_beside(app, _watches):
            # Approvals have due times whatever the settings are.
            await eventually(lambda: beside() == {"attend", "escalate_requests"})


async def test_what_goes_on_beside_ends_with_it(tmp_path: Path) -> None:
    with sink() as heart:
        (tmp_path / "heart").write_text(f"http://127.0.0.1:{heart.port}/")
        flags = {"heartbeat_url_file": str(tmp_path / "heart"), "heartbeat_s": "1"}
        with opened(tmp_path, **flags) as app:
            stale = replace(_watches()[0], last_at=datetime(2020, 1, 1, tzinfo=UTC))
            async with attend_beside(app, lambda: [stale]):
                await asyncio.sleep(0)
            async with attend_beside(app, _watches):
                await eventually(lambda: heart.paths)
        assert len(heart.paths) == 1
