"""PostgreSQL as its clients use it: a canary that is written and read, and errors in its log."""

from __future__ import annotations

import re

from operator_protocols.domain.observation import Value
from operator_protocols.errors import ConfigError
from operator_protocols.kit.client import (
    ALL_CHECKED,
    CLIENT_VIEW,
    READS_CHECKED,
    LogErrors,
)
from operator_sre.subjects.postgres.session import APPLICATION, Session, driver

__all__ = ["explained_kinds", "log_errors", "table_of", "write_canary"]

WHY_CHARACTERS_MAX = 160
_TABLE = re.compile(r"[a-z_][a-z0-9_]{0,62}(\.[a-z_][a-z0-9_]{0,62})?")
# The words of an English server. The first pattern that fits a line counts.
_KINDS = {
    "login": r"FATAL:  (?:no pg_hba\.conf entry|\w+ authentication failed|(?:role|database) )",
    "read_only": r"ERROR:  cannot execute [\w ]{1,60} in a read-only transaction",
    "refused": r"FATAL:  (?:sorry, too many clients|remaining connection slots|too many conn)",
    "no_space": r"(?:ERROR|FATAL|PANIC):  could not .{1,200}No space left on device",
    "timeout": r"(?:canceling statement|terminating connection) due to [\w -]{1,40} ?timeout",
    "aborted": r"ERROR:  deadlock detected|ERROR:  could not serialize|due to conflict with recov",
    "permission": r"ERROR:  permission denied",
}


def table_of(canary: object) -> str:
    """The table in the option `canary`, "" for none; ConfigError for what is not a plain name."""
    if canary in ("", None):
        return ""
    if not isinstance(canary, str) or _TABLE.fullmatch(canary) is None:
        raise ConfigError(
            "The option 'canary' must be the name of a table, such as 'operator_canary'."
        )
    return canary


async def write_canary(session: Session, table: str) -> dict[str, Value]:
    """Count one up in the table as a client would, and read it back.

    It runs last in a session, because afterwards the session may write.
    """
    if not table:
        return {CLIENT_VIEW: READS_CHECKED}
    errors = driver().errors
    error = ""
    try:
        # The default of the server and of our role, as any client has it.
        await session.do("RESET default_transaction_read_only")
        written = await session.ask(
            f"INSERT INTO {table} AS own (id, beat) VALUES (1, 1)"  # noqa: S608  a plain name
            " ON CONFLICT (id) DO UPDATE SET beat = own.beat + 1 RETURNING beat"
        )
        read = await session.ask(f"SELECT beat FROM {table} WHERE id = 1")  # noqa: S608
        if not isinstance(written, int) or not isinstance(read, int) or read < written:
            error = "the written value cannot be read"
    except (errors.InsufficientPrivilege, errors.UndefinedTable, errors.UndefinedColumn) as why:
        return {CLIENT_VIEW: READS_CHECKED, "blind_canary": f"cannot be written: {_line(why)}"}
    except TimeoutError:
        error = "it did not answer in time"
    except driver().Error as why:
        error = _line(why)
    return {CLIENT_VIEW: ALL_CHECKED, "write_error": error}


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:WHY_CHARACTERS_MAX]


def log_errors(users: tuple[str, ...]) -> LogErrors:
    """Counts errors of clients in logs, without those of our own sessions and roles."""
    names = "|".join(re.escape(user) for user in users if user)
    ours = rf'\] {APPLICATION} |user "(?:{names})"|role "(?:{names})"'
    return LogErrors({kind: re.compile(words) for kind, words in _KINDS.items()}, re.compile(ours))


def explained_kinds(readings: dict[str, Value]) -> list[str]:
    """The kinds of errors that another break of the same server explains."""
    explained = {
        "timeout": ("locks_block", "transaction_idles", "transaction_lasts", "replay_blocked"),
        "aborted": ("replay_blocked",),
        "refused": ("exhausted", "connections_hoarded"),
        "no_space": ("disk_short",),
        "read_only": ("read_only_default",),
    }
    return [
        kind
        for kind, symptoms in explained.items()
        if any(readings.get(symptom) is True for symptom in symptoms)
    ]
