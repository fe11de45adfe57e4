"""`operator report`: one incident as a post-mortem."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, assert_never

import typer

from operator_sre.faces.cli.options import NUMBER_MAX, JsonOption, open_home
from operator_sre.faces.cli.output import clean, json_text, print_json, print_lines

if TYPE_CHECKING:
    from operator_sre.app.reports import Report

__all__ = ["report"]


class Format(StrEnum):
    """What a report is written as."""

    MARKDOWN = "markdown"
    HTML = "html"
    JSON = "json"


def report(
    context: typer.Context,
    number: Annotated[int, typer.Argument(min=1, max=NUMBER_MAX, help="The ticket number.")],
    format_: Annotated[
        Format, typer.Option("--format", help="The output format.")
    ] = Format.MARKDOWN,
    output: Annotated[
        Path | None, typer.Option("--output", help="Write to this file, replacing it.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write a post-mortem report of one incident.

    The report has a summary, impact, timeline, cause with evidence, alternatives, actions with
    their approvals, proof and follow-ups. HTML is one self-contained page with charts. The incident
    may still be open.
    """
    from operator_sre.app.reports import report_of, write_report

    with open_home(context) as app:
        found = report_of(app, number)
    if output is not None:
        write_report(output, _text(found, format_))
    if as_json or (format_ is Format.JSON and output is None):
        print_json({"report": found})
    elif output is not None:
        print_lines([clean(f"The report of ticket {found.ticket} is in {output}.")])
    else:
        print_lines(_text(found, format_).splitlines())


def _text(found: Report, wanted: Format) -> str:
    from operator_sre.app.reports import as_html, as_markdown

    match wanted:
        case Format.HTML:
            return as_html(found)
        case Format.JSON:
            return f"{json_text({'report': found})}\n"
        case Format.MARKDOWN:
            return as_markdown(found)
        case _:
            assert_never(wanted)
