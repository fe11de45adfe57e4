"""Tools that act on a server through its own functions: never on a process of the machine."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from operator_protocols.domain.category import FailureCategory
from operator_protocols.domain.target import Target
from operator_protocols.kit.knowledge import read_knowledge
from operator_protocols.kit.tool import (
    Act,
    Call,
    Done,
    RefusedCall,
    TypedTool,
    find_target,
    rotate_log_of,
)
from operator_protocols.ports import SubjectSettings, Tool
from operator_sre.subjects.postgres.rights import MONITOR, quote_role, right_for_tool
from operator_sre.subjects.postgres.session import (
    Refusal,
    RefusedError,
    Session,
    driver,
    home_of,
    login_of,
    open_session,
)

__all__ = [
    "FILE_ERRORS",
    "KNOWLEDGE",
    "ServerCall",
    "create_index",
    "disable_setting",
    "postgres_tools",
    "vacuum_table",
]

KNOWLEDGE = read_knowledge(Path(__file__).parent)
ACT_S_MAX = 45.0
ENDED_MS_MAX = 5_000
PROMOTED_S_MAX = 30
SESSIONS_MAX = 500
WHY_CHARACTERS_MAX = 200
SYSTEM_FILE = "postgresql.auto.conf"
CONFIG_BYTES_MAX = 1 << 20
LOCK_MS_MAX = 5_000
MAINTAIN_SINCE = 170000  # from there on a role may vacuum without owning the table
DISTINCT_MIN = 0.5  # of its rows: from there on a column tells them apart

FILE_ERRORS = """
SELECT string_agg(file || ' line ' || line || ': ' || error, '; ') FROM (
    SELECT regexp_replace(sourcefile, '.*/', '') AS file, sourceline AS line, error
    FROM pg_file_settings WHERE error IS NOT NULL
        AND coalesce(name, '') NOT IN (SELECT name FROM pg_settings WHERE pending_restart)
    UNION ALL
    SELECT 'pg_hba.conf', line_number, error FROM pg_hba_file_rules WHERE error IS NOT NULL
    LIMIT 5) wrong
"""
_SESSION = """
SELECT jsonb_build_object('application', application_name, 'state', state)
FROM pg_stat_activity
WHERE pid = %s AND backend_type = 'client backend' AND pid <> pg_backend_pid()
"""
_SEES_ALL = "SELECT pg_has_role(current_user, 'pg_read_all_stats', 'USAGE')"
# The statement that terminates a session checks again that it belongs to a client.
_END = """
SELECT pg_terminate_backend(pid, %s) FROM pg_stat_activity
WHERE pid = %s AND backend_type = 'client backend' AND pid <> pg_backend_pid()
"""
_CANCEL = """
SELECT pg_cancel_backend(pid) FROM pg_stat_activity
WHERE pid = %s AND backend_type = 'client backend' AND state = 'active'
"""
_END_IDLE = """
SELECT count(*) FILTER (WHERE pg_terminate_backend(pid, %s)) FROM (
    SELECT pid FROM pg_stat_activity
    WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND state = 'idle'
        AND application_name = %s AND state_change < clock_timestamp() - %s * interval '1 second'
    ORDER BY state_change LIMIT %s) idle
"""
_SLOT = "SELECT jsonb_build_object('active', active) FROM pg_replication_slots WHERE slot_name = %s"
_USED_SLOT = "SELECT current_setting('primary_slot_name')"
_RECEIVES = "SELECT count(*) FROM pg_stat_wal_receiver WHERE status = 'streaming'"
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
# To a role without this right VACUUM is no error: the server skips the table.
_OWNERSHIP = """
SELECT jsonb_build_object('owner', pg_get_userbyid(c.relowner), 'schema', n.nspname,
    'owns', pg_has_role(current_user, c.relowner, 'USAGE'),
    'creates', has_schema_privilege(n.oid, 'CREATE'))
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = %s
"""
_MAINTAINS = "SELECT has_table_privilege(%s::oid, 'MAINTAIN')"
_UNFINISHED = """
SELECT string_agg(indexrelid::regclass::text, ', ') FROM pg_index
WHERE indrelid = %s AND NOT indisvalid
"""
_SWITCHED_OFF = """
SELECT 'autovacuum_enabled=false' = ANY (coalesce(reloptions, '{}')) OR
    'autovacuum_enabled=off' = ANY (coalesce(reloptions, '{}')) FROM pg_class WHERE oid = %s
