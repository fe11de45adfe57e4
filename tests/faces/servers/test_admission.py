"""One admission stands in front of every server: what it refuses, records, hardens and logs."""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from operator_evals.gallery import Gallery
from operator_evals.viewer.application import application as viewer_of
from operator_protocols.domain.entry import Kind
from operator_protocols.domain.token import Audience, Role
from operator_protocols.errors import StoreError
from operator_sre.app import tokens
from operator_sre.app.tokens import Refusals
from operator_sre.app.wiring import App
from operator_sre.faces.api.application import application as api_of
from operator_sre.faces.servers.admission import Admission, Admitted, Refusal, names_of
from operator_sre.faces.web.application import application as web_of
from tests.app.home import SUBJECTS, opened


@dataclass
class Plain:
    """A face that answers in plain text, and admits everybody but one path."""

    log: logging.Logger = logging.getLogger("tests.admission")  # noqa: RUF009
    hardening: Sequence[tuple[bytes, bytes]] = ((b"x-one", b"ours"), (b"x-two", b"ours"))
    names_secrets: bool = False

    def admit(self, scope: Any, headers: Mapping[str, str], source: str) -> Admitted:
        """Refuse what the tests ask for."""
        if scope["path"] == "/store":
            raise StoreError("the store is gone")
        refusals = {"/told": Refusal(403, "no", "reason"), "/quiet": Refusal(429, "slow", "")}
        return refusals.get(scope["path"])

    def answer(self, scope: Any, refusal: Refusal) -> Any:
        """The refusal as text."""

        async def respond(scope: Any, receive: Any, send: Any) -> None:
            start = {"type": "http.response.start", "status": refusal.status, "headers": []}
            await send(start)
            await send({"type": "http.response.body", "body": refusal.message.encode()})

        return respond

    def note(self, scope: Any, status: int, took_s: float) -> bool:
        """Log what is not silent."""
        return bool(scope["path"] != "/silent")


