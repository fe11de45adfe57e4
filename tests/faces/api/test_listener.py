"""The API in a process of its own: slow and hostile clients, streams, signals, what is recorded."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import ssl
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import httpx2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from operator_protocols.domain.confirmation import Boundary
from operator_protocols.domain.entry import Actor, Entry, Kind
from operator_protocols.domain.token import Role, Token
from operator_protocols.domain.verdict import Risk
from operator_protocols.errors import MissingExtraError, UsageError
from operator_sre.app.listeners import Listener, exposure_of, is_loopback
from operator_sre.faces.api import routes
from operator_sre.faces.api.events import up_to_revocation
from operator_sre.faces.api.listener import serve
from operator_sre.faces.servers import admission, connections
from tests.e2e.waiting import eventually
from tests.e2e.warm import shared_warm
from tests.every import every
from tests.faces.api.server import Desk, Server
from tests.faces.api.world import World

EVERYWHERE = "0.0.0.0"  # noqa: S104 - what is refused
HOSTILE = [
    "/v1/../../etc/passwd",
    "/v1/tickets/..%2f..%2fetc%2fpasswd",
    "/v1/runs/..%2F..%2Fetc%2Fpasswd",
    "/v1/runs/%00",
    "/v1/runs/' OR 1=1 --",
    "/v1/runs/%0d%0aSet-Cookie:x",
    "/v1/approvals/%2e%2e%2f",
    "/v1/audit/search?q='%20OR%201=1;%20DROP%20TABLE%20entries;--",
    "/v1/audit/search?q=%22*%22%20NEAR(",
    "/v1/history/search?q=%00%ff",
    "/v1/history?target=%27%3BDROP%20TABLE%20entries",
    "/v1/tickets?text=%25%5F!%27",
    "/v1/tickets?subject=%ff%fe",
    "/v1/audit/9223372036854775808",
    "/v1/audit/-1",
    "//v1//tickets",
    "/%2e%2e/%2e%2e/healthz",
]
BODIES = [
    b"",
    b"\x00",
    b"nul",
    b"[" * 100_000,
    b'{"move":' + b'{"a":' * 50_000,
    b'{"move": "hold", "move": "close"}',
    b'{"move": 1e999}',
    b'{"move": "comment", "reason": "\xff\xfe"}',
    b'{"move": "comment", "reason": "\\ud800"}',
    b'{"__proto__": {}}',
    b'"a string"',
    b'{"move": "comment", "reason": ' + b'"' + b"x" * 5000 + b'"}',
]


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Desk:
    return Desk(tmp_path_factory.mktemp("served"), shared_warm(pytestconfig))


@pytest.fixture(scope="module")
def server(desk: Desk) -> Iterator[Server]:
    with desk.served("--rate", "10000") as server:
        yield server


def test_hostile_requests_are_answered_and_nothing_is_lost(server: Server) -> None:
    with server.client() as client:
        before = client.get("/v1/audit?limit=1").json()["entries"][0]["seq"]
        for path in HOSTILE:
            with server.connect() as raw:
                line = path.replace(" ", "%20")
                told = f"authorization: {server.headers['authorization']}\r\n"
                head = f"GET {line} HTTP/1.1\r\nhost: localhost\r\n{told}connection: close\r\n\r\n"
                raw.sendall(head.encode())
                answer = _read(raw)
            status = int(answer.split(b" ", 2)[1])
            assert status < 500, (path, answer)
            assert b"root:" not in answer
            assert b"\r\nset-cookie" not in answer.lower()
        for body in BODIES:
            headers = {"content-type": "application/json"}
            told_no = client.post("/v1/tickets/1/moves", content=body, headers=headers)
            assert told_no.status_code in (400, 404, 422), (body[:40], told_no.text)
        after = client.get("/v1/audit/verify").json()
        assert after["intact"] is True
        assert after["checked"] >= before


def test_log_lines_cannot_be_forged_and_hold_no_secret(server: Server) -> None:
    with server.client() as client:
        client.get("/v1/runs/a%0a12:00:00 INFO forged%1b[31m")
        client.get(f"/v1/tickets?access_token={server.secret}")
        client.get("/v1/tickets?text=unspoken")
    told = eventually(
        lambda: text if "forged" in (text := server.errors.read_text()) else "", "a line"
    )
    assert not [line for line in told.splitlines() if line.startswith("12:00:00 INFO forged")]
    assert "\x1b" not in told
    assert server.secret not in told
    assert "unspoken" not in told
    assert "Traceback" not in told


def test_a_body_that_is_too_large_is_refused(server: Server) -> None:
    size = routes.BODY_BYTES_MAX + 1
    headers = {"content-type": "application/json"}
    with server.client() as client:
        told = client.post("/v1/actions", content=b"x" * size, headers=headers)
        assert told.status_code == 413

        def pieces() -> Iterator[bytes]:
            for _ in range(size // 10_000 + 2):
                yield b"x" * 10_000

        assert client.post("/v1/actions", content=pieces(), headers=headers).status_code == 413
        assert client.get("/healthz").status_code == 200


@pytest.mark.asyncio
async def test_whoever_dawdles_is_let_go_and_others_are_served(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several slow ones at once: one without a word, one in its head, one in its body."""
    assert (connections.HEAD_S_MAX, admission.BODY_S_MAX) == (10.0, 10.0)
    assert set(connections.__all__) >= {"BoundedProtocol", "BoundedServer"}
    monkeypatch.setattr(connections, "HEAD_S_MAX", 0.5)
    monkeypatch.setattr(admission, "BODY_S_MAX", 0.5)
    monkeypatch.setattr("operator_sre.faces.servers.server.KEEP_ALIVE_S", 1)
    heard: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    listener = Listener("127.0.0.1", 0)
    work = asyncio.ensure_future(serve(world.app, listener, ready=heard.set_result))
    url = await heard
    port = int(url.rpartition(":")[2])
    bearer = f"authorization: Bearer {world.secrets['admin']}\r\nhost: localhost\r\n"
    begun = f"POST /v1/actions HTTP/1.1\r\n{bearer}connection: close\r\n"
    begun += "content-type: application/json\r\ncontent-length: 100\r\n\r\n{"
    whole = f"GET /v1/mode HTTP/1.1\r\n{bearer}\r\n".encode()
    slow = [b"", b"GET /v1/tickets HTTP/1.1\r\nhost: local", begun.encode(), whole + b"GET /v1/m"]
    opened = [await asyncio.open_connection("127.0.0.1", port) for _ in slow]
    for (_, writer), words in zip(opened, slow, strict=True):
        writer.write(words)
    answers = [await asyncio.wait_for(reader.read(), 30) for reader, _ in opened]
    assert answers[:2] == [b"", b""]
    assert answers[2].startswith(b"HTTP/1.1 408")
    assert answers[3].startswith(b"HTTP/1.1 200")
    async with httpx2.AsyncClient(base_url=url, timeout=30) as client:
        told = {"authorization": f"Bearer {world.secrets['admin']}"}
        assert (await client.get("/v1/mode", headers=told)).status_code == 200
    for _, writer in opened:
        writer.close()
    work.cancel()
    await asyncio.wait([work])