"""


@dataclass(frozen=True, slots=True)
class ServerCall(Call):
    """A call about one server."""

    settings: SubjectSettings
    target: Target

    @property
    def pid(self) -> int:
        """The session that is meant."""
        return self.integer("pid")

    def others(self) -> list[Target]:
        """Every other server of the subject."""
        every = self.settings.targets()
        return [
            server
            for server in every
            if server.kind == "server" and server.name != self.target.name
        ]

    async def ask_other(self, other: Target, sql: str) -> object:
        """What another server answers; RefusedError when it cannot be asked."""
        timeout_s = self.settings.timeout_s
        login = login_of(self.settings, other)
        try:
            async with open_session(other, login, timeout_s=timeout_s) as session:
                return await session.ask(sql)
        except TimeoutError:
            raise RefusedError(Refusal.GONE, "it did not answer in time") from None


def postgres_tools(settings: SubjectSettings) -> Sequence[Tool]:
    """All tools of one subject."""

    def bind(act: Callable[[ServerCall, Session], Awaitable[Done]]) -> Act:
        async def run(call: Call) -> Done:
            target = find_target(settings.targets(), call.text("target"), "server")
            timeout_s = min(call.job.timeout_s, ACT_S_MAX)
            job = replace(call.job, timeout_s=timeout_s)
            try:
                login = login_of(settings, target, acting=True)
                opening = open_session(target, login, timeout_s=timeout_s, read_only=False)
                async with opening as session:
                    return await act(ServerCall(call.arguments, job, settings, target), session)
            except RefusedError as refused:
                why = f"{target.name} cannot be queried: {refused.sentence}."
                raise RefusedCall(why, FailureCategory.NETWORK) from None
            except TimeoutError:
                why = f"{target.name} did not answer in time."
                raise RefusedCall(why, FailureCategory.TIMEOUT) from None
            except driver().Error as error:
                errors = driver().errors
                category = FailureCategory.RUNTIME
                if isinstance(error, errors.InsufficientPrivilege):
                    category = FailureCategory.PERMISSION
                elif isinstance(error, errors.QueryCanceled):
                    category = FailureCategory.TIMEOUT
                words = " ".join(str(error).split())[:WHY_CHARACTERS_MAX]
                words = words or "The connection was lost."
                # Only a superuser may end the session of a superuser: no grant helps there.
                if category is FailureCategory.PERMISSION and "SUPERUSER" not in words.upper():
                    step = right_for_tool(act.__name__, login.user)
                    words = f"{words.rstrip('.')}. {step}".strip()
                raise RefusedCall(words, category) from None

        return run

    acts = (
        *(terminate_backend, cancel_query, terminate_idle, drop_slot, reload, resume_replay),
        *(promote, disable_setting, create_index, vacuum_table, rotate_log),
    )
    return tuple(
        TypedTool(KNOWLEDGE.tools[act.__name__], bind(act), ends_itself=True) for act in acts
    )


async def _find_session(call: ServerCall, session: Session) -> Mapping[str, object]:
    found = await session.ask(_SESSION, (call.pid,))
    if not isinstance(found, Mapping):
        if not await session.ask(_SEES_ALL):
            grant = MONITOR.format(role=quote_role(session.connection.info.user))
            raise RefusedCall(
                f"{call.target.name} does not show this role the sessions of others."
                f" Grant the missing right as a superuser: {grant}",
                FailureCategory.PERMISSION,
            )
        raise RefusedCall(
            f"{call.pid} is not a session of a client on {call.target.name}; nothing was done.",
            FailureCategory.NOT_FOUND,
        )
    return found


async def terminate_backend(call: ServerCall, session: Session) -> Done:
    found = await _find_session(call, session)
    if not await session.ask(_END, (ENDED_MS_MAX, call.pid)):
        raise RefusedCall(f"The session {call.pid} was terminated, but has not ended yet.")
    application = found.get("application") or "a client"
    sentence = f"The session {call.pid} of {application} on {call.target.name} was terminated."
    return Done(sentence, {"pid": call.pid, "application": str(application)})


async def cancel_query(call: ServerCall, session: Session) -> Done:
    found = await _find_session(call, session)
    if found.get("state") != "active":
        raise RefusedCall(f"The session {call.pid} runs no statement: it is {found.get('state')}.")
    if not await session.ask(_CANCEL, (call.pid,)):
        raise RefusedCall(f"The session {call.pid} runs no statement any more.")
    return Done(f"The statement of session {call.pid} was cancelled.", {"pid": call.pid})


async def terminate_idle(call: ServerCall, session: Session) -> Done:
    application, idle_s = call.text("application"), call.arguments["idle_s"]
    ended = await session.ask(_END_IDLE, (ENDED_MS_MAX, application, idle_s, SESSIONS_MAX))
    if not ended:
        why = f"No session of {application!r} has been idle for {idle_s} s."
        raise RefusedCall(why, FailureCategory.NOT_FOUND)
    return Done(f"{ended} idle sessions of {application} were terminated.", {"ended": int(ended)})


async def drop_slot(call: ServerCall, session: Session) -> Done:
    name = call.text("name")
    found = await session.ask(_SLOT, (name,))
    if not isinstance(found, Mapping):
        why = f"{call.target.name} has no slot {name!r}."
        raise RefusedCall(why, FailureCategory.NOT_FOUND)
    if found.get("active"):
        raise RefusedCall(f"The slot {name!r} is in use, so it is not dropped.")
    for other in call.others():
        try:
            needed = await call.ask_other(other, _USED_SLOT) == name
        except (RefusedError, driver().Error):
            # Who cannot be asked has the slot of its own name.
            needed = other.name.replace("-", "_") == name
        if needed:
            raise RefusedCall(f"The slot {name!r} belongs to {other.name}, so it is not dropped.")
    await session.ask("SELECT pg_drop_replication_slot(%s)", (name,))
    return Done(f"The slot {name} of {call.target.name} was dropped.", {"slot": name})


async def reload(call: ServerCall, session: Session) -> Done:
    errors = await session.ask(FILE_ERRORS)
    if errors:
        raise RefusedCall(
            f"The configuration files of {call.target.name} contain errors: "
            f"{str(errors)[:WHY_CHARACTERS_MAX]}."
        )
    if not await session.ask("SELECT pg_reload_conf()"):
        raise RefusedCall(f"{call.target.name} could not reload its configuration files.")
    return Done(f"{call.target.name} has reloaded its configuration files.")


async def resume_replay(call: ServerCall, session: Session) -> Done:
    if not await session.ask("SELECT pg_is_in_recovery()"):
        raise RefusedCall(f"{call.target.name} is not a replica.")
    if not await session.ask("SELECT pg_is_wal_replay_paused()"):
        raise RefusedCall(f"Replay of {call.target.name} is not paused.")
    await session.do("SELECT pg_wal_replay_resume()")
    return Done(f"{call.target.name} replays again.")


async def promote(call: ServerCall, session: Session) -> Done:
    name = call.target.name
    if not await session.ask("SELECT pg_is_in_recovery()"):
        raise RefusedCall(f"{name} is already a primary.")
    if await session.ask(_RECEIVES):
        raise RefusedCall(f"{name} still receives WAL from a primary, so there is one.")
    for other in call.others():
        try:
            in_recovery = await call.ask_other(other, "SELECT pg_is_in_recovery()")
        except RefusedError as refused:
            if refused.kind is Refusal.GONE:
                continue
            raise RefusedCall(
                f"{other.name} answers, but its role is unknown ({refused.sentence}), so it may be"
                " the primary."
            ) from None
        if not in_recovery:
            raise RefusedCall(f"{other.name} is the primary and answers.")
    if not await session.ask("SELECT pg_promote(true, %s)", (PROMOTED_S_MAX,)):
        raise RefusedCall(f"{name} is not a primary after {PROMOTED_S_MAX} s.")
    return Done(f"{name} is the primary now.", {"role": "primary"})


async def disable_setting(call: ServerCall, session: Session) -> Done:
    """The line becomes a comment where its file is within reach, or is reset by ALTER SYSTEM."""
    name, target = call.text("name"), call.target
    found = await session.ask(_WRONG_LINE, (name,))
    if not found:
        why = f"The files of {target.name} contain no invalid line of {name!r}."
        raise RefusedCall(why, FailureCategory.NOT_FOUND)
    where, line = str(found["file"]), int(found["line"])

    def comment_out() -> None:
        home = home_of(target, where)
        if home is None or target.runs_at or "/" in where:
            raise RefusedCall(
                f"{where} of {target.name} is not accessible; fix its line {line} by hand.",
                FailureCategory.PERMISSION,
            )
        file = home / where
        if file.stat().st_size > CONFIG_BYTES_MAX:
            raise RefusedCall(f"{where} of {target.name} is too long for a configuration file.")
        lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
        pattern = re.compile(rf"\s*{re.escape(name)}\s*[=\s]", re.IGNORECASE)
        if not 0 < line <= len(lines) or pattern.match(lines[line - 1]) is None:
            raise RefusedCall(f"Line {line} of {where} is not what {target.name} has read there.")
        lines[line - 1] = f"# {lines[line - 1]}"
        # Whose file it is does not change.
        file.write_text("".join(lines), encoding="utf-8")

    if where == SYSTEM_FILE:
        await session.do(f"ALTER SYSTEM RESET {_quote(name)}")
    else:
        await asyncio.to_thread(comment_out)
    left = await session.ask(FILE_ERRORS)
    if left:
        raise RefusedCall(
            f"{name} was disabled in {where}, but the files contain more errors:"
            f" {str(left)[:WHY_CHARACTERS_MAX]}."
        )
    await session.ask("SELECT pg_reload_conf()")
    sentence = f"Line {line} of {where} ({name}) was disabled, and the files were reloaded."
    return Done(sentence, {"file": where, "line": line})


async def create_index(call: ServerCall, session: Session) -> Done:
    """Concurrently, so that no session waits for it; the remains of a failed build are removed."""
    oid, table = await _find_table(call, session)
    await _must_own(session, oid, table, creates=True)
    columns: Mapping[str, float] = await session.ask(_COLUMNS, (oid,)) or {}
    column = call.text("column")
    if not column:
        telling = sorted(name for name, share in columns.items() if share >= DISTINCT_MIN)
        if len(telling) != 1:
            raise RefusedCall(
                f"The column of {table} that needs an index is not known. Candidates without an"
                f" index: {', '.join(telling) or 'none'}."
                " Name the column."
            )
        column = telling[0]
    if column not in columns:
        why = f"{table} has no column {column!r} that no index begins with."
        raise RefusedCall(why, FailureCategory.NOT_FOUND)
    await session.do(f"SET lock_timeout = {LOCK_MS_MAX}")
    try:
        await session.do(f"CREATE INDEX CONCURRENTLY ON {table} ({_quote(column)})")
    except driver().Error:
        if unfinished := await session.ask(_UNFINISHED, (oid,)):
            await session.do(f"DROP INDEX CONCURRENTLY {unfinished}")
        raise
    return Done(f"{table} has an index on {column}.", {"table": table, "column": column})


async def vacuum_table(call: ServerCall, session: Session) -> Done:
    """Autovacuum is switched on again where it was off, and what is dead is removed now."""
    oid, table = await _find_table(call, session)
    off = bool(await session.ask(_SWITCHED_OFF, (oid,)))
    newer = session.connection.info.server_version >= MAINTAIN_SINCE
    if off or not (newer and await session.ask(_MAINTAINS, (oid,))):
        await _must_own(session, oid, table)
    await session.do(f"SET lock_timeout = {LOCK_MS_MAX}")
    if off:
        await session.do(f"ALTER TABLE {table} RESET (autovacuum_enabled)")
    await session.do(f"VACUUM (ANALYZE) {table}")
    before = ", and autovacuum is enabled for it again" if off else ""
    return Done(f"{table} was vacuumed{before}.", {"table": table, "was_off": off})


async def rotate_log(call: ServerCall, session: Session) -> Done:
    """A copy first, and only then less of it; a log on another machine is not ours to cut."""
    return await rotate_log_of(call.target)


async def _find_table(call: ServerCall, session: Session) -> tuple[int, str]:
    """The number of a table at a primary, and its name as it is written in a statement."""
    if await session.ask("SELECT pg_is_in_recovery()"):
        raise RefusedCall(f"{call.target.name} is a replica; use its primary.")
    found = await session.ask(_TABLE, (call.text("table"),))
    if not found:
        why = f"{call.target.name} has no table {call.text('table')!r}."
        raise RefusedCall(why, FailureCategory.NOT_FOUND)
    return int(found["oid"]), str(found["name"])


async def _must_own(session: Session, oid: int, table: str, *, creates: bool = False) -> None:
    """RefusedCall with the missing grants unless the role may change the table."""
    found: Mapping[str, object] = await session.ask(_OWNERSHIP, (oid,)) or {}
    role, grants = quote_role(session.connection.info.user), []
    if not found.get("owns"):
        grants.append(f"GRANT {quote_role(str(found.get('owner')))} TO {role}")
    if creates and not found.get("creates"):
        grants.append(f"GRANT CREATE ON SCHEMA {quote_role(str(found.get('schema')))} TO {role}")
    if grants:
        raise RefusedCall(
            f"Only its owner may change {table}."
            f" Grant the missing right as a superuser: {'; '.join(grants)}",
            FailureCategory.PERMISSION,
        )


def _quote(name: str) -> str:
    escaped = name.replace('"', '""')
    return f'"{escaped}"'
