"""Asking PostgreSQL: one statement in a transaction that cannot change anything."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from operator_protocols.errors import MissingExtraError
from operator_sre.subjects.declarative.probes.place import (
    Address,
    Blind,
    Place,
    Readings,
    addresses_of,
    checked,
    down,
    first_answer,
)
from operator_sre.subjects.declarative.table import NAME, Table
from operator_sre.subjects.declarative.values import plain

if TYPE_CHECKING:
    import psycopg

__all__ = ["KEYS", "SqlProbe", "read_sql"]

KEYS = ("query", "database", "user", "port")
PORT = 5432
ROWS_MAX = 100
COLUMNS_MAX = 50
# Where it says this the server is well, and only we have no business there.
_SHUT = ("authentication failed", "no password supplied", "pg_hba.conf", "does not exist")
_OWN = {"up", "ok", "error", "latency_ms", "rows", "endpoint"}


@dataclass(frozen=True, slots=True)
class SqlProbe:
    """One query; the columns of its first row are values."""

    query: str = "SELECT 1 AS one"
    database: str = "postgres"
    user: str = ""
    port: int | None = None

    @property
    def fields(self) -> frozenset[str] | None:
        """The columns are known by the answer only."""
        return None

    async def look(self, place: Place) -> Readings:
        """Ask the first server that answers."""
        try:
            import psycopg
        except ImportError as error:
            raise Blind(str(MissingExtraError("postgres", needed_for="An sql probe"))) from error

        async def ask(address: Address) -> Readings:
            try:
                return await self._asked(place, address)
            except psycopg.OperationalError as error:
                if _is_shut(error):
                    raise Blind(f"it does not let us in: {_why(error)}") from error
                raise OSError(_why(error)) from error

        begun = time.perf_counter()
        told_port = place.target.port or place.target.endpoints
        addresses = addresses_of(place.target, self.port or (None if told_port else PORT))
        try:
            found, problem, address = await first_answer(addresses, place.timeout_s, ask)
        except psycopg.Error as error:
            raise Blind(f"its query makes no sense there: {_why(error)}") from error
        if found is None:
            return down(problem)
        took_ms = round((time.perf_counter() - begun) * 1000, 3)
        told: Readings = {"latency_ms": took_ms, "endpoint": f"{address[0]}:{address[1]}"}
        return checked({**found, **told}, "")

    async def _asked(self, place: Place, address: Address) -> Readings:
        import psycopg
        from psycopg.rows import dict_row

        async with await psycopg.AsyncConnection.connect(
            **self._words(place, address), autocommit=True, row_factory=dict_row
        ) as connection:
            await connection.execute("BEGIN TRANSACTION READ ONLY")
            # What is streamed is exactly one statement: none of its parts can end the transaction,
            # and no more of it is read than is wanted.
            rows: list[dict[str, Any]] = []
            async with connection.cursor() as cursor:
                async for row in cursor.stream(self.query.encode()):
                    rows.append(row)
                    if len(rows) == ROWS_MAX:
                        break
        readings: Readings = {"rows": len(rows)}
        first: Mapping[str, Any] = rows[0] if rows else {}
        for name, value in list(first.items())[:COLUMNS_MAX]:
            scalar = plain(float(value) if isinstance(value, Decimal) else value)
            if NAME.fullmatch(name) and name not in _OWN and scalar is not None:
                readings[name] = scalar
        return readings

    def _words(self, place: Place, address: Address) -> dict[str, Any]:
        access = place.access
        limit_ms = max(1, int(place.timeout_s * 1000))
        words: dict[str, Any] = {
            "host": address[0],
            "port": address[1],
            "dbname": self.database,
            "user": self.user or access.user or "postgres",
            "connect_timeout": max(1, round(place.timeout_s)),
            "application_name": "operator",
            "options": f"-c default_transaction_read_only=on -c statement_timeout={limit_ms}",
            "sslmode": "verify-full" if access.tls else "prefer",
            # Nothing of whoever runs this decides who we are.
            "passfile": "/nonexistent",
            "gssencmode": "disable",
        }
        if access.tls:
            words["sslrootcert"] = access.ca_file or "system"
        if access.certificate_file:
            words |= {"sslcert": access.certificate_file, "sslkey": access.key_file}
        if access.password_file:
            words["password"] = place.secret(access.password_file)
        return words


def _is_shut(error: psycopg.Error) -> bool:
    # What is refused while connecting comes without a code, as a text.
    text = str(error).lower()
    return "fatal" in text and any(words in text for words in _SHUT)


def _why(error: psycopg.Error) -> str:
    """What the server says, or what there was instead of one. It never holds a password."""
    if error.diag.message_primary:
        return error.diag.message_primary
    text = str(error).lower()
    if "refused" in text:
        return "connection refused"
    if "timeout" in text:
        return "it does not answer in time"
    first = text.strip().partition("\n")[0]
    return first.rpartition("failed: ")[2] or "it closed the connection"


def read_sql(table: Table) -> SqlProbe:
    """The probe of a description."""
    return SqlProbe(
        query=table.needed("query"),
        database=table.text("database", "postgres"),
        user=table.text("user"),
        port=table.port(),
    )
