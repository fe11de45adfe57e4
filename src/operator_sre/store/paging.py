"""Pages of requests to people: what a page costs does not depend on how many there are."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from operator_protocols.errors import UsageError
from operator_sre.store.database import plain
from operator_sre.store.reader import Reader

__all__ = ["bodies_behind"]


def bodies_behind(
    reader: Reader,
    table: str,
    *,
    states: Sequence[str],
    alive_at: datetime | None,
    after: str,
    limit: int,
    newest: bool = False,
) -> list[Any]:
    """The bodies of so many rows behind the one of an id, oldest or newest first. UsageError.

    Of these states, or of all where none is named, and not expired by then.
    """
    conditions, values = ["seq > ?"], [_place(reader, table, after) if after else 0]
    if newest and after:
        conditions = ["seq < ?"]
    if states:
        conditions.append(f"state IN ({', '.join('?' * len(states))})")
        values += states
    if alive_at is not None:
        conditions.append("expires_at > ?")
        values.append(alive_at.timestamp())
    where, order = " AND ".join(conditions), "DESC" if newest else "ASC"
    sql = f"SELECT body FROM {table} WHERE {where} ORDER BY seq {order} LIMIT ?"  # noqa: S608
    return [row[0] for row in reader.rows(sql, [*values, limit])]


def _place(reader: Reader, table: str, name: str) -> Any:
    sql = f"SELECT seq FROM {table} WHERE id = ?"  # noqa: S608
    rows = reader.rows(sql, (plain(name),))
    if not rows:
        raise UsageError(
            f"There is no {name[:80]!r} in {table} to go on behind.",
            next_step="Begin with the first page, without a cursor.",
        )
    return rows[0][0]
