"""A report as Markdown, to be pasted where people write post-mortems. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import assert_never

from operator_sre.app.reports.contents import blocks_of
from operator_sre.app.reports.document import (
    Block,
    Bullets,
    Charts,
    Code,
    Heading,
    Line,
    Paragraph,
    Table,
)
from operator_sre.app.reports.marking import block, cell, code, prose, table
from operator_sre.app.reports.report import Report

__all__ = ["as_markdown"]


def as_markdown(report: Report) -> str:
    """The whole report; text from outside is nothing but text in it."""
    lines = [line for one in blocks_of(report) for line in _lines(one)]
    return "\n".join(lines).rstrip("\n") + "\n"


def _lines(one: Block) -> Sequence[str]:
    match one:
        case Heading(level, line):
            # Behind its signs no other line starts, and signs at its end would be lost.
            text = _inline(line, in_cell=True).replace("#", "\\#")
            return [f"{'#' * level} {text}", ""]
        case Paragraph(line):
            return [_inline(line), ""]
        case Bullets(items, boxes):
            return [*(f"- {'[ ] ' if boxes else ''}{_inline(item)}" for item in items), ""]
        case Code(text):
            return [*block(text), ""]
        case Table(head, rows):
            cells = [[_inline(line, in_cell=True) for line in row] for row in rows]
            return [*table(head or ("",) * len(rows[0]), cells), ""] if rows else []
        case Charts():
            return []
        case _:
            assert_never(one)


def _inline(line: Line, *, in_cell: bool = False) -> str:
    """A line of spans; plain ones beside each other are one text, so that none hides from us."""
    told: list[str] = []
    for style, spans in groupby(line, key=lambda one: one.style):
        texts = [one.text for one in spans]
        if style == "code":
            told += [code(one, in_cell=in_cell) for one in texts]
        elif style == "strong":
            told += [f"**{cell(one)}**" for one in texts]
        else:
            starts = not told and not in_cell
            told.append(prose("".join(texts)) if starts else cell("".join(texts)))
    return "".join(told).strip() or "-"
