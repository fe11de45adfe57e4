"""A report as one page of HTML that needs nothing else and obeys nobody. Pure."""

from __future__ import annotations

from typing import assert_never

from operator_sre.app.reports.charts import charts_of
from operator_sre.app.reports.contents import blocks_of
from operator_sre.app.reports.document import (
    Block,
    Bullets,
    Charts,
    Code,
    Heading,
    Line,
    Paragraph,
    Span,
    Table,
)
from operator_sre.app.reports.report import Report
from operator_sre.drawing import escaped, page, style_of

__all__ = ["as_html"]

# A cell of so little text stays on one line.
SHORT_CHARACTERS_MAX = 24


def as_html(report: Report) -> str:
    """One self-contained page: no script, nothing fetched, everything from outside escaped."""
    title = f"Incident {report.ticket}: {report.title}"
    body = "\n".join(_rendered(one, report) for one in blocks_of(report))
    return page(title, body, style=style_of(), kind=report.state)


def _rendered(one: Block, report: Report) -> str:
    match one:
        case Heading(level, line):
            return f"<h{level}>{_inline(line)}</h{level}>"
        case Paragraph(line):
            return f"<p>{_inline(line)}</p>"
        case Bullets(items, boxes):
            kind = ' class="boxes"' if boxes else ""
            return f"<ul{kind}>{''.join(f'<li>{_inline(item)}</li>' for item in items)}</ul>"
        case Code(text):
            return f"<pre>{escaped(text, lines=True)}</pre>"
        case Table():
            return _table(one)
        case Charts():
            return charts_of(report)
        case _:
            assert_never(one)


def _table(table: Table) -> str:
    head = "".join(f"<th>{escaped(one)}</th>" for one in table.head)
    rows = [f"<tr>{''.join(map(_cell, row))}</tr>" for row in table.rows]
    kind = "" if table.head else ' class="facts"'
    above = f"<thead><tr>{head}</tr></thead>" if table.head else ""
    inner = f"<table{kind}>{above}<tbody>{''.join(rows)}</tbody></table>"
    return f'<div class="wide">{inner}</div>'


def _cell(line: Line) -> str:
    short = sum(len(one.text) for one in line) <= SHORT_CHARACTERS_MAX
    kind = ' class="short"' if short else ""
    return f"<td{kind}>{_inline(line)}</td>"


def _inline(line: Line) -> str:
    return "".join(map(_span, line))


def _span(span: Span) -> str:
    text = escaped(span.text)
    match span.style:
        case "code":
            return f"<code>{text}</code>"
        case "strong":
            return f"<strong>{text}</strong>"
        case _:
            return text
