"""Shared parts of repositories: changes as methods, rows by column, and nouns stored as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar

from operator_protocols.domain.entry import Actor, Draft, Kind
from operator_protocols.errors import NotFoundError, UsageError
from operator_sre.codec import from_json
from operator_sre.store.database import Connection, Rows, plain

if TYPE_CHECKING:
    from operator_sre.store.database import Reader
    from operator_sre.store.decisions import Decisions
    from operator_sre.store.transaction import Transaction
    from operator_sre.store.writer import Writer

__all__ = [
    "JsonTable",
    "Repository",
    "draft_of_user",
    "in_transaction",
    "insert_row",
    "marks",
    "update_row",
    "upsert_row",
]

P = ParamSpec("P")
T = TypeVar("T")
Noun = TypeVar("Noun", bound="Repository")


class Repository:
    """One stored noun: reads never wait, and writes go through the one writer."""

    def __init__(self, reader: Reader, writer: Writer, decisions: Decisions) -> None:
        self._reader = reader
        self._writer = writer
        self._decisions = decisions


def in_transaction(
    change: Callable[Concatenate[Noun, Transaction, P], T],
) -> Callable[Concatenate[Noun, P], Coroutine[Any, Any, T]]:
    """Let a method with a transaction open that itself; durable when it returns."""

    @wraps(change)
    def write(self: Noun, /, *args: P.args, **options: P.kwargs) -> Coroutine[Any, Any, T]:
        return self._writer.write(lambda transaction: change(self, transaction, *args, **options))

    return write


def draft_of_user(kind: Kind, payload: Mapping[str, Any], by: str) -> Draft:
    """A draft about an act of a person, without a ticket or run."""
    return Draft(kind, payload, actor=Actor(id=by, type="user"))


def marks(values: Sequence[object]) -> str:
    """As many `?` as there are values."""
    return ", ".join("?" * len(values))


def insert_row(connection: Connection, table: str, row: Mapping[str, object]) -> None:
    """Insert one row."""
    values = tuple(row.values())
    connection.execute(
        f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks(values)})",  # noqa: S608
        values,
    )


def upsert_row(
    connection: Connection, table: str, key: str, row: Mapping[str, object], *, keep: str = ""
) -> None:
    """Insert one row, or replace all but its key, as `a` or `a, b`, and the column to `keep`."""
    fixed, values = {keep, *key.split(", ")}, tuple(row.values())
    changes = ", ".join(f"{name} = excluded.{name}" for name in row if name not in fixed)
    connection.execute(
        f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks(values)})"  # noqa: S608
        f" ON CONFLICT ({key}) DO UPDATE SET {changes}",
        values,
    )


def update_row(
    connection: Connection, table: str, name: object, columns: Mapping[str, object], key: str = "id"
) -> None:
    """Change columns of the row of that name."""
    changes = ", ".join(f"{column} = ?" for column in columns)
    connection.execute(
        f"UPDATE {table} SET {changes} WHERE {key} = ?",  # noqa: S608
        (*columns.values(), name),
    )


@dataclass(frozen=True, slots=True)
class JsonTable(Generic[T]):
    """A table whose rows hold a noun as JSON in `body`, beside `id`, `seq` and a few columns."""

    name: str
    kind: type[T]
    noun: str = ""
    listed_by: str = ""

    def insert(
        self, connection: Connection, seq: int, body: Mapping[str, Any], **columns: object
    ) -> None:
        """Insert the noun of the entry with this number."""
        row = {"id": plain(body["id"]), "seq": seq, "body": json.dumps(body), **columns}
        insert_row(connection, self.name, row)

    def merge(
        self, connection: Connection, name: str, more: Mapping[str, Any], **columns: object
    ) -> None:
        """Add fields to the body of an existing row, and change columns."""
        body = json.dumps({**self.body(connection, name), **more})
        update_row(connection, self.name, plain(name), {"body": body, **columns})

    def body(self, connection: Connection, name: str) -> dict[str, Any]:
        """The JSON of an existing row."""
        sql = f"SELECT body FROM {self.name} WHERE id = ?"  # noqa: S608
        body: dict[str, Any] = json.loads(connection.execute(sql, (plain(name),)).fetchone()[0])
        return body

    def parse(self, body: str) -> T:
        """A noun from its body."""
        return from_json(self.kind, json.loads(body))

    def get(self, rows: Rows, name: str) -> T | None:
        """The noun of this id, or None."""
        nouns = self.select(rows, "WHERE id = ?", (plain(name),))
        return nouns[0] if nouns else None

    def load(self, rows: Rows, name: str) -> T:
        """The noun of this id. NotFoundError."""
        known = self.get(rows, name)
        if known is None:
            raise NotFoundError(
                f"There is no {self.noun} {name!r}.", next_step=f"See them with: {self.listed_by}"
            )
        return known

    def select(self, rows: Rows, where: str, values: Sequence[object] = ()) -> list[T]:
        """The nouns of these WHERE, ORDER BY and LIMIT clauses."""
        sql = f"SELECT body FROM {self.name} {where}"  # noqa: S608
        return [self.parse(row[0]) for row in rows(sql, values)]

    def page(
        self,
        reader: Reader,
        *,
        states: Sequence[str],
        alive_at: datetime | None,
        after: str,
        limit: int,
        newest: bool = False,
    ) -> list[T]:
        """A page of nouns after the one of an id, oldest or newest first. UsageError.

        Only those in these states (default: all) that have not expired at `alive_at`. The cost of a
        page does not depend on the size of the table.
        """
        conditions = ["seq > ?"]
        values: list[object] = [0]
        if after:
            sql = f"SELECT seq FROM {self.name} WHERE id = ?"  # noqa: S608
            places = reader.rows(sql, (plain(after),))
            if not places:
                raise UsageError(
                    f"There is no {after[:80]!r} in {self.name} to continue after.",
                    next_step="Start with the first page, without a cursor.",
                )
            conditions, values = ["seq < ?" if newest else "seq > ?"], [places[0][0]]
        if states:
            conditions.append(f"state IN ({marks(states)})")
            values += states
        if alive_at is not None:
            conditions.append("expires_at > ?")
            values.append(alive_at.timestamp())
        where, order = " AND ".join(conditions), "DESC" if newest else "ASC"
        return self.select(
            reader.rows, f"WHERE {where} ORDER BY seq {order} LIMIT ?", [*values, limit]
        )