async def _inner(scope: Any, receive: Any, send: Any) -> None:
    headers = [(b"x-one", b"its own")]
    await send({"type": "http.response.start", "status": 204, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


def _get(server: Any, path: str, **options: Any) -> httpx2.Response:
    async def ask() -> httpx2.Response:
        transport = httpx2.ASGITransport(app=server, raise_app_exceptions=False)
        base = options.pop("base", "http://localhost")
        async with httpx2.AsyncClient(transport=transport, base_url=base) as client:
            return await client.get(path, **options)

    return asyncio.run(ask())


def _reasons(app: App) -> list[str]:
    refused = [
        entry
        for entry in app.store.entries.after(0, limit=100)
        if entry.kind is Kind.ACCESS_REFUSED
    ]
    return [reason for entry in refused for reason in entry.payload["reasons"]]


def test_a_refusal_is_recorded_when_it_has_a_reason(tmp_path: Path) -> None:
    for path, status, reasons in (
        ("/", 204, []),
        ("/told", 403, ["reason"]),
        ("/quiet", 429, []),
        ("/store", 503, ["store"]),
        (f"/?x=operator_{'a' * 30}", 400, ["secret in the address"]),
    ):
        (tmp_path / str(status)).mkdir()
        with opened(tmp_path / str(status), SUBJECTS) as app:
            server = Admission(_inner, Plain(), Refusals(app), names_of(()))
            assert _get(server, path).status_code == status
            assert _reasons(app) == reasons
    (tmp_path / "host").mkdir()
    with opened(tmp_path / "host", SUBJECTS) as app:
        server = Admission(_inner, Plain(), Refusals(app), names_of(()))
        assert _get(server, "/", base="http://evil.example").status_code == 421
        assert _reasons(app) == ["host"]


def test_an_answer_keeps_its_own_headers_and_gets_the_others(tmp_path: Path) -> None:
    with opened(tmp_path, SUBJECTS) as app:
        server = Admission(_inner, Plain(), Refusals(app), names_of(()))
        headers = _get(server, "/").headers
        assert (headers.get_list("x-one"), headers["x-two"]) == (["its own"], "ours")
        assert _get(server, "/told").headers["x-one"] == "ours"


def test_every_request_is_logged_unless_the_face_leaves_it_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    secret = f"operator_{'a' * 30}"
    with opened(tmp_path, SUBJECTS) as app, caplog.at_level(logging.INFO, "tests.admission"):
        server = Admission(_inner, Plain(), Refusals(app), names_of(()))
        for path in ("/seen", "/silent", f"/{secret}"):
            _get(server, path)
    assert [record.getMessage().split()[2] for record in caplog.records] == [
        *("/seen", "/operator_..."),
    ]
    assert "by nobody" in caplog.text


def test_the_same_admission_serves_the_api_the_console_and_the_viewer(tmp_path: Path) -> None:
    with opened(tmp_path, SUBJECTS) as app:
        console = web_of(app)
        viewer = viewer_of(app, Gallery(tmp_path / "evals.db"))
        for server in (api_of(app), console.api, console.pages, viewer):
            assert [str(one.cls) for one in server.user_middleware] == [str(Admission)]


def test_a_private_viewer_asks_for_a_token_and_records_who_has_none(tmp_path: Path) -> None:
    with opened(tmp_path, SUBJECTS) as app:
        viewer = viewer_of(app, Gallery(tmp_path / "evals.db"), private=True)
        answer = _get(viewer, "/nosuch")
        assert (answer.status_code, answer.headers["www-authenticate"][:5]) == (401, "Basic")
        assert _reasons(app) == ["no token"]
        _, wrong = asyncio.run(tokens.create(app, "api", Role.VIEWER))
        making = tokens.create(app, "web", Role.VIEWER, audience=Audience.WEB)
        _, right = asyncio.run(making)
        for secret, status in ((wrong, 401), (right, 404), ("nonsense", 401)):
            basic = base64.b64encode(f"anybody:{secret}".encode()).decode()
            for scheme in (f"Basic {basic}", f"Bearer {secret}"):
                answer = _get(viewer, "/nosuch", headers={"authorization": scheme})
                assert answer.status_code == status, (scheme[:6], secret[:9])
        assert _get(viewer, "/", headers={"authorization": "Basic !"}).status_code == 401
        asyncio.run(viewer.state.refusals.flush())
        assert sorted(_reasons(app)) == ["audience", "no token", "unknown token"]


def test_a_campaign_may_have_a_name_that_begins_as_a_secret_does(tmp_path: Path) -> None:
    with opened(tmp_path, SUBJECTS) as app:
        viewer = viewer_of(app, Gallery(tmp_path / "evals.db"))
        assert _get(viewer, "/nosuch?name=operator_v2").status_code == 404
        assert _get(viewer, f"/nosuch?name=operator_{'a' * 43}").status_code == 400


def test_of_two_host_headers_the_first_counts(tmp_path: Path) -> None:
    names = ("localhost", "evil.example")
    with opened(tmp_path, SUBJECTS) as app:
        server = Admission(_inner, Plain(), Refusals(app), names_of(()))
        for hosts, status in ((names, 204), (names[::-1], 421)):
            headers = [("host", name) for name in hosts]
            assert _get(server, "/", headers=headers).status_code == status


def test_refusals_that_are_recorded_at_the_same_time_are_all_counted(tmp_path: Path) -> None:
    async def refuse(refusals: Refusals) -> None:
        for source in "abc" * 3:
            await refusals.record_refusal(source, "role")
        await asyncio.gather(*(refusals.flush() for _ in range(3)))

    with opened(tmp_path, SUBJECTS) as app:
        asyncio.run(refuse(Refusals(app)))
        entries = app.store.entries.after(0, limit=100)
        refused = [entry for entry in entries if entry.kind is Kind.ACCESS_REFUSED]
        assert sum(entry.payload["count"] for entry in refused) == 9
