"""The parts of a schema: its tables, columns and indexes, read from its one text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from operator_sre.store.schema import SCHEMA, SCHEMA_VERSION

__all__ = ["LAYOUT", "RELEASED", "Layout", "layout_of"]

# Every version that was ever released, so that its stores can be copied before they are migrated.
# With a new version, the text of the one before it moves here.
RELEASED: Mapping[int, str] = {SCHEMA_VERSION: SCHEMA}

_TABLE = re.compile(r"CREATE TABLE IF NOT EXISTS (\w+)")
_INDEX = re.compile(r"CREATE (?:UNIQUE )?INDEX IF NOT EXISTS (\w+) ON (\w+)")
_COLUMN = re.compile(r"^\s*([a-z]\w*) ", re.MULTILINE)
_KEY = re.compile(r"PRIMARY KEY \(([^)]*)\)|(\w+) +\S+ PRIMARY KEY|(\w+) +\{serial\}")
_COMMENT = re.compile(r"--[^\n]*")


class Layout:
    """What the text of a schema makes."""

    def __init__(self, schema: str) -> None:
        parts = [part.strip() for part in _COMMENT.sub("", schema).split(";")]
        self.schema = schema
        self._tables = {match[1]: one for one in parts if (match := _TABLE.match(one))}
        self._indexes = [(match, one) for one in parts if (match := _INDEX.match(one))]
        self.tables = tuple(self._tables)
        self.indexes = tuple(match[1] for match, _ in self._indexes)

    def columns(self, table: str) -> tuple[str, ...]:
        """The names of its columns, in order."""
        return tuple(_COLUMN.findall(self._tables[table]))

    def key(self, table: str) -> tuple[str, ...]:
        """The columns that tell one row from another; all of them where no key is declared."""
        match = _KEY.search(self._tables[table])
        if match is None:
            return self.columns(table)
        return tuple(name.strip() for name in (match[1] or match[2] or match[3]).split(","))

    def select(self, table: str) -> str:
        """A query for all of its rows."""
        return f"SELECT {', '.join(self.columns(table))} FROM {table}"  # noqa: S608

    def insert(self, table: str) -> str:
        """The statement that inserts a whole row."""
        names = self.columns(table)
        marks = ", ".join("?" * len(names))
        return f"INSERT INTO {table} ({', '.join(names)}) VALUES ({marks})"  # noqa: S608

    def statements(self, *tables: str) -> list[str]:
        """The statements that make these tables and their indexes."""
        indexes = [statement for match, statement in self._indexes if match[2] in tables]
        return [self._tables[table] for table in tables] + indexes


@cache
def layout_of(version: int) -> Layout:
    """The layout of a released version."""
    return Layout(RELEASED[version])


LAYOUT = layout_of(SCHEMA_VERSION)