def test_events_are_followed_and_resumed(server: Server) -> None:
    with server.client() as client:
        with client.stream("GET", "/v1/events?after=0") as stream:
            assert stream.headers["content-type"].startswith("text/event-stream")
            events = _events(stream.iter_lines())
            first, second = next(events), next(events)
            assert (first["id"], first["event"]) == (1, "token_created")
            assert first["data"]["entry"]["seq"] == 1
            assert second["id"] == 2
            head = client.get("/v1/audit?limit=1").json()["entries"][0]["seq"]
        headers = {"last-event-id": str(head)}
        with client.stream("GET", "/v1/events", headers=headers) as stream:
            events = _events(stream.iter_lines())
            client.post("/v1/kill-switch/engage", json={"reason": "a test"})
            client.post("/v1/kill-switch/release", json={"reason": "a test"})
            seen = [next(events)["event"] for _ in range(2)]
        assert seen == ["kill_switch_on", "confirmation_requested"]


def test_a_stream_ends_when_its_token_is_revoked(desk: Desk, server: Server) -> None:
    made = desk.run("tokens", "create", "brief", "--json").json
    headers = {"authorization": f"Bearer {made['secret']}"}
    with server.client() as client:
        with client.stream("GET", "/v1/events", headers=headers) as stream:
            lines = stream.iter_lines()
            next(_events(lines))
            done = desk.run("tokens", "revoke", made["token"]["id"], "--reason", "lost")
            assert done.code == 0, done.err
            last = list(_events(lines))[-1]
            assert last["event"] == "token_revoked"
            assert last["data"]["entry"]["payload"] == {
                "id": made["token"]["id"],
                "reason": "lost",
            }
        assert client.get("/v1/events", headers=headers).status_code == 401
    listed = desk.run("tokens", "list", "--all", "--json").json["tokens"]
    assert {one["name"]: bool(one["revoked_at"]) for one in listed} == {
        "test": False,
        "brief": True,
    }
    assert desk.run("tokens", "list").out.count("\n") == 2
    for wrong in (["create", "a", "--role", "root"], ["create", "a\nb"], ["revoke", "nosuch"]):
        refused = desk.run("tokens", *wrong)
        assert (refused.code, refused.err.count("\n")) == (2, 1), refused.err


def test_nothing_behind_its_revocation_is_for_a_token() -> None:
    at = datetime.now(UTC)
    mine = Token("mine", "brief", Role.VIEWER, "ada", at, at)
    page = [
        Entry(number, at, kind, {"id": token}, None, "", Actor("ada", "user"), "", "")
        for number, (kind, token) in enumerate(
            [
                (Kind.TOKEN_CREATED, "mine"),
                (Kind.TOKEN_REVOKED, "other"),
                (Kind.TOKEN_REVOKED, "mine"),
                (Kind.TOKEN_CREATED, "next"),
            ]
        )
    ]
    assert up_to_revocation(page, mine) == (page[:3], True)
    assert up_to_revocation(page[:2], mine) == (page[:2], False)
    assert up_to_revocation([], mine) == ([], False)


