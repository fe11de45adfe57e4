"""A report as Markdown, as one page of HTML that needs nothing else, and as a file."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import assert_never

from operator_protocols.errors import UsageError
from operator_sre.app.reports.contents import (
    Bullets,
    Charts,
    Code,
    Heading,
    Line,
    Paragraph,
    Table,
    blocks_of,
)
from operator_sre.app.reports.report import Report, time_of_day
from operator_sre.drawing import (
    Chart,
    Mark,
    Point,
    Tick,
    charts,
    escape_text,
    page,
    span,
    style_of,
    visible,
)
from operator_sre.drawing.html import Html, heading, paragraph

__all__ = [
    "as_html",
    "as_markdown",
    "block",
    "cell",
    "charts_of",
    "code",
    "marks_of",
    "prose",
    "table",
    "write_report",
]

# What begins something in the middle of a line: emphasis, code, links, HTML, entities, cells.
_INSIDE = re.compile(r"[\\`*_\[\]<>|~&$]")
# What begins something at the start of a line: headings, lists, quotes, rules, tables.
_STARTS = re.compile(r"^(?:[#+=:-]|\d{1,9}(?=[.)](?:\s|$)))")
# Text that a renderer would turn into a link.
_LINKS = re.compile(r"(?i)(?<=[a-z])(:)(?=//)|(?<=www)(\.)|(?<=mailto)(:)|(?<=xmpp)(:)")
_BLANKS = re.compile(r"\s+")
_RUNS = re.compile("`+")
FENCE_MIN = 3
MARKS_MAX = 12
LEGEND = {"detected": "ticket opened", "action": "something was done", "proven": "proven"}
# A cell of so little text stays on one line.
SHORT_CHARACTERS_MAX = 24
# A report is as private as the home that it describes.
PRIVATE = 0o600


def prose(text: str) -> str:
    """One line of plain text."""
    # A number at the start is a list by the sign behind it; all else by itself.
    return _STARTS.sub(
        lambda start: f"{start[0]}\\" if start[0].isdigit() else f"\\{start[0]}",
        cell(text).lstrip(),
    )


def cell(text: str) -> str:
    """Plain text where no line starts, such as in a table."""
    line = visible(_BLANKS.sub(" ", text))
    line = _INSIDE.sub(lambda sign: f"\\{sign[0]}", line)
    return _LINKS.sub(lambda sign: f"\\{sign[0]}", line)


def code(text: str, *, in_cell: bool = False) -> str:
    """One line of code; in a cell of a table a bar would end it."""
    line = visible(text.replace("\r\n", "\n")).replace("\t", " ").strip()
    if not line:
        return "-"
    line = line.replace("|", "\\|") if in_cell else line
    ticks = "`" * (max(map(len, _RUNS.findall(line)), default=0) + 1)
    padded = f" {line} " if line[0] == "`" or line[-1] == "`" else line
    return f"{ticks}{padded}{ticks}"


def block(text: str) -> Sequence[str]:
    """Lines of code, whatever they contain."""
    lines = visible(text, lines=True).split("\n")
    fence = "`" * max(FENCE_MIN, max(map(len, _RUNS.findall(text)), default=0) + 1)
    return [f"{fence}text", *lines, fence]


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Sequence[str]:
    """A table of cells that are Markdown already."""
    lines = [head, ["---"] * len(head), *rows]
    return [f"| {' | '.join(line)} |" for line in lines]


def as_markdown(report: Report) -> str:
    """The whole report; text from outside is nothing but text in it."""
    lines: list[str] = []
    for part in blocks_of(report):
        match part:
            case Heading(level, line):
                # Behind its signs no other line starts, and signs at its end would be lost.
                text = _markdown_line(line, in_cell=True).replace("#", "\\#")
                lines += [f"{'#' * level} {text}", ""]
            case Paragraph(line):
                lines += [_markdown_line(line), ""]
            case Bullets(items, boxes):
                sign = "- [ ] " if boxes else "- "
                lines += [*(f"{sign}{_markdown_line(item)}" for item in items), ""]
            case Code(text):
                lines += [*block(text), ""]
            case Table(head, rows):
                cells = [[_markdown_line(line, in_cell=True) for line in row] for row in rows]
                lines += [*table(head or ("",) * len(rows[0]), cells), ""] if rows else []
            case Charts():
                pass
            case _:
                assert_never(part)
    return "\n".join(lines).rstrip("\n") + "\n"


def _markdown_line(line: Line, *, in_cell: bool = False) -> str:
    """A line of spans; plain ones beside each other are one text, so that none hides from us."""
    parts: list[str] = []
    for style, spans in groupby(line, key=lambda span: span.style):
        texts = [span.text for span in spans]
        if style == "code":
            parts += [code(text, in_cell=in_cell) for text in texts]
        elif style == "strong":
            parts += [f"**{cell(text)}**" for text in texts]
        else:
            starts = not parts and not in_cell
            parts.append(prose("".join(texts)) if starts else cell("".join(texts)))
    return "".join(parts).strip() or "-"


def marks_of(report: Report) -> tuple[Mark, ...]:
    """When it was detected, what was done when, and when it was proven."""
    moments = [(report.clock.detected_at, "detected", "ticket opened")]
    acted = [deed for deed in report.done if deed.outcome not in ("", "refused")]
    moments += [(deed.at, "action", deed.command) for deed in acted]
    if report.proof is not None:
        moments.append((report.proof.at, "proven", "proven"))
    began_at = report.clock.began_at
    return tuple(
        Mark((at - began_at).total_seconds(), kind, text) for at, kind, text in moments[:MARKS_MAX]
    )


def charts_of(report: Report) -> str:
    """One picture below the other, all over the same time; empty when nothing was seen."""
    clock, marks = report.clock, marks_of(report)

    def seconds(at: datetime) -> float:
        return (at - clock.began_at).total_seconds()

    pictures = [
        Chart(
            f"{series.target}: {series.reading}",
            tuple(Point(seconds(point.at), point.value, point.problem) for point in series.points),
        )
        for series in report.series
    ]
    seen_s = [point.at_s for chart in pictures for point in (chart.points[0], chart.points[-1])]
    if not seen_s:
        return ""
    ends = [0.0, *seen_s, *(mark.at_s for mark in marks)]
    since_s, until_s = min(ends), max(ends) + 0.001
    over_at = clock.over_at or clock.ended_at
    first, last = (clock.began_at + timedelta(seconds=end) for end in (since_s, until_s))
    return charts(
        pictures,
        marks,
        spans=(since_s, until_s),
        broken=(0.0, until_s if over_at is None else seconds(over_at)),
        tick=Tick(
            time_of_day(first, clock.began_at),
            f"{time_of_day(last, clock.began_at)} UTC, {span(until_s - since_s)}",
        ),
        legend=LEGEND,
    )


def as_html(report: Report) -> str:
    """One self-contained page: no script, nothing fetched, everything from outside escaped."""
    parts: list[str] = []
    for part in blocks_of(report):
        match part:
            case Heading(level, line):
                parts.append(heading(level, _html_line(line)))
            case Paragraph(line):
                parts.append(paragraph(_html_line(line)))
            case Bullets(items, boxes):
                kind = ' class="boxes"' if boxes else ""
                points = "".join(f"<li>{_html_line(item)}</li>" for item in items)
                parts.append(f"<ul{kind}>{points}</ul>")
            case Code(text):
                parts.append(f"<pre>{escape_text(text, lines=True)}</pre>")
            case Table(head, rows):
                body = []
                for row in rows:
                    body.append("<tr>")
                    for line in row:
                        is_short = sum(len(span.text) for span in line) <= SHORT_CHARACTERS_MAX
                        kind = ' class="short"' if is_short else ""
                        body.append(f"<td{kind}>{_html_line(line)}</td>")
                    body.append("</tr>")
                names = "".join(f"<th>{escape_text(name)}</th>" for name in head)
                kind = "" if head else ' class="facts"'
                above = f"<thead><tr>{names}</tr></thead>" if head else ""
                inside = f"<table{kind}>{above}<tbody>{''.join(body)}</tbody></table>"
                parts.append(f'<div class="wide">{inside}</div>')
            case Charts():
                parts.append(charts_of(report))
            case _:
                assert_never(part)
    title = f"Incident {report.ticket}: {report.headline}"
    return page(title, "\n".join(parts), style=style_of(), kind=report.state)


def _html_line(line: Line) -> Html:
    styles = {"code": "<code>{}</code>", "strong": "<strong>{}</strong>"}
    return Html(
        "".join(styles.get(span.style, "{}").format(escape_text(span.text)) for span in line)
    )


def write_report(file: Path, text: str) -> None:
    """Write it, in the place of what was there. UsageError when that cannot be done."""
    try:
        # A link leads to what is replaced; what is no ordinary file, such as a device, stays.
        place = Path(os.path.realpath(file))
        if place.exists() and not place.is_file():
            raise OSError(0, "it is not a regular file")
        draft = place.with_name(f".{place.name}.{os.getpid()}")
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE)
        try:
            with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as stream:
                stream.write(text)
                stream.flush()
                os.fsync(stream.fileno())
            draft.replace(place)
        except OSError:
            draft.unlink(missing_ok=True)
            raise
    except (OSError, ValueError) as error:
        raise UsageError(
            f"The report cannot be written to {str(file)!r}:"
            f" {getattr(error, 'strerror', None) or error}.",
            next_step="Name another file with --output FILE.",
        ) from None
