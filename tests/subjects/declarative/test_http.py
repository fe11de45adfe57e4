"""HTTP probes against real servers, well and badly behaved."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from operator_protocols.domain.health import Health
from tests.contract.servers import (
    Behave,
    closes,
    drips,
    floods,
    hangs,
    http,
    resets,
    says,
    serving,
    unused_port,
)
from tests.subjects.certificates import certificate
from tests.subjects.declarative.trying import Tried, described

pytestmark = pytest.mark.asyncio


def web(folder: Path, port: int, probe: str = "{}", *, more: str = "", **given: object) -> Tried:
    """One target with one HTTP probe and one invariant."""
    return described(
        folder,
        f"""\
name: shop
targets: {{web-1: {{kind: web, port: {port}{more}}}}}
probes: {{page: {{http: {probe}}}}}
invariants: {{page_answers: {{holds: page.ok, says: "{{page.error}}"}}}}
""",
        **given,
    )


async def test_an_answer_becomes_values(tmp_path: Path) -> None:
    body = {"status": "ok", "stats": {"queue": 7, "rate": 1.5}, "nodes": [{"up": True}], "x": {}}
    probe = "{path: /health, read: {queue: stats.queue, rate: stats.rate, up_0: 'nodes[0].up'}}"
    async with serving(http(200, body)) as port:
        readings = (await web(tmp_path, port, probe).seen()).readings
    assert readings["kind"] == "web"
    assert readings["page.up"] is True
    assert readings["page.ok"] is True
    assert readings["page.status"] == 200
    assert (readings["page.queue"], readings["page.rate"], readings["page.up_0"]) == (7, 1.5, True)
    assert readings["page.endpoint"] == f"127.0.0.1:{port}"
    latency = readings["page.latency_ms"]
    assert isinstance(latency, float)
    assert 0 < latency < 3000
    assert "page.error" not in readings


@pytest.mark.parametrize(
    ("expect", "error"),
    [
        ("{status: 200}", ""),
        ("{status: [200, 204]}", ""),
        ("{status: 2xx}", ""),
        ("{status: 404}", "it answered 200, not 404"),
        ("{status: 5xx}", "it answered 200, not 5xx"),
        ("{json: {status: ok, stats.queue: 7}}", ""),
        ("{json: {status: bad}}", "status is 'ok', not 'bad'"),
        ("{json: {stats.queue: 8}}", "stats.queue is 7, not 8"),
        ("{json: {missing: 1}}", "missing is None, not 1"),
        ("{json: {flag: 1}}", "flag is True, not 1"),
        ("{body: '\"queue\": [0-9]+'}", ""),
        ("{body: '^nothing$'}", "the body does not match"),
        ("{latency: 10s}", ""),
    ],
)
async def test_what_is_expected_decides_whether_it_is_well(
    tmp_path: Path, expect: str, error: str
) -> None:
    body = {"status": "ok", "stats": {"queue": 7}, "flag": True}
    async with serving(http(200, body)) as port:
        tried = web(tmp_path, port, f"{{expect: {expect}}}")
        seen = await tried.seen()
        assert seen.readings["page.ok"] is (error == "")
        assert seen.readings.get("page.error", "") == error
        (finding,) = await tried.findings()
    assert finding.health is (Health.BROKEN if error else Health.HEALTHY)
    assert finding.detail == error


async def test_a_pattern_takes_numbers_and_words(tmp_path: Path) -> None:
    probe = r"{expect: {body: 'load (?P<load>[0-9.]+) state (?P<state>\w+)'}}"
    async with serving(http(200, b"load 0.75 state ready")) as port:
        readings = (await web(tmp_path, port, probe).seen()).readings
    assert readings["page.matched"] is True
    assert (readings["page.load"], readings["page.state"]) == (0.75, "ready")


_BAD: dict[str, tuple[Behave, str]] = {
    "hanging": (hangs, "it did not answer in time"),
    "closing": (closes, "it closed the connection"),
    "resetting": (resets, "it closed the connection"),
    "garbage": (says(b"\x00\xff garbage\r\n\r\n"), "it does not speak HTTP as expected"),
    "dripping": (drips(b"HTTP/1.1 200 X\r\n\r\n", every_s=0.05), "it did not answer in time"),
    "too long a header": (floods(b"HTTP/1.1 200 X\r\nx: "), "it does not"),
}


@pytest.mark.parametrize("how", _BAD)
async def test_a_bad_server_is_down_in_time_and_delays_nobody(tmp_path: Path, how: str) -> None:
    behave, error = _BAD[how]
    async with serving(behave) as bad, serving(http(200, {})) as good:
        tried = described(
            tmp_path,
            f"""\
name: shop
targets:
  bad: {{kind: web, port: {bad}}}
  good: {{kind: web, port: {good}}}
