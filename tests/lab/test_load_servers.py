"""Load on real servers that misbehave: each is told apart, and none of them ends or delays it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from operator_lab.load import STATS_FILE, Load, LoadStats, read_load
from operator_lab.load_clients import (
    CONNECTIONS_MAX,
    REQUEST_S_MAX,
    Asked,
    HttpNode,
    Reply,
    SqlNode,
)
from operator_lab.manifest import LOAD
from tests.contract.postgres import Server, shared_server
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
from tests.processes.waiting import eventually

pytestmark = [pytest.mark.asyncio, pytest.mark.slow]

HEAD = b"HTTP/1.1 200 OK\r\n"


@contextlib.asynccontextmanager
async def _loading(folder: Path, **options: object) -> AsyncIterator[None]:
    (folder / LOAD).mkdir()
    told = {"host": "127.0.0.1", "path": "/", "body": {}, "rate_per_s": 40.0, **options}
    load = Load(folder / LOAD / STATS_FILE, **told)  # type: ignore[arg-type]
    task = asyncio.create_task(load.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _figures(folder: Path) -> LoadStats | None:
    stats = read_load(folder)
    return stats if stats is not None and len(stats.samples) >= 2 else None


@pytest.mark.parametrize(
    ("behave", "reply"),
    [
        (http(200, {}), Reply.GOOD),
        (http(429, {}), Reply.GOOD),
        (http(503, {}), Reply.BAD),
        (hangs, Reply.LATE),
        (drips(HEAD, every_s=0.05), Reply.LATE),
        (floods(HEAD), Reply.REFUSED),
        (closes, Reply.REFUSED),
        (resets, Reply.REFUSED),
        (says(b"SMTP 220 hello\r\n\r\n"), Reply.REFUSED),
        (says(b"\x00\xff garbage\r\n\r\n"), Reply.REFUSED),
        (says(HEAD + b"content-length: soon\r\n\r\n"), Reply.REFUSED),
    ],
    ids=[
        *("200", "429", "503", "hangs", "drips", "floods", "closes", "resets"),
        *("other-protocol", "garbage", "no-number"),
    ],
)
async def test_a_server_is_asked_and_what_came_is_told(behave: Behave, reply: Reply) -> None:
    async with serving(behave) as port:
        node: Asked = HttpNode("127.0.0.1", port, path="/", body={"a": "b"})
        found = set(await asyncio.gather(node.ask(0), node.ask(1)))
        await node.close()
    assert found == {reply}
    assert reply.timed is (reply is not Reply.REFUSED)


async def test_nobody_listening_is_a_refusal() -> None:
    with unused_port() as port:
        assert await HttpNode("127.0.0.1", port, path="/", body={}).ask(0) is Reply.REFUSED


async def test_one_that_hangs_delays_nobody_else_and_shows_in_the_figures(tmp_path: Path) -> None:
    async with (
        serving(hangs) as silent,
        serving(http(200, {})) as well,
        _loading(tmp_path, ports=[silent, well]),
    ):
        await eventually(lambda: _figures(tmp_path))
        stats = _figures(tmp_path)
    assert stats is not None
    last = stats.samples[-1]
    assert last.ok >= 10, "the other half goes on"
    assert last.failed >= 5
    assert stats.success_rate == pytest.approx(last.ok / (last.ok + last.failed), abs=1e-3)
    assert stats.success_rate_total == pytest.approx(stats.ok / stats.total, abs=1e-3)
    for latency in (stats.latency, stats.latency_total, last.latency):
        assert latency.p50_ms is not None
        assert latency.p99_ms is not None
        assert latency.p99_ms >= REQUEST_S_MAX * 1000


async def test_what_is_turned_away_at_once_is_not_called_fast(tmp_path: Path) -> None:
    with unused_port() as port:
        async with _loading(tmp_path, ports=[port], shape="burst"):
            await eventually(lambda: _figures(tmp_path))
            stats = _figures(tmp_path)
    assert stats is not None
    assert (stats.ok, stats.success_rate_total, stats.shape) == (0, 0.0, "burst")
    assert stats.latency_total.p50_ms is None


async def test_what_is_in_flight_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("operator_lab.load.IN_FLIGHT_MAX", 3)
    open_now = most = 0

    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal open_now, most
        open_now += 1
        most = max(most, open_now)
        await reader.read()
        open_now -= 1

    async with serving(behave) as port, _loading(tmp_path, ports=[port]):
        await eventually(lambda: _figures(tmp_path))
    stats = read_load(tmp_path)
    assert stats is not None
    assert stats.failed >= 40, "those for which there was no place count"
    assert most <= 4  # the server may see a farewell after the next greeting


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Server:
    """A real PostgreSQL."""
    return shared_server(request.config)


async def test_statements_are_run_and_counted(server: Server, tmp_path: Path) -> None:
    database = server.database()
    name = database.rpartition("/")[2]
    server.ask("CREATE TABLE heard (n int)", name=name)
    statement = "INSERT INTO heard VALUES ({n})"
    async with _loading(tmp_path, ports=[1], statement=statement, dsn=database):
        await eventually(lambda: _figures(tmp_path))
    stats = read_load(tmp_path)
    assert stats is not None
    assert stats.failed == 0
    assert stats.ok >= 40
    assert stats.latency_total.p99_ms is not None
    told = {n for (n,) in server.ask("SELECT n FROM heard", name=name)}
    assert told >= set(range(40))
    await eventually(lambda: _others_in(server, name) == 0)
    server.drop(database)


def _others_in(server: Server, name: str) -> object:
    question = "SELECT count(*) FROM pg_stat_activity WHERE datname = "
    return server.ask(f"{question}'{name}'")[0][0]


async def test_each_failure_of_a_statement_is_told_apart(server: Server) -> None:
    database = server.database()
    try:
        for statement, reply in (
            ("SELECT 1", Reply.GOOD),
            ("SELECT * FROM nothing", Reply.BAD),
            ("SELECT pg_sleep(30)", Reply.LATE),
        ):
            node = SqlNode(1, dsn=database, statement=statement)
            assert [await node.ask(turn) for turn in range(2)] == [reply, reply], statement
            await node.close()
        missing = SqlNode(1, dsn=database.replace("test_", "absent_"), statement="SELECT 1")
        assert await missing.ask(0) in (Reply.BAD, Reply.REFUSED)
    finally:
        server.drop(database)


async def test_a_database_that_hangs_resets_or_is_gone_delays_nothing() -> None:
    dsn = "host=127.0.0.1 port={port} user=nobody dbname=nothing sslmode=disable"
    for behave, reply in ((hangs, Reply.LATE), (resets, Reply.REFUSED), (closes, Reply.REFUSED)):
        async with serving(behave) as port:
            node = SqlNode(port, dsn=dsn, statement="SELECT 1")
            async with asyncio.timeout(8 * REQUEST_S_MAX):
                asked = (node.ask(turn) for turn in range(2 * CONNECTIONS_MAX))
                assert set(await asyncio.gather(*asked)) == {reply}
            await node.close()
    with unused_port() as port:
        assert await SqlNode(port, dsn=dsn, statement="SELECT 1").ask(0) is Reply.REFUSED


async def test_a_database_that_falls_silent_later_is_hung_up_on(server: Server) -> None:
    database = server.database()
    folder = str(server.folder)
    silent = asyncio.Event()

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        (path,) = [each for each in Path(folder).glob(".s.PGSQL.*") if each.suffix != ".lock"]
        inner, outer = await asyncio.open_unix_connection(str(path))

        async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
            while data := await source.read(4096):
                if silent.is_set():
                    await asyncio.Event().wait()
                sink.write(data)

        try:
            await asyncio.gather(pump(reader, outer), pump(inner, writer))
        finally:
            outer.close()

    name = database.rpartition("/")[2]
    dsn = f"host=127.0.0.1 port={{port}} user=tester dbname={name} sslmode=disable"
    async with serving(relay) as port:
        node = SqlNode(port, dsn=dsn, statement="SELECT {n}")
        assert await node.ask(0) is Reply.GOOD
        silent.set()
        async with asyncio.timeout(8 * REQUEST_S_MAX):
            assert await node.ask(1) is Reply.LATE
        silent.clear()
        assert await node.ask(2) is Reply.GOOD
        await node.close()
    server.drop(database)
