"""Tools that mend what is inside of a server: its settings, indexes, dead rows, and its log."""

from __future__ import annotations

import asyncio
import gzip
import os
import re
import shutil
from pathlib import Path

from operator_protocols.domain.category import FailureCategory
from operator_protocols.domain.observation import Value
from operator_protocols.domain.target import Target
from operator_sre.subjects.postgres.calls import FILE_ERRORS, Call, RefusedCall
from operator_sre.subjects.postgres.login import home_of
from operator_sre.subjects.postgres.session import Session, driver

__all__ = ["create_index", "disable_setting", "rotate_log", "vacuum_table"]

SYSTEM_FILE = "postgresql.auto.conf"
CONFIG_BYTES_MAX = 1 << 20
COPY_BYTES = 1 << 20
LOCK_MS_MAX = 5_000
WHY_CHARACTERS_MAX = 200
DISTINCT_MIN = 0.5  # of its rows: from there on a column tells them apart

# The line that makes no sense, as the server itself reads its files.
_WRONG_LINE = """
SELECT jsonb_build_object('file', regexp_replace(sourcefile, '.*/', ''), 'line', sourceline)
FROM pg_file_settings WHERE error IS NOT NULL AND lower(name) = lower(%s)
    AND lower(name) NOT IN (SELECT lower(name) FROM pg_settings WHERE pending_restart)
ORDER BY seqno DESC LIMIT 1
"""
_TABLE = """
SELECT jsonb_build_object('oid', relid::bigint, 'name', format('%%I.%%I', schemaname, relname))
FROM pg_stat_user_tables WHERE schemaname || '.' || relname = %s
"""
# Columns that no index begins with, and by how many values each tells rows apart.
_COLUMNS = """
SELECT jsonb_object_agg(a.attname, coalesce(
    CASE WHEN s.n_distinct < 0 THEN -s.n_distinct
        ELSE s.n_distinct / greatest(c.reltuples, 1) END, 0))
FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n
    ON n.oid = c.relnamespace LEFT JOIN pg_stats s
    ON s.schemaname = n.nspname AND s.tablename = c.relname AND s.attname = a.attname
WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped AND NOT EXISTS (
    SELECT FROM pg_index i WHERE i.indrelid = a.attrelid AND i.indkey[0] = a.attnum
        AND i.indisvalid AND i.indpred IS NULL)
"""
_UNFINISHED = """
SELECT string_agg(indexrelid::regclass::text, ', ') FROM pg_index
WHERE indrelid = %s AND NOT indisvalid
"""
_SWITCHED_OFF = """
SELECT 'autovacuum_enabled=false' = ANY (coalesce(reloptions, '{}')) OR
    'autovacuum_enabled=off' = ANY (coalesce(reloptions, '{}')) FROM pg_class WHERE oid = %s
"""

_NOT_OURS = FailureCategory.PERMISSION
Told = tuple[str, dict[str, Value]]


async def disable_setting(call: Call, session: Session) -> Told:
    """The line becomes a comment where its file is within reach, or is reset by ALTER SYSTEM."""
    name = call.text("name")
    found = await session.ask(_WRONG_LINE, (name,))
    if not found:
        why = f"No line of {name!r} in the files of {call.target.name} makes no sense."
        raise RefusedCall(why, FailureCategory.NOT_FOUND)
    where = str(found["file"])
    if where == SYSTEM_FILE:
        await session.do(f"ALTER SYSTEM RESET {_quoted(name)}")
    else:
        await asyncio.to_thread(_comment, call.target, where, int(found["line"]), name)
    left = await session.ask(FILE_ERRORS)
    if left:
        raise RefusedCall(
            f"{name} is taken out of {where}, and its files have more errors:"
            f" {str(left)[:WHY_CHARACTERS_MAX]}."
        )
    await session.ask("SELECT pg_reload_conf()")
    said = (
        f"The line {found['line']} of {where} with {name} is taken out, and the files are loaded."
    )
    return said, {"file": where, "line": int(found["line"])}