def test_opening_and_refusing_are_in_the_ledger(server: Server) -> None:
    with server.client() as client:
        client.get("/v1/tickets", headers={"authorization": "Bearer nonsense"})
        entries = client.get("/v1/audit?order=oldest&limit=500").json()["entries"]
    kinds = [one["kind"] for one in entries]
    opened = next(one for one in entries if one["kind"] == "listener_opened")
    assert opened["payload"]["public"] is False
    assert opened["payload"]["address"] == server.url.rpartition("/")[2]
    assert "access_refused" in kinds


def test_it_ends_cleanly_while_somebody_listens(tmp_path: Path, desk: Desk) -> None:
    other = Desk(tmp_path, desk.warm)
    with other.served() as server, server.client() as client:
        with client.stream("GET", "/v1/events") as stream:
            lines = stream.iter_lines()
            next(_events(lines))
            server.process.send_signal(signal.SIGINT)
            rest = list(lines)
        assert not [line for line in rest if "Traceback" in line]
        assert server.process.wait(30) == 130
        assert "Traceback" not in server.errors.read_text()


def test_a_port_that_is_taken_is_told_in_one_sentence(desk: Desk, server: Server) -> None:
    taken = desk.run("serve", "--port", str(server.place[1]))
    assert taken.code == 1
    assert taken.err == (
        f"operator: 127.0.0.1:{server.place[1]} cannot be listened on: Address already in use."
        " Choose another one with --bind or --port.\n"
    )


@pytest.mark.asyncio
async def test_with_tls_nobody_reads_along(world: World, tmp_path: Path) -> None:
    """A certificate of our own, which the client knows; in clear nothing is answered."""
    certificate, key = _certificate(tmp_path)
    heard: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    listener = Listener("127.0.0.1", 0, certificate, key)
    work = asyncio.ensure_future(serve(world.app, listener, ready=heard.set_result))
    url = await heard
    assert url.startswith("https://127.0.0.1:")
    trusting = ssl.create_default_context(cafile=str(certificate))
    async with httpx2.AsyncClient(base_url=url, verify=trusting, timeout=30) as client:
        assert (await client.get("/healthz")).status_code == 200
    async with httpx2.AsyncClient(base_url=url.replace("https", "http"), timeout=30) as client:
        with pytest.raises(httpx2.HTTPError):
            await client.get("/healthz")
    work.cancel()
    await asyncio.wait([work])
    with pytest.raises(UsageError, match="cannot be used"):
        await serve(world.app, Listener("127.0.0.1", 0, key, certificate), ready=lambda url: None)


@pytest.mark.asyncio
async def test_a_missing_extra_is_told_in_one_sentence(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(MissingExtraError, match="'web'"):
        await serve(world.app, Listener("127.0.0.1", 0), ready=lambda url: None)


def test_a_public_address_has_to_be_meant(desk: Desk) -> None:
    refused = desk.run("serve", "--bind", EVERYWHERE)
    assert refused.code == 2
    assert "--insecure-public" in refused.err
    unmeant = desk.run("serve", "--bind", EVERYWHERE, "--insecure-public")
    assert unmeant.code == 4
    assert "operator confirmations approve conf_" in unmeant.out
    half = desk.run("serve", "--tls-cert", "nosuch.pem")
    assert half.code == 2


@every("host", ["127.0.0.1", "127.8.8.8", "::1", "[::1]", "localhost"])
def test_what_only_this_machine_reaches_needs_nothing(host: str) -> None:
    assert is_loopback(host)
    assert exposure_of(Listener(host, 1)) is None


@every("host", [EVERYWHERE, "::", "10.0.0.1", "example.org", "localhost.example.org", ""])
def test_everything_else_is_public(host: str) -> None:
    assert not is_loopback(host)
    with pytest.raises(UsageError):
        exposure_of(Listener(host, 1))
    asked = exposure_of(Listener(host, 1, insecure=True))
    assert asked is not None
    assert (asked.boundary, asked.risk) == (Boundary.EXPOSED_LISTENER, Risk.HIGH)


def _certificate(folder: Path) -> tuple[Path, Path]:
    private = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "operator")])
    now = datetime.now(UTC)
    address = x509.IPAddress(ip_address("127.0.0.1"))
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .sign(private, hashes.SHA256())
    )
    certificate, key = folder / "cert.pem", folder / "key.pem"
    certificate.write_bytes(made.public_bytes(Encoding.PEM))
    key.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return certificate, key


def _read(raw: socket.socket) -> bytes:
    """Everything until the other side is gone."""
    parts = []
    try:
        while part := raw.recv(65536):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


def _events(lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    event: dict[str, Any] = {}
    for line in lines:
        name, _, text = line.partition(": ")
        if name in ("id", "event", "data"):
            event[name] = text if name == "event" else json.loads(text)
        elif not line and "data" in event:
            yield event
            event = {}
