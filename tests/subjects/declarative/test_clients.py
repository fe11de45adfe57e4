"""Probes that use the client of a system: what they read, and what each says without it."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from operator_protocols.errors import ConfigError
from operator_protocols.installation import how_to_add_extra
from operator_protocols.kit.client import ALL_CHECKED, CLIENT_VIEW, READS_CHECKED, UNCHECKED
from operator_sre.executor.jobs import Spool
from operator_sre.executor.programs import Programs
from operator_sre.executor.transports.local import LocalShell
from operator_sre.subjects.declarative.probes.kinds import judge_client_view
from operator_sre.subjects.declarative.probes.redis import RedisProbe
from operator_sre.subjects.declarative.probes.sql import SqlProbe
from tests.contract.servers import http, says, serving, unused_port
from tests.every import every
from tests.subjects.declarative.probes.test_host import Recorded, asking, said

pytestmark = pytest.mark.asyncio
# By kind: a section of it, its extra, and the module of that.
CLIENTS = {
    "mysql": ("{query: SELECT 1 AS one}", "mysql", "pymysql"),
    "amqp": ("{queue: jobs}", "amqp", "pika"),
    "kafka": ("{topic: orders}", "kafka", "confluent_kafka"),
    "s3": ("{bucket: backups}", "s3", "botocore"),
    "grpc": ("{service: shop}", "grpc", "grpc"),
}
LIST = b"""<?xml version="1.0"?><ListBucketResult><Name>backups</Name>
<Contents><Key>a</Key><Size>7</Size><LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>
<Contents><Key>b</Key><Size>5</Size><LastModified>2026-01-02T00:00:00.000Z</LastModified></Contents>
<IsTruncated>false</IsTruncated></ListBucketResult>"""


@every("kind", CLIENTS)
async def test_a_missing_extra_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    section, extra, module = CLIENTS[kind]
    # A part of it that another test has loaded would be found without it.
    for name in [module, *(each for each in sys.modules if each.startswith(f"{module}."))]:
        monkeypatch.setitem(sys.modules, name, None)
    seen = await asking(tmp_path, f"{{{kind}: {section}}}", more=", port: 1").seen()
    assert f"probe needs the extra '{extra}', which is not installed" in seen.problem
    assert how_to_add_extra(extra) in seen.problem


@every("kind", [kind for kind in CLIENTS if kind != "kafka"])
async def test_a_port_where_nothing_listens_is_refused(tmp_path: Path, kind: str) -> None:
    with unused_port() as port:
        probe = f"{{{kind}: {CLIENTS[kind][0]}}}"
        readings = (await asking(tmp_path, probe, more=f", port: {port}").seen()).readings
    assert readings["it.up"] is False
    assert "connection refused" in str(readings["it.error"])


async def test_kafka_that_does_not_answer_is_down(tmp_path: Path) -> None:
    with unused_port() as port:
        tried = asking(tmp_path, "{kafka: }", more=f", port: {port}", timeout_s=0.5)
        readings = (await tried.seen()).readings
    assert readings["it.up"] is False


async def test_a_query_that_could_change_something_is_refused(tmp_path: Path) -> None:
    for query in ("DELETE FROM t", "SET GLOBAL read_only = 1", "SELECT 1 INTO OUTFILE '/tmp/x'"):
        tried = asking(tmp_path, f'{{mysql: {{query: "{query}"}}}}', more=", port: 1")
        with pytest.raises(ConfigError, match="one SELECT, SHOW or WITH that writes no file"):
            await tried.seen()


async def test_a_greeting_of_mysql_that_refuses_everybody_is_an_answer(tmp_path: Path) -> None:
    text = b"\xff\x10\x04Too many connections"
    greeting = len(text).to_bytes(3, "little") + b"\x00" + text

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(greeting)
        await writer.drain()

    async with serving(greet) as port:
        probe = "{mysql: {query: SELECT 1 AS one}}"
        seen = await asking(tmp_path, probe, more=f", port: {port}").seen()
    assert seen.readings["it.up"] is False
    assert seen.readings["cause.connections_used_up"] is True


async def test_a_bucket_is_listed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("word")
    access = "access: {user: key, password_file: secret}"
    probe = "{s3: {bucket: backups}}"
    async with serving(http(200, LIST)) as port:
        readings = (await asking(tmp_path, probe, more=f", port: {port}, {access}").seen()).readings
        assert (readings["it.objects"], readings["it.bytes"]) == (2, 12)
        assert isinstance(readings["it.newest_age_s"], float)
    error = b"<Error><Code>%s</Code><Message>no</Message></Error>"
    async with serving(http(404, error % b"NoSuchBucket")) as port:
        seen = await asking(tmp_path, probe, more=f", port: {port}, {access}").seen()
        assert seen.readings["it.exists"] is False
    async with serving(http(403, error % b"AccessDenied")) as port:
        seen = await asking(tmp_path, probe, more=f", port: {port}, {access}").seen()
        assert "login rejected: AccessDenied" in seen.problem
        assert seen.readings["cause.login_rejected"] is True


async def test_the_health_of_a_grpc_server_is_its_own_word(tmp_path: Path) -> None:
    import grpc

    state = [1]

    async def check(request: bytes, context: object) -> bytes:
        assert request in (b"", b"\x0a\x04shop")
        return bytes([0x08, state[0]])

    server = grpc.aio.server()
    handlers = {"Check": grpc.unary_unary_rpc_method_handler(check)}
    server.add_generic_rpc_handlers(
        [grpc.method_handlers_generic_handler("grpc.health.v1.Health", handlers)]
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        tried = asking(tmp_path, "{grpc: {service: shop}}", more=f", port: {port}")
        readings = (await tried.seen()).readings
        assert (readings["it.ok"], readings["it.state"]) == (True, "SERVING")
        state[0] = 2
        readings = (await tried.seen()).readings
        assert (readings["it.ok"], readings["it.state"]) == (False, "NOT_SERVING")
    finally:
        await server.stop(None)


async def test_a_broker_that_is_none_does_not_answer_well(tmp_path: Path) -> None:
    async with serving(says(b"HTTP/1.1 400 Bad Request\r\n\r\n")) as port:
        seen = await asking(tmp_path, "{amqp: }", more=f", port: {port}").seen()
    assert seen.readings["it.up"] is False


async def test_loki_counts_lines(tmp_path: Path) -> None:
    body = {"data": {"resultType": "vector", "result": [{"metric": {}, "value": [1, "7"]}]}}
    async with serving(http(200, body)) as port:
        read = "{errors: 'count_over_time({app=\"shop\"}[5m])'}"
        probe = f"{{loki: {{server: 'http://127.0.0.1:{port}', read: {read}}}}}"
        readings = (await asking(tmp_path, probe, "it.errors < 9").seen()).readings
        assert readings["it.errors"] == 7.0
    with pytest.raises(ConfigError, match="needs 'server'"):
        await asking(tmp_path, "{loki: {read: {errors: x}}}").seen()


async def test_the_journal_is_counted(tmp_path: Path) -> None:
    shell = Recorded({"journalctl": said("started\nERROR a\nERROR b\n")})
    probe = "{journald: {unit: shop.service, within: 1m, matches: ERROR}}"
    readings = (await asking(tmp_path, probe, "it.lines < 3", commands=shell).seen()).readings
    assert (readings["it.lines"], readings["it.newest"]) == (2, "ERROR b")
    shut = Recorded({"journalctl": said("No journal files were opened", 1)})
    seen = await asking(tmp_path, probe, "it.lines < 3", commands=shut).seen()
    assert "the journal cannot be read" in seen.problem


async def test_a_container_is_described(tmp_path: Path) -> None:
    state = (
        '{"state": {"Status": "exited", "ExitCode": 137, "OOMKilled": true}, "restarts": 3,'
        ' "image": "shop:2"}'
    )
    shell = Recorded({"docker": said(state)})
    readings = (
        await asking(tmp_path, "{docker: {container: web}}", commands=shell).seen()
    ).readings
    assert (readings["it.state"], readings["it.out_of_memory"], readings["it.restarts"]) == (
        "exited",
        True,
        3,
    )
    gone = Recorded({"docker": said("Error: No such container: web", 1)})
    readings = (await asking(tmp_path, "{docker: }", commands=gone).seen()).readings
    assert (readings["it.up"], readings["it.state"]) == (False, "missing")
    off = Recorded({"docker": said("Cannot connect to the Docker daemon", 1)})
    assert (
        "docker does not answer"
        in (await asking(tmp_path, "{docker: }", commands=off).seen()).problem
    )


async def test_a_canary_has_to_come_back(tmp_path: Path) -> None:
    shell = LocalShell(Programs(Spool(tmp_path / "spool")))
    place = tmp_path / "kept"
    write = f"[sh, -c, 'echo $0 > {place}', '{{canary}}']"
    probe = "{canary: {reviewed: true, write: %s, read: [cat, %s]}}"
    readings = (await asking(tmp_path, probe % (write, place), commands=shell).seen()).readings
    assert (readings["it.ok"], readings["it.returned"]) == (True, True)
    readings = (
        await asking(tmp_path, probe % (write, "/dev/null"), commands=shell).seen()
    ).readings
    assert (readings["it.ok"], readings["it.written"], readings["it.returned"]) == (
        False,
        True,
        False,
    )
    with pytest.raises(ConfigError, match="a canary writes"):
        await asking(tmp_path, "{canary: {write: [a, '{canary}'], read: [b]}}").seen()


async def test_what_is_not_checked_as_clients_use_it_is_noted(tmp_path: Path) -> None:
    shell = LocalShell(Programs(Spool(tmp_path / "spool")))
    (tmp_path / "secret").write_text("s")
    fails = "canary: {reviewed: true, write: [cp, /nonexistent/a, '{canary}'], read: [ls]}"
    canary = "canary: {reviewed: true, write: [tee, '{canary}'], read: [ls]"
    wrote = f"{canary}, directory: '{tmp_path}'}}"

    async def view(probe: str, port: int, *, more: str = "") -> object:
        tried = asking(tmp_path, f"{{{probe}}}", more=f", port: {port}{more}", commands=shell)
        return (await tried.seen()).readings.get(CLIENT_VIEW)

    access = ", access: {user: a, password_file: secret}"
    pong = says(b"+PONG\r\n")
    async with serving(http(200, LIST)) as objects, serving(pong) as cache:
        assert await view("s3: {bucket: backups}", objects, more=access) == READS_CHECKED
        assert await view("redis: {}", cache) == UNCHECKED
        assert await view("http: {path: /}", objects) is None, "it keeps no data"
        assert await view(wrote, cache) == ALL_CHECKED
        # What could not be checked at all says nothing of clients.
        assert await view(fails, cache) is None
        with unused_port() as port:
            assert await view("redis: {}", port) is None
    assert judge_client_view(()) == ""
    assert judge_client_view((RedisProbe(), SqlProbe())) == READS_CHECKED
