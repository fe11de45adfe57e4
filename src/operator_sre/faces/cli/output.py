"""Printing: JSON documents with their version, tables, and text from outside made harmless."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from contextvars import ContextVar

from operator_sre.codec import to_json
from operator_sre.contract import SCHEMA_VERSION
from operator_sre.faces.terminal_text import clean

__all__ = [
    "SCHEMA_VERSION",
    "clean",
    "hush",
    "is_quiet",
    "json_text",
    "print_facts",
    "print_json",
    "print_lines",
    "print_list",
    "print_table",
]

# Control characters that JSON allows, and that a terminal would obey.
_OBEYED = re.compile("[\x7f-\x9f\u2028\u2029]")
_QUIET: ContextVar[bool] = ContextVar("quiet", default=False)


def hush(*, quiet: bool) -> None:
    """From here on print only errors, or everything again."""
    _QUIET.set(quiet)


def is_quiet() -> bool:
    """True when only errors are printed: the exit code is the answer."""
    return _QUIET.get()


def print_json(document: Mapping[str, object], *, line: bool = False) -> None:
    """One JSON document on stdout; on a single line where lines are promised."""
    _write([json_text(document, line=line)])


def json_text(document: Mapping[str, object], *, line: bool = False) -> str:
    """The same document as text, such as for a file."""
    body = {"schema_version": SCHEMA_VERSION, **to_json(dict(document))}
    indent = None if line else 2
    text = json.dumps(body, indent=indent, ensure_ascii=False)
    return _OBEYED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def print_lines(lines: Sequence[str]) -> None:
    """Lines for people on stdout, as they are; none with --quiet."""
    if not is_quiet():
        _write(lines)


def _write(lines: Sequence[str]) -> None:
    for line in lines:
        sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def print_facts(facts: Sequence[tuple[str, str]]) -> None:
    """A name and a text on each line; the lines of a text that has several stand below it.

    Only what a tool expects has several, such as a difference: a command shows what it hides.
    """
    for name, text in facts:
        lines = text.split("\n") if name == "expects" else [text]
        print_lines(
            [f"{name:9} {clean(lines[0])}", *(f"{'':9} {clean(line)}" for line in lines[1:])]
        )


def print_table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A table with columns as wide as needed; the last one runs on."""
    cells = [[clean(str(cell)) for cell in row] for row in rows]
    widths = [max(len(row[index]) for row in [list(head), *cells]) for index in range(len(head))]
    for row in [[word.upper() for word in head], *cells]:
        padded = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        print_lines(["  ".join(padded).rstrip()])


def print_list(
    name: str,
    found: Sequence[object],
    head: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    none: str,
    as_json: bool,
) -> None:
    """Print rows as a JSON document under a name, as a table, or as a sentence when empty."""
    if as_json:
        print_json({name: found})
    elif found:
        print_table(head, rows)
    else:
        print_lines([none])
