"""An application of the rig, started as `python -m operator_sre.subjects.postgres.client`.

It asks the primary something every second, and beside that does the jobs that `work.json` in its
directory has, each once: it opens the sessions of a job, runs their statements, and keeps them open
until the job is taken out again. A session that someone terminates is not opened again.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import re
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from operator_protocols.domain.observation import Value
from operator_protocols.errors import ConfigError
from operator_protocols.kit.client import ALL_CHECKED, CLIENT_VIEW, READS_CHECKED, LogErrors
from operator_protocols.kit.machine import replace_text
from operator_sre.subjects.postgres.session import APPLICATION, PASSWORDS_FILE, Session, driver

__all__ = [
    "STATE_FILE",
    "WORK_FILE",
    "Client",
    "explained_kinds",
    "log_errors",
    "main",
    "table_of",
    "write_canary",
]

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


WORK_FILE = "work.json"
STATE_FILE = "state.json"
NAME, USER = "billing", "shop"
LOOK_S, WORK_S = 0.1, 1.0
CONNECT_S = 5
REQUEST_BYTES_MAX = 4096
HEALTHY = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"


class Client:
    """Sessions on the servers of one rig."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._servers: Mapping[str, str] = json.loads(
            (directory / "servers.json").read_text(encoding="utf-8")
        )
        # The jobs of its time before a restart are not its work any more.
        self._jobs: dict[str, list[asyncio.Task[None]]] = {name: [] for name in self._work()}

    async def run(self) -> None:
        """Until cancelled."""
        self._tell()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._query_steadily())
            group.create_task(self._follow_work())

    async def _query_steadily(self) -> None:
        while True:
            with contextlib.suppress(driver().Error, OSError):
                async with await self._connect("primary") as connection:
                    while True:
                        await connection.execute("SELECT sum(balance) FROM accounts WHERE id < 100")
                        await asyncio.sleep(WORK_S)
            await asyncio.sleep(WORK_S)

    async def _follow_work(self) -> None:
        while True:
            work = self._work()
            for name in [known for known in self._jobs if known not in work]:
                tasks = self._jobs.pop(name)
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                self._tell()
            for name in [given for given in work if given not in self._jobs]:
                self._jobs[name] = []
                for session in work[name]:  # one after the other
                    ready = asyncio.Event()
                    hold = self._hold(session["server"], session.get("statements", ()), ready)
                    self._jobs[name].append(asyncio.create_task(hold))
                    await ready.wait()
                self._tell()
            await asyncio.sleep(LOOK_S)

    async def _hold(self, server: str, statements: list[str], ready: asyncio.Event) -> None:
        """One session: the last statement may take as long as it likes."""
        try:
            async with await self._connect(server) as connection:
                for statement in statements[:-1]:
                    await connection.execute(statement.encode())
                ready.set()
                for statement in statements[-1:]:
                    await connection.execute(statement.encode())
                await asyncio.Event().wait()
        except (driver().Error, OSError) as error:
            sys.stderr.write(f"{NAME}: {' '.join(str(error).split())}\n")
        finally:
            ready.set()

    async def _connect(self, server: str) -> Any:
        return await driver().AsyncConnection.connect(
            host="127.0.0.1",
            port=int(self._servers[server]),
            user=USER,
            dbname="postgres",
            passfile=str(self._directory / PASSWORDS_FILE),
            application_name=NAME,
            sslmode="disable",
            connect_timeout=CONNECT_S,
            autocommit=True,
            prepare_threshold=None,
        )

    def _work(self) -> dict[str, Any]:
        try:
            found = json.loads((self._directory / WORK_FILE).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def _tell(self) -> None:
        replace_text(self._directory / STATE_FILE, json.dumps(sorted(self._jobs)))


async def _serve(directory: Path, port: int) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer any request with a sign of life."""
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(CONNECT_S):
                await reader.read(REQUEST_BYTES_MAX)
            writer.write(HEALTHY)
            await writer.drain()
        writer.close()

    task = asyncio.current_task()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, lambda: task.cancel() if task is not None else False)
    (directory / STATE_FILE).unlink(missing_ok=True)
    client = Client(directory)
    async with await asyncio.start_server(answer, "127.0.0.1", port):
        await client.run()


def main() -> int:
    """Work until it is ended."""
    parser = argparse.ArgumentParser(prog=NAME, description=__doc__)
    parser.add_argument("--directory", type=Path, required=True)
    parser.add_argument("--port", type=int, required=True)
    given = parser.parse_args()
    with contextlib.suppress(asyncio.CancelledError):
        asyncio.run(_serve(given.directory, given.port))
    return 0


if __name__ == "__main__":
    sys.exit(main())
