"""Asking MySQL or MariaDB: one query in a transaction that cannot change anything."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from operator_protocols.errors import MissingExtraError
from operator_protocols.kit.access import Address
from operator_sre.subjects.declarative.document import Table
from operator_sre.subjects.declarative.probes.place import Blind, Place, observe_first, places_of
from operator_sre.subjects.declarative.probes.sql import ROWS_MAX, read_columns
from operator_sre.subjects.declarative.values import Readings

if TYPE_CHECKING:
    import pymysql

__all__ = ["KEYS", "MySqlProbe", "read_mysql"]

KEYS = ("query", "database", "user", "port")
PORT = 3306
# A transaction that is read-only forbids changes of tables, and nothing else: SET GLOBAL, KILL and
# files are forbidden here. A comment with `!` is run by the server.
_READS = re.compile(r"\s*(select|show|with)\b", re.IGNORECASE)
_WRITES = re.compile(r"/\*!|/\*m!|\binto\s+(outfile|dumpfile|@)|\bload_file\b", re.IGNORECASE)
# Access denied, unknown database, host not allowed, no such grant: the server itself is well.
_SHUT = frozenset({1044, 1045, 1049, 1130, 1142, 1143, 1227, 1698})
# What says that the connection was refused, lost or silent; everything else is about the query.
_GONE = frozenset({1040, 1053, 1129, 2002, 2003, 2006, 2013, 2055})
# Our own account has all the connections that it may have.
_USED_UP = frozenset({1203, 1226})


@dataclass(frozen=True, slots=True)
class MySqlProbe:
    """One query; the columns of its first row are values, and the rows of SHOW by their name."""

    query: str = "SELECT 1 AS one"
    database: str = ""
    user: str = ""
    port: int | None = None

    @property
    def fields(self) -> frozenset[str] | None:
        """The columns are known by the answer only."""
        return None

    async def observe(self, place: Place) -> Readings:
        """Ask the first server that answers."""
        try:
            import pymysql
        except ImportError as error:
            raise Blind(str(MissingExtraError("mysql", needed_for="A mysql probe"))) from error

        async def ask(address: Address) -> Readings:
            try:
                return await asyncio.to_thread(self._query, place, address)
            except pymysql.MySQLError as error:
                code = error.args[0] if error.args and isinstance(error.args[0], int) else 0
                if code in _SHUT:
                    raise Blind(f"login rejected: {_why(error)}") from error
                if code in _USED_UP:
                    raise Blind(f"our account has no connection left: {_why(error)}") from error
                if code in _GONE:
                    raise OSError(_why(error)) from error
                raise Blind(f"the query is not valid there: {_why(error)}") from error

        addresses = places_of(place.target, self.port, usual=PORT)
        return await observe_first(place, addresses, ask)

    def _query(self, place: Place, address: Address) -> Readings:
        import pymysql
        from pymysql.cursors import SSDictCursor

        access = place.access
        connection = pymysql.connect(
            # Only the name that its certificate must have: the connection is our own.
            host=access.server_name or address[0],
            port=address[1],
            user=self.user or access.user or "operator",
            password=place.secret(access.password_file) if access.password_file else "",
            database=self.database or None,
            read_timeout=place.timeout_s,
            write_timeout=place.timeout_s,
            program_name="operator",
            cursorclass=SSDictCursor,
            ssl=place.trust,
            ssl_disabled=not access.tls,
            defer_connect=True,
        )
        connection.connect(socket.create_connection(address, place.timeout_s))
        # It says goodbye, so that the server logs no aborted connection.
        with connection, connection.cursor() as cursor:
            limit_s = max(1, int(place.timeout_s))
            if "mariadb" in str(connection.get_server_info()).lower():
                cursor.execute(f"SET SESSION max_statement_time={limit_s}")
            else:
                cursor.execute(f"SET SESSION max_execution_time={limit_s * 1000}")
            cursor.execute("START TRANSACTION READ ONLY")
            cursor.execute(self.query)
            rows = cursor.fetchmany(ROWS_MAX)
        first: Mapping[str, Any] = rows[0] if rows else {}
        pairs = list(first.items())
        if set(first) == {"Variable_name", "Value"}:
            pairs = [(row["Variable_name"], _number(row["Value"])) for row in rows]
        columns = read_columns((name.lower(), value) for name, value in pairs)
        return {"rows": len(rows), **columns}


def _number(text: object) -> object:
    try:
        return float(str(text))
    except ValueError:
        return text


def _why(error: pymysql.MySQLError) -> str:
    """The error of the server, or what happened instead. It never holds a password."""
    text = str(error.args[1] if len(error.args) > 1 else error)
    lowered = text.lower()
    if "refused" in lowered:
        return "connection refused"
    if "timed out" in lowered:
        return "it did not answer in time"
    return text.partition("\n")[0]


def read_mysql(table: Table) -> MySqlProbe:
    """Parse the probe of a description."""
    query = table.require_text("query")
    if not _READS.match(query) or _WRITES.search(query):
        raise table.wrong("'query' must be one SELECT, SHOW or WITH that writes no file.", "query")
    return MySqlProbe(
        query=query,
        database=table.text("database"),
        user=table.text("user"),
        port=table.port(),
    )
