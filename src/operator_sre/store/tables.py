"""The parts of the schema: which tables and indexes there are, read from its one text."""

from __future__ import annotations

import re

from operator_sre.store.schema import SCHEMA

__all__ = ["INDEXES", "TABLES", "statements_for"]

_TABLE = re.compile(r"CREATE TABLE IF NOT EXISTS (\w+)")
_INDEX = re.compile(r"CREATE (?:UNIQUE )?INDEX IF NOT EXISTS (\w+) ON (\w+)")
_COMMENT = re.compile(r"--[^\n]*")


def _statements() -> list[str]:
    bare = _COMMENT.sub("", SCHEMA)
    return [part.strip() for part in bare.split(";") if part.strip()]


TABLES: tuple[str, ...] = tuple(_TABLE.findall(SCHEMA))
INDEXES: tuple[str, ...] = tuple(name for name, _ in _INDEX.findall(SCHEMA))


def statements_for(*tables: str) -> list[str]:
    """The statements that make these tables and their indexes."""
    found = []
    for statement in _statements():
        table, index = _TABLE.match(statement), _INDEX.match(statement)
        if (table and table[1] in tables) or (index and index[2] in tables):
            found.append(statement)
    return found
