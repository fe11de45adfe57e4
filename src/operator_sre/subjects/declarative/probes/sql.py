"""Asking PostgreSQL: one statement in a transaction that cannot change anything."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, cast

from operator_protocols.errors import MissingExtraError
from operator_protocols.kit.access import Address
from operator_sre.subjects.declarative.document import NAME, Table
from operator_sre.subjects.declarative.probes.place import Blind, Place, observe_first, places_of
from operator_sre.subjects.declarative.values import Readings, plain

if TYPE_CHECKING:
    import psycopg

__all__ = ["KEYS", "ROWS_MAX", "SqlProbe", "read_columns", "read_sql"]

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

    async def observe(self, place: Place) -> Readings:
        """Ask the first server that answers."""
        try:
            import psycopg
        except ImportError as error:
            raise Blind(str(MissingExtraError("postgres", needed_for="An sql probe"))) from error

        async def ask(address: Address) -> Readings:
            try:
                return await self._query(place, address)
            except psycopg.OperationalError as error:
                # What is refused while connecting comes without a code, as a text.
                text = str(error).lower()
                if "fatal" in text and any(words in text for words in _SHUT):
                    raise Blind(f"login rejected: {_why(error)}") from error
                raise OSError(_why(error)) from error

        addresses = places_of(place.target, self.port, usual=PORT)
        try:
            return await observe_first(place, addresses, ask)
        except psycopg.Error as error:
            raise Blind(f"the query is not valid there: {_why(error)}") from error

    async def _query(self, place: Place, address: Address) -> Readings:
        import psycopg
        from psycopg.rows import dict_row

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
            # Nothing in the environment of this process decides who we are.
            "passfile": "/nonexistent",
            "gssencmode": "disable",
        }
        if access.tls:
            words["sslrootcert"] = access.ca_file or "system"
        if access.certificate_file:
            words |= {"sslcert": access.certificate_file, "sslkey": access.key_file}
        if access.password_file:
            words["password"] = place.secret(access.password_file)
        connection = await psycopg.AsyncConnection.connect(
            **words, autocommit=True, row_factory=dict_row
        )
        # As a context it would roll back first, and stay open when it is cancelled meanwhile.
        try:
            await connection.execute("BEGIN TRANSACTION READ ONLY")
            # What is streamed is exactly one statement: none of its parts can end the transaction,
            # and no more of it is read than is wanted.
            rows: list[dict[str, Any]] = []
            stream = connection.cursor().stream(self.query.encode())
            async with aclosing(cast("AsyncGenerator[dict[str, Any]]", stream)):
                async for row in stream:
                    rows.append(row)
                    if len(rows) == ROWS_MAX:
                        break
        finally:
            await connection.close()
        first: Mapping[str, Any] = rows[0] if rows else {}
        return {"rows": len(rows), **read_columns(first.items())}


def read_columns(pairs: Iterable[tuple[str, Any]]) -> Readings:
    """The columns of a row that are values, by their names."""
    readings: Readings = {}
    for name, value in list(pairs)[:COLUMNS_MAX]:
        scalar = plain(float(value) if isinstance(value, Decimal) else value)
        if NAME.fullmatch(name) and name not in _OWN and scalar is not None:
            readings[name] = scalar
    return readings


def _why(error: psycopg.Error) -> str:
    """The error of the server, or what happened instead. It never holds a password."""
    if error.diag.message_primary:
        return error.diag.message_primary
    text = str(error).lower()
    if "refused" in text:
        return "connection refused"
    if "timeout" in text:
        return "it did not answer in time"
    first = text.strip().partition("\n")[0]
    return first.rpartition("failed: ")[2] or "it closed the connection"


def read_sql(table: Table) -> SqlProbe:
    """Parse the probe of a description."""
    return SqlProbe(
        query=table.require_text("query"),
        database=table.text("database", "postgres"),
        user=table.text("user"),
        port=table.port(),
    )
