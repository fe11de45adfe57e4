"""PostgreSQL behind the same face: locks, limits, restarts, and no password anywhere."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
import pytest

from operator_protocols.domain.entry import Draft, Kind
from operator_protocols.domain.ticket import TicketState
from operator_protocols.errors import ConfigError, MissingExtraError, StoreError
from operator_sre.store import Store, open_store_at, postgres
from operator_sre.store.postgres import PostgresDatabase, Session, bind, merge_rows, translate
from operator_sre.store.sqlite import SqliteDatabase
from operator_sre.store.store import database_at
from operator_sre.store.transaction import Rules, Transaction
from operator_sre.store.writer import INLINE_S_MAX
from tests.contract.clock import HeldClock
from tests.contract.postgres import Server, database_in, shared_server
from tests.contract.verified import verified

PASSWORD = "s3cret%25word"
DRAFT = Draft(Kind.REASONING, {"a": 1})


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Server:
    """The server that all tests of this process share."""
    return shared_server(request.config)


@pytest.fixture
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """An empty database."""
    with database_in("postgresql", tmp_path, request.config) as where:
        yield where


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    """An empty store."""
    one = open_store_at(url, Rules(HeldClock()))
    yield one
    one.close()


def _name(url: str) -> str:
    return url.rpartition("/")[2]


def _append(store: Store, draft: Draft = DRAFT) -> int:
    return asyncio.run(store.journal.append(draft)).seq


def test_a_path_is_a_file_and_an_address_is_a_server(tmp_path: Path) -> None:
    for file in (tmp_path / "a.db", str(tmp_path / "a.db")):
        assert isinstance(database_at(file), SqliteDatabase)
    for scheme in ("postgresql", "postgres"):
        database = database_at(f"{scheme}://ada@db.example/store")
        assert (database.name, database.place) == (
            "postgresql",
            "postgresql://ada@db.example/store",
        )


def test_another_kind_of_address_is_refused_without_showing_it() -> None:
    with pytest.raises(ConfigError, match="'mysql' is not a supported scheme") as caught:
        database_at(f"mysql://ada:{PASSWORD}@db/store")
    assert PASSWORD not in str(caught.value)


def test_a_file_needs_no_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    monkeypatch.delitem(sys.modules, "operator_sre.store.postgres", raising=False)
    assert database_at(tmp_path / "a.db").version() == 0
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match="the extra 'postgres'"):
        database_at("postgresql://db/store")


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("a = ? AND b = ?", "a = %s AND b = %s"),
        ("a LIKE '%' AND b = ?", "a LIKE '%%' AND b = %s"),
        ("a = '?' AND b = ?", "a = '?' AND b = %s"),
        ("a = 'it''s ?' AND b = ?", "a = 'it''s ?' AND b = %s"),
        ('"odd?" = ?', '"odd?" = %s'),
    ],
)
def test_marks_are_translated_and_quotes_left_alone(sql: str, expected: str) -> None:
    assert translate(sql) == expected


def test_values_are_bound_as_every_column_takes_them() -> None:
    given = (TicketState.OPEN, "a\0b\ud800", True, 5, None, b"\0")
    values = [bind(value) for value in given]
    assert values == ["open", "a?b?", 1, 5, None, b"\0"]
    assert [type(value) for value in values[:3]] == [str, str, int]


@pytest.mark.parametrize(
    ("sql", "rows", "expected"),
    [
        ("INSERT INTO a (b) VALUES (?)", [], []),
        (
            "INSERT INTO a (b, c) VALUES (?, lower(?))",
            [(1, "x"), (2, "y"), (3, "z")],
            [
                (
                    "INSERT INTO a (b, c) VALUES (?, lower(?)), (?, lower(?))",
                    [1, "x", 2, "y"],
                ),
                ("INSERT INTO a (b, c) VALUES (?, lower(?))", [3, "z"]),
            ],
        ),
        ("DELETE FROM a WHERE b = ?", [(1,), (2,)], [("DELETE FROM a WHERE b = ANY(?)", [[1, 2]])]),
        (
            "INSERT INTO a (b) VALUES (?) ON CONFLICT (b) DO UPDATE SET b = excluded.b",
            [(1,), (1,)],
            [("INSERT INTO a (b) VALUES (?) ON CONFLICT (b) DO UPDATE SET b = excluded.b", (1,))]
            * 2,
        ),
        (
            "DELETE FROM a WHERE b = ? AND c = ?",
            [(1, 2)],
            [("DELETE FROM a WHERE b = ? AND c = ?", (1, 2))],
        ),
    ],
)
def test_many_rows_are_few_statements(
    monkeypatch: pytest.MonkeyPatch,
    sql: str,
    rows: list[tuple[object, ...]],
    expected: list[tuple[str, object]],
) -> None:
    monkeypatch.setattr(postgres, "VALUES_MAX", 4)
    assert list(merge_rows(sql, rows)) == expected


def test_many_rows_are_written_and_deleted(url: str) -> None:
    count = postgres.VALUES_MAX + 1
    writer = PostgresDatabase(url).session()
    writer.execute("CREATE TABLE parts (number BIGINT, name TEXT, size DOUBLE PRECISION)")
    rows = [(number, None if number % 2 else f"p{number}", number / 2) for number in range(count)]
    writer.executemany("INSERT INTO parts (number, name, size) VALUES (?, ?, ?)", rows)
    order = "SELECT number, name, size FROM parts ORDER BY number"
    assert writer.execute(order).fetchall() == rows
    writer.executemany("DELETE FROM parts WHERE number = ?", [row[:1] for row in rows[1:]])
    assert writer.execute(order).fetchall() == rows[:1]
    writer.close()


def test_text_that_no_column_holds_is_found_again(store: Store) -> None:
    draft = Draft(Kind.REASONING, {"a": "\0\ud800"}, run="r\0\ud800", key="k\0\ud800")
    assert (_append(store, draft), _append(store, draft)) == (1, 1)
    (entry,) = store.entries.after(0, limit=10, run="r\0\ud800")
    assert (entry.run, entry.payload) == (draft.run, draft.payload)


def test_a_loop_never_waits_for_a_server(store: Store, tmp_path: Path) -> None:
    assert store.writer.inline_s_max == 0.0
    near = open_store_at(tmp_path / "operator.db", Rules(HeldClock()))
    assert near.writer.inline_s_max == INLINE_S_MAX
    near.close()


def test_a_reader_cannot_write(store: Store) -> None:
    with pytest.raises(StoreError, match="read-only"):
        store.reader.rows("DELETE FROM entries")
    assert store.reader.rows("SELECT count(*) FROM entries") == [(0,)]


def test_what_a_role_prefers_makes_no_entry_less_durable_and_no_chain_forked(
    server: Server, url: str
) -> None:
    name = _name(url)
    server.ask(f"ALTER DATABASE {name} SET default_transaction_isolation = 'serializable'")
    server.ask(f"ALTER DATABASE {name} SET synchronous_commit = off")
    stores = [open_store_at(url, Rules(HeldClock())) for _ in range(2)]

    async def both() -> None:
        await asyncio.gather(*(stores[n % 2].journal.append(DRAFT) for n in range(60)))

    asyncio.run(both())
    (setting,) = stores[0].reader.rows("SHOW synchronous_commit")
    report = verified(stores[0].entries)
    for one in stores:
        one.close()
    assert (report.entries, report.whole, setting) == (60, True, ("on",))


def test_a_schema_of_its_own_is_a_store_of_its_own(server: Server, url: str) -> None:
    server.ask("CREATE SCHEMA mine", name=_name(url))
    own = open_store_at(f"{url}?options=-csearch_path%3Dmine", Rules(HeldClock()))
    other = open_store_at(url, Rules(HeldClock()))
    assert [_append(own), _append(own), _append(other)] == [1, 2, 1]
    own.close()
    other.close()


def test_a_schema_that_is_not_there_is_told_in_one_sentence(url: str) -> None:
    with pytest.raises(StoreError, match="No schema") as caught:
        open_store_at(f"{url}?options=-csearch_path%3Dnowhere", Rules(HeldClock()))
    assert "CREATE SCHEMA" in caught.value.next_step


def test_tables_of_another_program_are_refused_untouched(server: Server, url: str) -> None:
    name = _name(url)
    server.ask("CREATE TABLE tickets (a int)", name=name)
    with pytest.raises(StoreError, match="table 'tickets' of another program"):
        open_store_at(url, Rules(HeldClock()))
    tables = server.ask("SELECT tablename FROM pg_tables WHERE schemaname = 'public'", name=name)
    assert tables == [("tickets",)]


def test_a_user_who_may_not_create_is_told_in_one_sentence(server: Server, url: str) -> None:
    server.ask("DROP ROLE IF EXISTS guest")
    server.ask("CREATE ROLE guest LOGIN")
    with pytest.raises(StoreError, match="permission denied") as caught:
        open_store_at(server.url(_name(url), user="guest"), Rules(HeldClock()))
    assert "\n" not in str(caught.value)
    server.ask("DROP ROLE guest")


def test_a_writer_waits_for_another_only_so_long(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "LOCK_S", 1)
    store = open_store_at(url, Rules(HeldClock()))
    database = database_at(url)
    other = database.session()
    database.begin(other)
    with pytest.raises(StoreError, match="lock timeout"):
        _append(store)
    other.execute("ROLLBACK")
    assert _append(store) == 1
    other.close()
    store.close()


def test_those_who_write_and_those_who_index_do_not_wait_for_each_other(store: Store) -> None:
    _append(store)
    database = store.database
    assert isinstance(database, PostgresDatabase)
    other = database.session()
    database.begin(other)
    store.indexer.advance(steps_max=1)
    assert store.search.behind() == 0
    other.execute("ROLLBACK")
    database.hold_index(other)
    assert _append(store) == 2
    other.execute("ROLLBACK")
    other.close()


def test_a_statement_takes_only_so_long(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "STATEMENT_S", 1)
    store = open_store_at(url, Rules(HeldClock()))
    with pytest.raises(StoreError, match="statement timeout"):
        store.reader.rows("SELECT pg_sleep(30)")
    assert store.reader.rows("SELECT 1") == [(1,)]
    store.close()


def test_a_commit_that_the_server_refuses_is_an_error(url: str) -> None:
    database = database_at(url)
    session = database.session()
    database.begin(session)
    with pytest.raises(psycopg.Error):
        session.execute("SELECT 1 / 0")
    with pytest.raises(psycopg.OperationalError, match="not committed"):
        session.execute("COMMIT")
    session.close()


def test_a_full_disk_fails_the_group_and_is_over_when_there_is_room(
    server: Server, url: str
) -> None:
    store = open_store_at(url, Rules(HeldClock()))
    assert _append(store) == 1
    name = _name(url)
    full = "RAISE EXCEPTION 'could not extend file' USING ERRCODE = 'disk_full'"
    server.ask(
        f"CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN {full}; END$$;"
        "CREATE TRIGGER full_disk BEFORE INSERT ON entries EXECUTE FUNCTION full_disk()",
        name=name,
    )
    with pytest.raises(StoreError, match="could not extend file") as caught:
        _append(store)
    assert "free space" in caught.value.next_step
    server.ask("DROP TRIGGER full_disk ON entries", name=name)
    assert _append(store) == 2
    assert verified(store.entries).whole
    store.close()


def test_a_restarted_server_costs_at_most_what_was_under_way() -> None:
    server = Server()
    try:
        store = open_store_at(server.database(), Rules(HeldClock()))
        acknowledged = [_append(store) for _ in range(3)]

        def restart(transaction: Transaction) -> None:
            transaction.append(DRAFT)
            server.restart()

        with pytest.raises(StoreError, match="could not be written"):
            asyncio.run(store.writer.write(restart))
        acknowledged.append(_append(store))
        assert len(store.entries.after(0, limit=10)) == 4
        server.restart()
        # Nothing was under way this time, so that nobody notices.
        assert len(store.entries.after(0, limit=10)) == 4
        acknowledged.append(_append(store))
        assert acknowledged == [1, 2, 3, 4, 5]
        assert verified(store.entries).whole
        store.close()
    finally:
        server.end()


def test_a_server_that_is_gone_is_told_in_one_sentence(tmp_path: Path) -> None:
    where = f"postgresql://ada:{PASSWORD}@{str(tmp_path).replace('/', '%2F')}/store"
    with pytest.raises(StoreError, match="cannot be used") as caught:
        open_store_at(where, Rules(HeldClock()))
    assert "\n" not in str(caught.value)
    assert "ada@" in str(caught.value)


def _everything_said(error: BaseException) -> str:
    return "".join(traceback.format_exception(error)) + repr(error)


@pytest.mark.parametrize(
    "address",
    [
        f"postgresql://locked:{PASSWORD}@HOST/NAME",
        f"postgresql://locked@HOST/NAME?password={PASSWORD}",
        f"postgresql://locked:{PASSWORD}@HOST:notaport/NAME",
        f"postgresql://locked:{PASSWORD}@HOST/NAME?unknown=1",
        f"postgresql://locked:{PASSWORD}@[HOST/NAME",
    ],
)
def test_a_password_is_never_shown(
    server: Server, url: str, address: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    host = str(server.folder).replace("/", "%2F")
    where = address.replace("HOST", host).replace("NAME", _name(url))
    server.ask("DROP ROLE IF EXISTS locked; CREATE ROLE locked LOGIN PASSWORD 'another'")
    with pytest.raises((StoreError, ConfigError)) as caught:
        open_store_at(where, Rules(HeldClock()))
    said = _everything_said(caught.value) + caplog.text
    assert "s3cret" not in said
    server.ask("DROP ROLE locked")


def test_a_right_password_opens_and_is_nowhere_to_be_seen(server: Server, url: str) -> None:
    server.ask("DROP ROLE IF EXISTS locked; CREATE ROLE locked SUPERUSER LOGIN PASSWORD 's3cret%'")
    host = str(server.folder).replace("/", "%2F")
    where = f"postgresql://locked:s3cret%25@{host}/{_name(url)}"
    store = open_store_at(where, Rules(HeldClock()))
    assert _append(store) == 1
    database = store.database
    session = database.writer()
    assert isinstance(database, PostgresDatabase)
    assert isinstance(session, Session)
    for shown in (repr(database), database.place, str(store), repr(session)):
        assert "s3cret" not in shown
    activity = server.ask("SELECT query, application_name FROM pg_stat_activity")
    assert "s3cret" not in str(activity)
    assert "operator" in str(activity)
    commands = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
            commands.append(path.read_bytes())
    assert commands
    assert b"s3cret" not in b"".join(commands)
    session.close()
    store.close()
    server.ask(f"DROP DATABASE {_name(url)} WITH (FORCE)")
    server.ask("DROP ROLE locked")


@contextmanager
def _stopped(server: Server, url: str) -> Iterator[None]:
    """Whoever serves a session of this database does not go on, and the session stays open."""
    rows = server.ask("SELECT datname, pid FROM pg_stat_activity")
    pids = [int(str(pid)) for name, pid in rows if name == _name(url)]
    assert pids
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """No statement may take longer than a second, and no answer much longer."""
    monkeypatch.setattr(postgres, "STATEMENT_S", 1)
    monkeypatch.setattr(postgres, "HANGING_S", 0.2)


@pytest.mark.usefixtures("impatient")
def test_a_server_that_hangs_is_not_waited_for_without_end(server: Server, url: str) -> None:
    session = PostgresDatabase(url).writer()
    assert session.execute("SELECT 1").fetchone() == (1,)
    with _stopped(server, url):
        with pytest.raises(psycopg.OperationalError, match="the server does not answer"):
            session.execute("SELECT 2")
        with pytest.raises(psycopg.OperationalError):
            session.execute("SELECT 3")
        session.close()


@pytest.mark.usefixtures("impatient")
def test_a_store_is_closed_although_its_server_hangs(server: Server, url: str) -> None:
    store = open_store_at(url, Rules(HeldClock()))
    _append(store)
    ends = time.monotonic() + 60
    while store.search.behind():
        assert time.monotonic() < ends
    with _stopped(server, url):
        store.indexer.notify()
        store.close()
