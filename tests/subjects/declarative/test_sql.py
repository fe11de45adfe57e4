"""SQL probes against a real PostgreSQL: what is read, and that nothing can be changed."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path

import pytest

from operator_protocols.domain.health import Health
from tests.contract.postgres import Server, shared_server
from tests.contract.servers import closes, hangs, says, serving, unused_port
from tests.processes.waiting import eventually
from tests.subjects.declarative.trying import Tried, described

pytestmark = pytest.mark.asyncio


@pytest.fixture
def server(pytestconfig: pytest.Config) -> Server:
    return shared_server(pytestconfig)


def asking(folder: Path, where: str, query: str, *, user: str = "tester", more: str = "") -> Tried:
    text = f"""\
name: a
targets: {{t: {{kind: k, {where}, access: {{user: {user}{more}}}}}}}
probes:
  rows:
    sql:
      query: >-
        {query}
invariants: {{i: {{holds: rows.up && rows.n < 5}}}}
"""
    return described(folder, text, timeout_s=60.0)


async def test_the_columns_of_the_first_row_become_values(tmp_path: Path, server: Server) -> None:
    query = "SELECT g AS n, 1.5::numeric AS price, 'x' AS word, NULL AS nothing, true AS yes,"
    query += " now() AS at, 7 AS rows FROM generate_series(2, 4) g"
    tried = asking(tmp_path, f"host: {server.folder}", query)
    readings = (await tried.seen()).readings
    assert (readings["rows.n"], readings["rows.price"], readings["rows.word"]) == (2, 1.5, "x")
    assert readings["rows.yes"] is True
    assert readings["rows.rows"] == 3
    assert "rows.nothing" not in readings
    assert "rows.at" not in readings
    assert await tried.health() is Health.HEALTHY


async def test_no_more_is_read_than_is_wanted(tmp_path: Path, server: Server) -> None:
    query = "SELECT g AS n FROM generate_series(1, 5000000) g"
    readings = (await asking(tmp_path, f"host: {server.folder}", query).seen()).readings
    assert (readings["rows.rows"], readings["rows.n"]) == (100, 1)


@pytest.mark.parametrize(
    "query",
    [
        "CREATE TABLE made (x int)",
        "DELETE FROM kept RETURNING 1 AS n",
        "SELECT 1 AS n; DELETE FROM kept",
        "COMMIT; DELETE FROM kept",
        "WITH gone AS (DELETE FROM kept RETURNING x) SELECT count(*) AS n FROM gone",
        "SELECT nonsense",
    ],
)
async def test_nothing_can_be_changed(tmp_path: Path, server: Server, query: str) -> None:
    server.ask("CREATE TABLE IF NOT EXISTS kept (x int)")
    server.ask("INSERT INTO kept VALUES (1)")
    before = server.ask("SELECT count(*) FROM kept")
    tried = asking(tmp_path, f"host: {server.folder}", query)
    seen = await tried.seen()
    assert "the query is not valid there" in seen.problem
    assert await tried.health() is Health.UNKNOWN
    assert server.ask("SELECT count(*) FROM kept") == before
    assert server.ask("SELECT to_regclass('made')") == [(None,)]


async def test_a_query_that_never_ends_is_ended(tmp_path: Path, server: Server) -> None:
    tried = asking(tmp_path, f"host: {server.folder}", "SELECT pg_sleep(60), 1 AS n")
    tried.timeout_s = 0.5
    assert (await tried.seen()).readings["rows.up"] is False


async def test_a_connection_is_closed_however_often_its_look_is_cancelled(
    tmp_path: Path, server: Server
) -> None:
    tried = asking(tmp_path, f"host: {server.folder}", "SELECT pg_sleep(61), 1 AS n")
    looking = asyncio.create_task(tried.seen())
    of_it = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep(61)%'"
    await eventually(lambda: server.ask(of_it) == [(1,)])
    while not looking.done():
        looking.cancel()
        await asyncio.sleep(0)
    gc.collect()  # a connection that is still open now says so, and fails this test
    await eventually(lambda: server.ask(of_it) == [(0,)])


async def test_a_wrong_password_is_blindness_and_shows_nowhere(
    tmp_path: Path, server: Server
) -> None:
    server.ask(
        "DO $$ BEGIN CREATE ROLE locked LOGIN PASSWORD 'right';"
        " EXCEPTION WHEN duplicate_object THEN ALTER ROLE locked PASSWORD 'right'; END $$"
    )
    (tmp_path / "password").write_text("very-wrong")
    where, more = f"host: {server.folder}", ", password_file: password"
    seen = await asking(tmp_path, where, "SELECT 1 AS n", user="locked", more=more).seen()
    assert "login rejected" in seen.problem
    assert "very-wrong" not in repr(seen)
    (tmp_path / "password").write_text("right")
    tried = asking(tmp_path, where, "SELECT 1 AS n", user="locked", more=more)
    assert await tried.health() is Health.HEALTHY


async def test_who_is_no_postgres_is_down(tmp_path: Path) -> None:
    with unused_port() as dead:
        readings = (await asking(tmp_path, f"port: {dead}", "SELECT 1 AS n").seen()).readings
        assert readings["rows.error"] == f"127.0.0.1:{dead}: connection refused"
    for behave in (hangs, closes, says(b"HTTP/1.1 400 no\r\n\r\n")):
        async with serving(behave) as port:
            tried = asking(tmp_path, f"port: {port}", "SELECT 1 AS n")
            tried.timeout_s = 1.0
            assert (await tried.seen()).readings["rows.up"] is False
