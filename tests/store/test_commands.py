"""The tables of commands: rows from entries, and questions that need no scan."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from operator_protocols.domain.action import Action, Outcome, Result
from operator_protocols.domain.command import OUTCOMES, Command, CommandFilter
from operator_protocols.domain.entry import Actor, Entry, Kind
from operator_protocols.ports import Commands, Patterns, Search
from operator_sre.codec import to_json
from operator_sre.store import Store, open_store
from operator_sre.store.commands import (
    COMMAND_COLUMNS,
    COMMAND_FIELDS,
    StoredCommands,
    StoredPatterns,
    command_from,
    command_where,
    end_command,
    refuse_command,
    start_command,
)
from operator_sre.store.search import StoredSearch
from operator_sre.store.textindex import FtsIndex, Phrase
from tests.contract.clock import NOON, HeldClock
from tests.contract.doing import Doer

RAN = Result(Outcome.RAN, 0, "fine")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    one = open_store(tmp_path / "operator.db", clock=HeldClock())
    yield one
    one.close()


@pytest.fixture
def raw(store: Store, tmp_path: Path) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(tmp_path / "operator.db", isolation_level=None)
    yield connection
    connection.close()


def test_the_store_has_what_the_ports_ask_for(store: Store) -> None:
    kinds = [type(one) for one in (store.commands, store.patterns, store.search)]
    assert kinds == [StoredCommands, StoredPatterns, StoredSearch]
    for one, port in zip(kinds, (Commands, Patterns, Search), strict=True):
        assert issubclass(one, port)


def _only(raw: sqlite3.Connection) -> Any:
    (row,) = raw.execute(f"SELECT {COMMAND_COLUMNS} FROM commands").fetchall()  # noqa: S608
    return row


def _entry(kind: Kind, seq: int, **payload: object) -> Entry:
    return Entry(seq, NOON, kind, payload, None, "", Actor(), "", "")


def test_a_row_begins_ends_and_is_read_back(raw: sqlite3.Connection) -> None:
    action = to_json(Action.shell("df -h"))
    start_command(raw, _entry(Kind.TOOL_CALL, 1, permit="p", action=action))
    end_command(raw, _entry(Kind.TOOL_RESULT, 2, permit="p", result=to_json(RAN)))
    row = _only(raw)
    one = command_from(row)
    assert isinstance(one, Command)
    assert one.seq == row[COMMAND_FIELDS.index("seq")] == 1
    assert (one.command, one.head, one.at) == ("df -h", "fine", NOON)
    assert (one.agent, one.agent_type) == ("operator", "system")


def test_a_refusal_that_says_little_is_a_row_all_the_same(raw: sqlite3.Connection) -> None:
    bare = {"outcome": "refused", "exit_code": None, "stdout": "", "stderr": ""}
    result = {**bare, "duration_s": 0.0, "category": None}
    action = {"tool": "shell", "arguments": {}}
    refuse_command(raw, _entry(Kind.REFUSED, 3, action=action, result=result))
    one = command_from(_only(raw))
    assert (one.command, one.level, one.approver, one.outcome) == ("", "", "", "refused")


def test_an_end_without_a_beginning_changes_nothing(raw: sqlite3.Connection) -> None:
    action = {"tool": "shell", "arguments": {}}
    refuse_command(raw, _entry(Kind.REFUSED, 3, action=action, result=to_json(RAN)))
    end_command(raw, _entry(Kind.TOOL_RESULT, 9, permit="", result=to_json(RAN)))
    assert raw.execute("SELECT ended FROM commands").fetchall() == [(3,)]


def _plan(raw: sqlite3.Connection, sql: str, values: tuple[object, ...]) -> str:
    return "; ".join(row[3] for row in raw.execute(f"EXPLAIN QUERY PLAN {sql}", values))


@pytest.mark.parametrize(
    "where",
    [
        CommandFilter(),
        CommandFilter(ticket=1),
        CommandFilter(run="run-1"),
        CommandFilter(target="a"),
        CommandFilter(level="blocked"),
        CommandFilter(since=datetime(2026, 1, 1, tzinfo=UTC)),
        *(CommandFilter(outcome=word) for word in OUTCOMES),
    ],
    ids=str,
)
def test_no_listing_scans_or_sorts(raw: sqlite3.Connection, where: CommandFilter) -> None:
    clauses, values = command_where(where, before=10**9)
    sql = f"SELECT head FROM commands WHERE {clauses} ORDER BY commands.seq DESC"  # noqa: S608
    plan = _plan(raw, sql, values)
    assert plan.startswith(("SEARCH commands USING", "SCAN commands USING INDEX")), plan
    assert "TEMP B-TREE" not in plan, plan


def test_what_is_done_at_every_command_uses_an_index(raw: sqlite3.Connection) -> None:
    update = "UPDATE commands SET ended = 1 WHERE permit = ? AND permit <> ''"
    assert "USING INDEX commands_by_permit" in _plan(raw, update, ("p",))
    run = "SELECT body FROM entries WHERE seq > 0 AND run = ? AND run <> '' ORDER BY seq"
    assert "USING INDEX entries_by_run" in _plan(raw, run, ("run-1",))


def test_a_search_follows_the_index_of_words_from_its_end(
    store: Store, raw: sqlite3.Connection, tmp_path: Path
) -> None:
    async def live() -> None:
        doer = await Doer.hired(store, HeldClock())
        await doer.run("df -h")
        await store.search.catch_up(entries_max=100)

    asyncio.run(live())
    phrases: list[Phrase] = [(["df"], False)]
    clause, value = FtsIndex().match("commands_text", phrases)
    sql = (
        "SELECT head FROM commands_text JOIN commands"  # noqa: S608
        f" ON commands.seq = commands_text.rowid WHERE {clause} AND commands.seq > 0"
        " ORDER BY commands_text.rowid DESC LIMIT 50"
    )
    raw.execute("ATTACH DATABASE ? AS search", (str(tmp_path / "operator.db-search"),))
    plan = _plan(raw, sql, (value,))
    assert plan.startswith("SCAN commands_text VIRTUAL TABLE"), plan
    assert "TEMP B-TREE" not in plan, plan
