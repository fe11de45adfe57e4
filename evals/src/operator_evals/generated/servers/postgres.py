"""PostgreSQL: settings of pg_settings, accounts and grants, promotion."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Sequence
from typing import Any

from operator_evals.generated.servers.server import ASK_S_MAX, Seat, Undo, nothing_to_undo
from operator_evals.generated.surface import AdminCommand, Setting, SettingType
from operator_protocols.errors import MissingExtraError, RigError

__all__ = ["PostgresServer"]

OWNER = "postgres"
_TYPES = {
    "bool": SettingType.BOOL,
    "integer": SettingType.INTEGER,
    "real": SettingType.REAL,
    "enum": SettingType.CHOICE,
    "string": SettingType.TEXT,
}
_SETTINGS = (
    "SELECT name, vartype, coalesce(boot_val, ''), min_val, max_val, enumvals, context"
    " FROM pg_settings WHERE context <> 'internal' ORDER BY name"
)
_ACCOUNTS = "SELECT rolname FROM pg_roles WHERE rolcanlogin AND rolname <> current_user"
# By command: the statement, and the statement that undoes it. `{}` is the account.
_STATEMENTS = {
    "password": ("ALTER ROLE {} PASSWORD {secret}", ""),
    "expire": ("ALTER ROLE {} VALID UNTIL '2000-01-01'", "ALTER ROLE {} VALID UNTIL 'infinity'"),
    "nologin": ("ALTER ROLE {} NOLOGIN", "ALTER ROLE {} LOGIN"),
    "no_connections": ("ALTER ROLE {} CONNECTION LIMIT 0", "ALTER ROLE {} CONNECTION LIMIT -1"),
    "read_only": (
        "ALTER ROLE {} SET default_transaction_read_only = on",
        "ALTER ROLE {} RESET default_transaction_read_only",
    ),
    "short_timeout": (
        "ALTER ROLE {} SET statement_timeout = '1ms'",
        "ALTER ROLE {} RESET statement_timeout",
    ),
    "revoke_tables": (
        "REVOKE ALL ON ALL TABLES IN SCHEMA public FROM {}",
        "GRANT ALL ON ALL TABLES IN SCHEMA public TO {}",
    ),
}
_WHOLE = {
    "revoke_connect": (
        "REVOKE CONNECT ON DATABASE postgres FROM PUBLIC",
        "GRANT CONNECT ON DATABASE postgres TO PUBLIC",
    ),
    "revoke_schema": (
        "REVOKE ALL ON SCHEMA public FROM PUBLIC",
        "GRANT USAGE ON SCHEMA public TO PUBLIC",
    ),
    "database_read_only": (
        "ALTER DATABASE postgres SET default_transaction_read_only = on",
        "ALTER DATABASE postgres RESET default_transaction_read_only",
    ),
    "drop_slots": (
        "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE NOT active",
        "",
    ),
}
_ANYWHERE = {
    "terminate_sessions": (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'",
        "",
    ),
}
_REPLICA = {
    "promote": ("SELECT pg_promote(false)", ""),
    "pause_replay": ("SELECT pg_wal_replay_pause()", "SELECT pg_wal_replay_resume()"),
}


class PostgresServer:
    """One server, asked as its owner at its own port."""

    def __init__(self, seat: Seat) -> None:
        self._seat = seat
        # Read before anything is broken, as the file with it may be.
        self._password = _password(seat)

    async def settings(self) -> Sequence[Setting]:
        """The rows of pg_settings; a value is the built-in default, the same in every rig."""
        async with self._session() as ask:
            rows = await ask(_SETTINGS)
        return [
            Setting(
                name=name,
                type=_TYPES[kind],
                value="" if kind == "string" else value,
                low=None if low is None else float(low),
                high=None if high is None else float(high),
                choices=tuple(choices or ()),
                live=context != "postmaster",
            )
            for name, kind, value, low, high, choices, context in rows
        ]

    async def change(self, name: str, value: str) -> Undo:
        """ALTER SYSTEM and a reload."""
        quoted = value.replace("'", "''")
        async with self._session() as ask:
            await ask(f"ALTER SYSTEM SET {_name(name)} = '{quoted}'")
            await ask("SELECT pg_reload_conf()")

        async def undo() -> None:
            async with self._session() as again:
                await again(f"ALTER SYSTEM RESET {_name(name)}")
                await again("SELECT pg_reload_conf()")

        return undo

    async def commands(self) -> Sequence[AdminCommand]:
        """For each account what can be taken from it; of a replica its role."""
        async with self._session() as ask:
            accounts = [name for (name,) in await ask(_ACCOUNTS)]
            ((standby,),) = await ask("SELECT pg_is_in_recovery()")
        several = {**_ANYWHERE, **(_REPLICA if standby else _WHOLE)}
        found = [AdminCommand(name, "", bool(undo)) for name, (_, undo) in several.items()]
        if not standby:
            found += [
                AdminCommand(name, account, bool(undo))
                for name, (_, undo) in _STATEMENTS.items()
                for account in accounts
            ]
        return found

    async def execute(self, command: str, about: str) -> Undo:
        """One statement."""
        several = {**_STATEMENTS, **_ANYWHERE, **_REPLICA, **_WHOLE}
        do, back = several[command]

        async def run(statement: str) -> None:
            account = _name(about) if about else ""
            secret = f"'{secrets.token_hex(8)}'"
            async with self._session() as ask:
                await ask(statement.replace("{}", account).replace("{secret}", secret))

        async def undo() -> None:
            await run(back)

        await run(do)
        return undo if back else nothing_to_undo

    async def takes_writes(self) -> bool | None:
        """Whether it is not a standby."""
        try:
            async with self._session() as ask:
                ((standby,),) = await ask("SELECT pg_is_in_recovery()")
        except RigError:
            return None
        return not standby

    @contextlib.asynccontextmanager
    async def _session(self) -> AsyncIterator[Any]:
        try:
            import psycopg
        except ImportError:
            raise MissingExtraError("lab", needed_for="Faults of PostgreSQL") from None
        # No file, no environment and no cancelling, which waits for a server that hangs.
        words: dict[str, Any] = {
            "host": "127.0.0.1",
            "port": self._seat.own_port,
            "user": OWNER,
            "password": self._password,
            "dbname": OWNER,
            "sslmode": "disable",
            "connect_timeout": 3,
            "options": (
                f"-c statement_timeout={int(ASK_S_MAX * 1000)} -c default_transaction_read_only=off"
            ),
        }
        opening = psycopg.AsyncConnection.connect(**words, autocommit=True, prepare_threshold=None)
        connection: psycopg.AsyncConnection[Any] | None = None
        try:
            async with _in_time(self._seat.name):
                connection = await opening

            async def ask(statement: str) -> list[Any]:
                assert connection is not None
                async with _in_time(self._seat.name):
                    cursor = await connection.execute(statement.encode())
                    return await cursor.fetchall() if cursor.description else []

            yield ask
        except psycopg.Error as error:
            why = " ".join(str(error).split())[:200]
            raise RigError(f"{self._seat.name} refused: {why}.") from None
        finally:
            if connection is not None:
                # Not `close`, which says goodbye to a server that may be frozen.
                connection.pgconn.finish()


@contextlib.asynccontextmanager
async def _in_time(name: str) -> AsyncIterator[None]:

    try:
        async with asyncio.timeout(ASK_S_MAX):
            yield
    except (TimeoutError, OSError) as error:
        raise RigError(f"{name} did not answer: {type(error).__name__}.") from None


def _name(word: str) -> str:
    quoted = word.replace('"', '""')
    return f'"{quoted}"'


def _password(seat: Seat) -> str:
    for file in sorted(seat.home.glob("*pgpass")):
        for line in file.read_text(encoding="utf-8").splitlines():
            fields = line.split(":")
            if len(fields) == 5 and fields[3] == OWNER:
                return fields[4]
    return ""
