"""Alerts by HTTP: believed when proven, told once, filed at once, resolved after our own look."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from operator_protocols.domain.entry import Kind
from operator_protocols.domain.ticket import Ticket, TicketState
from operator_protocols.errors import (
    ConfigError,
    NotFoundError,
    ObservationError,
    OperatorError,
    UsageError,
)
from operator_sre.app.alerts import (
    BODY_BYTES_MAX,
    Receiver,
    alerted_plugin,
    list_alerts,
    refused_answer,
)
from operator_sre.app.listeners import Listener
from operator_sre.app.wiring import App
from operator_sre.faces.receiver.application import application, listener_of, serve
from operator_sre.triggers.trigger import signature_of
from tests.app.home import opened
from tests.faces.receiver.world import SHOP, listening, stock
from tests.processes.waiting import eventually
from tests.triggers.payloads import webhook, webhook_alert

pytestmark = pytest.mark.asyncio

OPEN = '[triggers.prometheus]\nkind = "alertmanager"\ntarget = "instance"\nopen = 1\n'
ATTACHED = OPEN + 'subject = "shop"\n'
FAST = "stable_s = 0.2\ninterval_s = 0.2\n"
RESOLVED = webhook(webhook_alert(status="resolved"))


def _tickets(app: App, *states: TicketState) -> list[Ticket]:
    return list(app.store.tickets.find(states=states))


def _kinds(app: App) -> list[Kind]:
    return [one.kind for one in app.store.entries.after(0, limit=10_000)]


async def _post(client: httpx2.AsyncClient, body: bytes, **headers: str) -> httpx2.Response:
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return await client.post("/alerts/prometheus", content=body, headers=named)


async def test_an_alert_opens_a_ticket_at_once_and_its_end_resolves_it(tmp_path: Path) -> None:
    with opened(tmp_path, FAST + OPEN) as app:
        async with listening(app) as client:
            answer = await _post(client, webhook())
            assert answer.status_code == 202
            assert (answer.json()["schema_version"], answer.json()["fired"]) == ("1.0.0", 1)
            await eventually(lambda: _tickets(app))
            (ticket,) = _tickets(app)
            assert (ticket.subject, ticket.target) == ("prometheus", "node-1")
            assert ticket.violations[0].invariant == "alert:HighLatency"
            assert "HighLatency at node-1" in ticket.violations[0].detail
            assert ticket.severity == "critical"
            assert (await _post(client, RESOLVED)).json()["cleared"] == 1
            await eventually(lambda: _tickets(app, TicketState.RESOLVED))
        assert list_alerts(app, firing=True, subject="") == []
        assert len(list_alerts(app, firing=False, subject="prometheus")) == 1


async def test_repeats_and_many_at_once_are_one_ticket_for_each_target(tmp_path: Path) -> None:
    many = webhook(*(webhook_alert(instance=f"node-{n}") for n in range(20)))
    with opened(tmp_path, FAST + OPEN) as app:
        async with listening(app) as client:
            answers = await asyncio.gather(*(_post(client, many) for _ in range(10)))
            assert {one.status_code for one in answers} == {200, 202}
            assert sum(one.json()["fired"] for one in answers) == 20
            await eventually(lambda: len(_tickets(app)) == 20)
            assert (await _post(client, many)).json()["known"] == 20
        assert _kinds(app).count(Kind.ALERT_FIRED) == 20
        assert _kinds(app).count(Kind.TICKET_OPENED) == 20


async def test_where_a_subject_is_attached_its_end_is_not_believed_until_we_see_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    down = stock(monkeypatch)
    with opened(tmp_path, SHOP + ATTACHED) as app:
        monitor = asyncio.ensure_future(app.engine().watch(["shop"]))
        async with listening(app) as client:
            await _post(client, webhook())
            await eventually(lambda: _tickets(app))
            down.add("node-1")
            await eventually(lambda: len(_tickets(app)[0].violations) == 2)
            assert (await _post(client, RESOLVED)).json()["cleared"] == 1
            looks = len(app.store.observations.newest("shop", limit=500))
            await eventually(
                lambda: len(app.store.observations.newest("shop", limit=500)) > looks + 5
            )
            (ticket,) = _tickets(app)
            assert ticket.state is TicketState.OPEN
            down.clear()
            await eventually(lambda: _tickets(app, TicketState.RESOLVED))
        monitor.cancel()
        await asyncio.wait([monitor])


@pytest.mark.parametrize(
    ("instance", "target"),
    [("node-2", "node-2"), ("10.0.0.1:8001", "node-1"), ("elsewhere:1", "shop"), ("", "shop")],
)
async def test_the_part_that_is_meant_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, instance: str, target: str
) -> None:
    stock(monkeypatch)
    with opened(tmp_path, SHOP + ATTACHED) as app:
        async with listening(app) as client:
            answer = await _post(client, webhook(webhook_alert(instance=instance)))
            assert answer.json()["alerts"][0]["target"] == target
            await eventually(lambda: _tickets(app))
        assert _tickets(app)[0].target == target


GUARDED = OPEN.replace("open = 1", 'token_file = "token"')
SIGNED = OPEN.replace("open = 1", 'hmac_file = "key"')


@pytest.fixture
def secrets(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("s3cret-token\n")
    (tmp_path / "key").write_text("s3cret-key\n")


@pytest.mark.usefixtures("secrets")
async def test_who_cannot_prove_themselves_changes_nothing_and_is_noted(tmp_path: Path) -> None:
    with opened(tmp_path, GUARDED) as app:
        async with listening(app) as client:
            for headers in ({}, {"authorization": "Bearer no"}, {"authorization": "s3cret-token"}):
                answer = await _post(client, webhook(), **headers)
                assert answer.status_code == 401
                error = answer.json()["error"]
                assert error["category"] == "trigger_auth_failed"
                assert error["next_action"] == "set_secret"
                assert "s3cret" not in answer.text
            for _ in range(20):
                await _post(client, webhook())
            (told,) = app.store.entries.after(0, limit=99)  # a flood of them is one entry
            assert told.kind is Kind.TRIGGER_REFUSED
            assert told.payload["sender"] == "127.0.0.1"
            right = await _post(client, webhook(), authorization="Bearer s3cret-token")
            assert right.status_code == 202


@pytest.mark.usefixtures("secrets")
async def test_a_signed_notification_counts_once_and_an_old_one_never(tmp_path: Path) -> None:
    def headers(body: bytes, off_s: float = 0.0) -> dict[str, str]:
        now = str(int(time.time() - off_s))
        signature = signature_of("s3cret-key", now, body)
        return {"x_operator_signature": signature, "x_operator_timestamp": now}

    with opened(tmp_path, FAST + SIGNED) as app:
        async with listening(app) as client:
            firing = headers(webhook())
            assert (await _post(client, webhook(), **firing)).json()["fired"] == 1
            assert (await _post(client, RESOLVED, **headers(RESOLVED))).json()["cleared"] == 1
            replayed = await _post(client, webhook(), **firing)
            assert (replayed.status_code, replayed.json()["fired"]) == (200, 0)
            assert list_alerts(app, firing=True, subject="") == []
            old = await _post(client, webhook(), **headers(webhook(), 3600.0))
            assert old.status_code == 401


async def test_what_makes_no_sense_is_answered_in_the_form_of_errors(tmp_path: Path) -> None:
    with opened(tmp_path, OPEN) as app:
        async with listening(app) as client:
            asked = {
                400: client.post("/alerts/prometheus", content=b"{"),
                404: client.post("/alerts/nobody", content=webhook()),
                405: client.get("/alerts/prometheus"),
                413: client.post("/alerts/prometheus", content=b"x" * (BODY_BYTES_MAX + 1)),
            }
            for status, asking in asked.items():
                answer = await asking
                assert answer.status_code == status
                assert set(answer.json()["error"]) == {"category", "message", "next_action"}
            assert (await client.get("/nothing")).status_code == 404
            healthy = await client.get("/healthz")
            assert (healthy.status_code, healthy.json()["status"]) == (200, "ok")
        assert _kinds(app) == []


async def test_a_body_that_never_tells_its_size_is_bounded_too(tmp_path: Path) -> None:
    async def endless() -> AsyncIterator[bytes]:
        for _ in range(40):
            yield b"x" * 65_536

    with opened(tmp_path, OPEN) as app:
        async with listening(app) as client:
            answer = await client.post("/alerts/prometheus", content=endless())
            assert answer.status_code == 413


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(body=st.binary(max_size=200) | st.text().map(json.dumps).map(str.encode))
async def test_no_body_breaks_the_receiver(tmp_path: Path, body: bytes) -> None:
    with opened(tmp_path, OPEN) as app:
        answer = await Receiver(app).receive("prometheus", {}, body, sender="x")
        assert answer.status in (200, 400)


async def test_a_store_that_is_away_asks_the_sender_to_try_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path, OPEN) as app:

        async def away(self: object, alerts: object) -> None:
            raise OperatorError("The disk is full.")

        monkeypatch.setattr(type(app.store.alerts), "take", away)
        answer = await Receiver(app).receive("prometheus", {}, webhook(), sender="x")
        assert answer.status == 503
        assert "disk" not in str(answer.document)


BAD: list[tuple[str, str, type[UsageError | ObservationError]]] = [
    ("", "No triggers are configured", UsageError),
    (OPEN.replace("open = 1\n", ""), "has no authentication", ConfigError),
    (OPEN + 'subject = "nothing"', "'nothing'", NotFoundError),
    (OPEN + 'token_file = "nothing"', "cannot be read", ObservationError),
    (OPEN + 'token_file = "empty"', "is empty", ConfigError),
    (SHOP + ATTACHED + 'invariant = "nothing"', "has no invariant 'nothing'", NotFoundError),
    (SHOP + '[triggers.shop]\nkind = "json"\nopen = 1', "same name as a subject", ConfigError),
]


@pytest.mark.parametrize(("toml", "words", "kind"), BAD)
async def test_what_cannot_be_meant_is_refused_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, toml: str, words: str, kind: type[Exception]
) -> None:
    stock(monkeypatch)
    (tmp_path / "empty").write_text("\n")
    with opened(tmp_path, toml) as app, pytest.raises(kind, match=words):
        await serve(Receiver(app), "127.0.0.1:0", ready=print)


async def test_an_open_trigger_listens_on_loopback_only(tmp_path: Path) -> None:
    with opened(tmp_path, OPEN) as app:
        for host in ("0.0.0.0", "10.0.0.1", "example.org", "::"):  # noqa: S104
            with pytest.raises(ConfigError, match="not a loopback"):
                Receiver(app).check(host)
        for host in ("127.0.0.1", "::1", "localhost"):
            Receiver(app).check(host)
        assert Receiver(app).paths == ["/alerts/prometheus"]
        assert application(Receiver(app)).routes


async def test_addresses_are_read() -> None:
    assert listener_of("127.0.0.1:9094") == Listener("127.0.0.1", 9094)
    assert listener_of("[::1]:0") == Listener("::1", 0)
    for text in ("9094", ":9094", "host:", "host:x", "host:99999"):
        with pytest.raises(UsageError, match="not a valid address"):
            listener_of(text)


async def test_an_address_that_is_taken_is_said(tmp_path: Path) -> None:
    with opened(tmp_path, OPEN) as app:
        async with listening(app) as client:
            taken = str(client.base_url).removeprefix("http://").strip("/")
            with pytest.raises(OperatorError, match=r"cannot be listened on.*--listen"):
                await serve(Receiver(app), taken, ready=print)


async def test_the_agent_hands_what_only_a_trigger_sees_to_a_person(tmp_path: Path) -> None:
    with opened(tmp_path, FAST + OPEN, mode="execute") as app:
        async with listening(app) as client:
            await _post(client, webhook())
            await eventually(lambda: _tickets(app))
        engine = app.engine()
        assert await engine.work_once()
        (ticket,) = _tickets(app)
        assert ticket.state is TicketState.ESCALATED
        assert not await engine.work_once()  # and it does not come back to it
        assert Kind.TOOL_CALL not in _kinds(app) or all(
            one.payload.get("level") != "review" for one in app.store.entries.after(0, limit=999)
        )


async def test_a_refused_answer_has_the_form_of_errors() -> None:
    answer = refused_answer(418, "c", "m", "a")
    assert answer.document == {"error": {"category": "c", "message": "m", "next_action": "a"}}


async def test_what_only_a_trigger_sees_has_no_tools_and_says_so(tmp_path: Path) -> None:
    with opened(tmp_path, FAST + OPEN) as app:
        plugin = alerted_plugin(app, "prometheus")
        assert app.plugin_of("prometheus").sentence == plugin.sentence
        assert plugin.tools is None
        assert "and escalate" in plugin.notes