probes: {{page: {{http: {{expect: {{latency: 5s}}}}}}}}
invariants: {{up: {{holds: page.up}}, fast: {{holds: page.latency_ms < 5000}}}}
""",
            timeout_s=0.6,
        )
        observation = await tried.look()  # which ends, though some of them never do
    assert observation.of("good").readings["page.ok"] is True
    seen = observation.of("bad")
    assert seen.problem == ""
    assert seen.readings["page.up"] is False
    assert error in str(seen.readings["page.error"])
    found = {
        (one.invariant, one.target): one.health
        for each in tried.subject.invariants
        for one in each.check(observation)
    }
    assert found == {
        ("up", "bad"): Health.BROKEN,
        ("up", "good"): Health.HEALTHY,
        ("fast", "bad"): Health.UNKNOWN,
        ("fast", "good"): Health.HEALTHY,
    }


async def test_an_endless_body_is_read_only_so_far(tmp_path: Path) -> None:
    async with serving(floods(b"HTTP/1.1 200 X\r\n\r\n")) as port:
        readings = (await web(tmp_path, port).seen()).readings
    assert readings["page.ok"] is True
    assert readings["page.bytes"] == 256 * 1024


async def test_the_next_endpoint_is_asked_when_one_does_not_answer(tmp_path: Path) -> None:
    async with serving(http(200, {})) as good, serving(hangs) as silent:
        with unused_port() as dead:
            more = f', endpoints: ["127.0.0.1:{silent}", "127.0.0.1:{good}"]'
            tried = web(tmp_path, dead, more=more, timeout_s=2.0)
            readings = (await tried.seen()).readings
    assert readings["page.ok"] is True
    assert readings["page.endpoint"] == f"127.0.0.1:{good}"


async def test_when_none_answers_the_first_is_blamed(tmp_path: Path) -> None:
    with unused_port() as dead, unused_port() as other:
        tried = web(tmp_path, dead, more=f', endpoints: ["127.0.0.1:{other}"]')
        readings = (await tried.seen()).readings
    assert readings["page.up"] is False
    assert readings["page.error"] == f"127.0.0.1:{dead}: connection refused"


async def _asked(port_of: list[str]) -> Behave:
    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        port_of.append((await reader.readuntil(b"\r\n\r\n")).decode())
        writer.write(b"HTTP/1.1 200 X\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        await writer.drain()

    return behave


async def test_secrets_come_from_files_and_show_nowhere(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("hunter-2\n")
    (tmp_path / "key").write_text("k-e-y")
    heard: list[str] = []
    async with serving(await _asked(heard)) as port:
        basic = ", access: {user: me, password_file: password}"
        probe = "{header_files: {X-Api-Key: key}, headers: {X-Tenant: a}}"
        seen = await web(tmp_path, port, probe, more=basic).seen()
        await web(tmp_path, port, more=", access: {token_file: key}").seen()
    first, second = (one.lower() for one in heard)
    assert f"authorization: basic {base64.b64encode(b'me:hunter-2').decode().lower()}" in first
    assert "x-api-key: k-e-y" in first
    assert "x-tenant: a" in first
    assert "authorization: bearer k-e-y" in second
    assert "hunter" not in repr(seen)


async def test_a_secret_that_cannot_be_read_is_a_problem_and_no_health(tmp_path: Path) -> None:
    async with serving(http(200, {})) as port:
        tried = web(tmp_path, port, more=", access: {token_file: missing}")
        seen = await tried.seen()
        assert "cannot be read" in seen.problem
        assert await tried.health() is Health.UNKNOWN


async def test_a_target_without_a_port_is_a_problem(tmp_path: Path) -> None:
    tried = described(
        tmp_path,
        "name: a\ntargets: {t: {kind: k}}\nprobes: {page: {http: }}\n"
        "invariants: {i: {holds: page.up}}\n",
    )
    assert "no port" in (await tried.seen()).problem
    assert await tried.health() is Health.UNKNOWN


@asynccontextmanager
async def _secure(certificate: Path) -> AsyncIterator[int]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 X\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        await writer.drain()

    async with serving(answer, tls=context) as port:
        yield port


async def test_a_certificate_is_checked_and_its_days_are_counted(tmp_path: Path) -> None:
    good = certificate(tmp_path, name="shop.test", days=40)
    stranger = certificate(tmp_path, name="other.test", days=40)
    expired = certificate(tmp_path, name="shop.test", days=-1)
    access = ", access: {{tls: true, ca_file: {}, server_name: shop.test}}"
    async with _secure(good) as port:
        readings = (await web(tmp_path, port, more=access.format(good)).seen()).readings
        assert readings["page.ok"] is True
        days = readings["page.certificate_days"]
        assert isinstance(days, float)
        assert 39 < days <= 40
        for trusted in ("access: {tls: true}", f"access: {{tls: true, ca_file: {stranger}}}"):
            seen = await web(tmp_path, port, more=f", {trusted}").seen()
            assert seen.readings["page.up"] is False
            assert "its certificate is not trusted" in str(seen.readings["page.error"])
        # The right authority, and another name than that of the certificate.
        wrong_name = f", access: {{tls: true, ca_file: {good}, server_name: else.test}}"
        seen = await web(tmp_path, port, more=wrong_name).seen()
        assert "not trusted" in str(seen.readings["page.error"])
        # Plain words to a server that speaks TLS.
        assert (await web(tmp_path, port).seen()).readings["page.up"] is False
    async with _secure(expired) as port:
        seen = await web(tmp_path, port, more=access.format(expired)).seen()
        assert "not trusted" in str(seen.readings["page.error"])
    async with serving(http(200, {})) as port:
        seen = await web(tmp_path, port, more=", access: {tls: true}").seen()
        assert "TLS" in str(seen.readings["page.error"])
        missing = ", access: {tls: true, ca_file: none.pem}"
        assert (
            "certificates cannot be read"
            in (await web(tmp_path, port, more=missing).seen()).problem
        )
