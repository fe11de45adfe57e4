"""What cannot be observed is never healthy and opens a ticket: every subject that speaks to servers
of its own, and the probes of descriptions. Clusters and clouds behind an API have theirs.

The table has what a part answers that does not let us in. A password that is rejected, another
protocol, a wrong certificate and a closed port are the same for all.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from operator_protocols.domain.health import Health
from operator_protocols.domain.observation import Finding
from operator_protocols.domain.target import Access, Target
from operator_protocols.ports import SubjectSettings
from operator_sre.clock import SystemClock
from operator_sre.monitor import OBSERVABLE, run_check
from operator_sre.plugins import find_plugin
from tests.contract.servers import Behave, http, says, serving, unused_port
from tests.subjects.certificates import certificate
from tests.subjects.declarative.trying import described

pytestmark = pytest.mark.asyncio

TIMEOUT_S = 5.0
SITUATIONS = ("password", "protocol", "certificate", "port")


async def _rejecting_postgres(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1024)
    fields = b"SFATAL\0C28P01\0Mpassword authentication failed\0\0"
    writer.write(b"E" + struct.pack("!I", len(fields) + 4) + fields)
    await writer.drain()


async def _rejecting_kafka(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """It offers every mechanism, and refuses the token that follows."""
    for answer in (struct.pack(">hi", 0, 0), struct.pack(">hh", 58, 2) + b"no" + bytes(4)):
        (size,) = struct.unpack(">i", await reader.readexactly(4))
        number = (await reader.readexactly(size))[4:8]
        writer.write(struct.pack(">i", 4 + len(answer)) + number + answer)
        await writer.drain()


NO_REDIS = says(b"-WRONGPASS invalid username-password pair\r\n")
DENIED = b"<Error><Code>AccessDenied</Code><Message>no</Message></Error>"
NO_HTTP = http(401, {"detail": "unauthorized"})
# plug-in, kind of target, an answer that rejects our password, the probe of a declarative target
PARTS: list[tuple[str, str, Behave, str]] = [
    ("etcd", "member", http(401, {"message": "invalid auth token", "code": 16}), ""),
    ("postgres", "server", _rejecting_postgres, ""),
    ("ratelimiter", "node", NO_HTTP, ""),
    ("ratelimiter", "store", NO_REDIS, ""),
    ("ratelimiter", "replica", NO_REDIS, ""),
    ("ratelimiter", "sentinel", NO_REDIS, ""),
    ("tikv", "pd", http(401, b"unauthorized"), ""),
    ("tikv", "store", http(401, b"unauthorized"), ""),
    ("kafka", "broker", _rejecting_kafka, ""),
    ("declarative", "web", NO_HTTP, "http: {path: /}"),
    ("declarative", "cache", NO_REDIS, "redis: {}"),
    ("declarative", "db", _rejecting_postgres, "sql: {query: SELECT 1}"),
    ("declarative", "metrics", NO_HTTP, "prometheus: {read: {runs: up}}"),
    ("declarative", "bucket", http(403, DENIED), "s3: {bucket: backups}"),
]


@asynccontextmanager
async def _answering(situation: str, rejects: Behave, folder: Path) -> AsyncIterator[int]:
    async with contextlib.AsyncExitStack() as stack:
        if situation == "port":
            port = stack.enter_context(unused_port())
        elif situation == "certificate":  # signed by nobody whom we trust
            own = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            own.load_cert_chain(certificate(folder, name="another.example", days=9))
            port = await stack.enter_async_context(serving(rejects, tls=own))
        else:
            behave = rejects if situation == "password" else says(b"SSH-2.0-OpenSSH_9.2\r\n")
            port = await stack.enter_async_context(serving(behave))
        yield port


async def _findings(
    plugin: str, kind: str, port: int, folder: Path, *, probe: str, tls: bool
) -> list[Finding]:
    (folder / "secret").write_text("wrong")
    if plugin == "declarative":
        access = "access: {tls: true}" if tls else "log: x"
        text = f"""\
name: a
targets: {{part: {{kind: k, port: {port}, {access}}}}}
probes: {{answer: {{{probe}}}}}
invariants: {{answers: {{holds: answer.up && answer.ok}}}}
"""
        subject = described(folder, text, timeout_s=TIMEOUT_S).subject
    else:
        access_ = Access(tls=tls, user="operator", password_file="secret")
        target = Target("part", kind, port=port, access=access_)
        settings = SubjectSettings(
            *("shop", lambda: (target,), SystemClock(), TIMEOUT_S, {}),
            secret=lambda path: "wrong",
        )
        subject = find_plugin(plugin).subject(settings)
    check, _ = await run_check(subject, SystemClock(), timeout_s=4 * TIMEOUT_S)
    return list(check.findings)


@pytest.mark.parametrize("situation", SITUATIONS)
@pytest.mark.parametrize(
    ("plugin", "kind", "rejects", "probe"), PARTS, ids=[f"{one[0]}-{one[1]}" for one in PARTS]
)
async def test_what_cannot_be_observed_opens_a_ticket_and_nothing_of_it_is_healthy(
    tmp_path: Path, plugin: str, kind: str, rejects: Behave, probe: str, situation: str
) -> None:
    async with _answering(situation, rejects, tmp_path) as port:
        tls = situation == "certificate"
        found = await _findings(plugin, kind, port, tmp_path, probe=probe, tls=tls)
    broken = [one for one in found if one.health is Health.BROKEN]
    assert broken, found  # only what is broken opens a ticket after its grace
    assert all(one.detail for one in broken)
    of_part = [one for one in found if one.target == "part" and one.invariant != OBSERVABLE]
    assert Health.HEALTHY not in {one.health for one in of_part}, of_part
