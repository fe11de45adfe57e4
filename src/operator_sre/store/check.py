"""Looking a store through: the database itself, derived columns, and projections."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from operator_protocols.errors import LedgerDamagedError, StoreError
from operator_sre.chain import record_from
from operator_sre.store.database import Connection, Maintained, plain, sentence
from operator_sre.store.rebuild import PAGE, Difference, Progress, RawRow, Rebuilt, walk

__all__ = ["CheckReport", "check", "wrong_columns"]

PROBLEMS_MAX = 100


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What was found wrong; the chain itself is for `operator audit verify`."""

    entries: int
    purged: int
    problems: tuple[str, ...]
    differences: tuple[Difference, ...]

    @property
    def sound(self) -> bool:
        """True when nothing is wrong."""
        return not self.problems and not self.differences


def check(database: Maintained, *, progress: Progress) -> CheckReport:
    """Look through everything, as it was at one moment; nobody waits and nothing is changed."""
    try:
        with closing(Rebuilt()) as rebuilt, closing(database.session()) as connection:
            problems = database.problems(connection)
            database.snapshot(connection)
            entries, purged = _follow(connection, rebuilt, problems, progress)
            differences = rebuilt.differences(database, connection)
    except database.failures as error:
        raise StoreError(
            f"The store could not be checked: {sentence(error)}.", next_step=database.remedy
        ) from error
    return CheckReport(entries, purged, tuple(problems), differences)


def _follow(
    connection: Connection, rebuilt: Rebuilt, problems: list[str], progress: Progress
) -> tuple[int, int]:
    entries = purged = 0
    for row in walk(connection):
        entries += 1
        purged += row.body is None
        found = wrong_columns(row)
        try:
            rebuilt.take(row)
        except LedgerDamagedError as error:
            found = error.message.rstrip(".")
        if found and len(problems) < PROBLEMS_MAX:
            problems.append(found)
        if entries % PAGE == 0:
            progress(row.seq)
    return entries, purged


def wrong_columns(row: RawRow) -> str:
    """Which columns of an entry do not say what its bytes say; '' when all do. Pure."""
    if row.body is None:
        return ""
    try:
        record = record_from(row.body)
        said = {
            "kind": record["kind"],
            "at": datetime.fromisoformat(record["at"]).timestamp(),
            "ticket": record["ticket"],
            "run": plain(record["run"]),
            "actor": plain(record["actor"]["id"]),
        }
    except (LookupError, TypeError, ValueError, AttributeError, msgspec.MsgspecError):
        return f"entry {row.seq} has bytes that are no entry"
    wrong = [name for name, value in said.items() if _column(row, name) != value]
    return f"entry {row.seq} has other bytes than its {', '.join(wrong)} say" if wrong else ""


def _column(row: RawRow, name: str) -> Any:
    value = getattr(row, name)
    return plain(value) if isinstance(value, str) else value
