"""`operator telemetry`: traces for a collector."""

from __future__ import annotations

from typing import Annotated

import typer

from operator_sre.drawing import plural
from operator_sre.faces.cli.options import JsonOption, open_home
from operator_sre.faces.cli.output import clean, print_json, print_lines, print_table
from operator_sre.faces.cli.progress import waiting

__all__ = ["app"]

app = typer.Typer(help="Send traces to a collector.", no_args_is_help=True)


@app.command()
def status(context: typer.Context, as_json: JsonOption = False) -> None:
    """Show where traces go and how many spans were sent and dropped."""
    from operator_sre.app.telemetry import telemetry_status

    with open_home(context) as home:
        found = telemetry_status(home)
    if as_json:
        print_json({"telemetry": found})
        return
    print_lines(
        [
            clean(
                f"Traces go to {found.endpoint}."
                if found.endpoint
                else "Traces are off: otlp_endpoint is not set."
            )
        ]
    )
    counts = f"{plural(found.sent, 'span')} sent, {found.dropped} dropped"
    counts += f"; {plural(found.behind, 'entry', 'entries')} not processed yet."
    print_lines([counts, *([clean(f"Not sent now: {found.problem}.")] if found.problem else [])])


@app.command("test")
def try_(context: typer.Context, as_json: JsonOption = False) -> None:
    """Send one span to the collector. Exit 1 if it fails."""
    from operator_sre.app.telemetry import try_collector

    with open_home(context) as home, waiting("asking the collector"):
        trace = try_collector(home)
    if as_json:
        print_json({"trace": trace})
    else:
        print_lines([f"The collector accepted a span; search for the trace {trace}."])


@app.command()
def show(
    context: typer.Context,
    run: Annotated[str, typer.Argument(help="The run id; see: operator audit list.")],
    as_json: JsonOption = False,
) -> None:
    """Show the spans of a run, as they are or would be sent."""
    from operator_sre.app.telemetry import run_spans

    with open_home(context) as home:
        spans = run_spans(home, run)
    if as_json:
        print_json({"spans": spans})
        return
    rows = [
        (
            span.id,
            f"{span.started_at:%H:%M:%S.%f}"[:-3],
            f"{(span.ended_at - span.started_at).total_seconds():.3f} s",
            span.error or "-",
            f"{'  ' if span.parent else ''}{span.name}",
        )
        for span in sorted(spans, key=lambda span: (span.started_at, bool(span.parent), span.seq))
    ]
    if spans:
        print_lines([f"trace {spans[0].trace}"])
    print_table(("span", "started", "took", "error", "name"), rows)