def _comment(target: Target, name: str, line: int, setting: str) -> None:
    """Put a mark before one line of a file; whose file it is does not change."""
    home = home_of(target, name)
    if home is None or target.runs_at or "/" in name:
        raise RefusedCall(
            f"{name} of {target.name} is not within reach; correct its line {line} by hand.",
            FailureCategory.PERMISSION,
        )
    file: Path = home / name
    if file.stat().st_size > CONFIG_BYTES_MAX:
        raise RefusedCall(f"{name} of {target.name} is too long to be a file of settings.")
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    pattern = re.compile(rf"\s*{re.escape(setting)}\s*[=\s]", re.IGNORECASE)
    if not 0 < line <= len(lines) or pattern.match(lines[line - 1]) is None:
        raise RefusedCall(f"Line {line} of {name} is not what {target.name} has read there.")
    lines[line - 1] = f"# {lines[line - 1]}"
    file.write_text("".join(lines), encoding="utf-8")


async def create_index(call: Call, session: Session) -> Told:
    """Concurrently, so that nobody waits for it; what is left of one that failed is removed."""
    await _must_be_primary(call, session)
    oid, table = await _table(call, session)
    columns = await session.ask(_COLUMNS, (oid,)) or {}
    column = call.text("column") or _only(table, columns)
    if column not in columns:
        why = f"{table} has no column {column!r} that no index begins with."
        raise RefusedCall(why, FailureCategory.NOT_FOUND)
    await session.do(f"SET lock_timeout = {LOCK_MS_MAX}")
    try:
        await session.do(f"CREATE INDEX CONCURRENTLY ON {table} ({_quoted(column)})")
    except driver().Error:
        if unfinished := await session.ask(_UNFINISHED, (oid,)):
            await session.do(f"DROP INDEX CONCURRENTLY {unfinished}")
        raise
    return f"{table} has an index on {column}.", {"table": table, "column": column}


def _only(table: str, columns: dict[str, float]) -> str:
    telling = sorted(name for name, share in columns.items() if share >= DISTINCT_MIN)
    if len(telling) == 1:
        return telling[0]
    named = ", ".join(telling) or "none"
    raise RefusedCall(
        f"Which column of {table} is asked for cannot be told from here: those that tell rows"
        f" apart and have no index are {named}. Name the column."
    )


async def vacuum_table(call: Call, session: Session) -> Told:
    """Autovacuum is switched on again where it was off, and what is dead is removed now."""
    await _must_be_primary(call, session)
    oid, table = await _table(call, session)
    off = bool(await session.ask(_SWITCHED_OFF, (oid,)))
    await session.do(f"SET lock_timeout = {LOCK_MS_MAX}")
    if off:
        await session.do(f"ALTER TABLE {table} RESET (autovacuum_enabled)")
    await session.do(f"VACUUM (ANALYZE) {table}")
    before = ", and autovacuum was off for it and is not any more" if off else ""
    return f"{table} is vacuumed{before}.", {"table": table, "was_off": off}


async def rotate_log(call: Call, session: Session) -> Told:
    """A copy first, and only then less of it; a log on another machine is not ours to cut."""
    target = call.target
    if not target.log or target.runs_at:
        raise RefusedCall(f"The log of {target.name} is not on this machine.", _NOT_OURS)
    before, copy = await asyncio.to_thread(_rotate, Path(target.log))
    said = f"The log of {target.name} begins anew; its {before >> 20} MB are kept in {copy}."
    return said, {"before_bytes": before, "copy": copy}


def _rotate(log: Path) -> tuple[int, str]:
    copy = log.with_name(f"{log.name}.1.gz")
    with log.open("rb") as whole, gzip.open(copy, "wb", compresslevel=1) as kept:
        shutil.copyfileobj(whole, kept, COPY_BYTES)
        before = whole.tell()
    shutil.copymode(log, copy)
    # Whoever writes to it has it open, so that it has to stay the same file.
    os.truncate(log, 0)
    return before, copy.name


async def _must_be_primary(call: Call, session: Session) -> None:
    if await session.ask("SELECT pg_is_in_recovery()"):
        raise RefusedCall(f"{call.target.name} is a replica; do it at its primary.")


async def _table(call: Call, session: Session) -> tuple[int, str]:
    """The number of a table, and its name as it is written in a statement."""
    found = await session.ask(_TABLE, (call.text("table"),))
    if not found:
        why = f"{call.target.name} has no table {call.text('table')!r}."
        raise RefusedCall(why, FailureCategory.NOT_FOUND)
    return int(found["oid"]), str(found["name"])


def _quoted(name: str) -> str:
    escaped = name.replace('"', '""')
    return f'"{escaped}"'
