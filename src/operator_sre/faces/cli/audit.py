"""`operator audit`: the record of everything that was done."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from operator_sre.faces.cli.options import JsonOption, opened
from operator_sre.faces.cli.output import clean, print_json, print_lines, print_table
from operator_sre.faces.cli.telling import tell

__all__ = ["app"]

app = typer.Typer(help="The record of everything that was done.", no_args_is_help=True)


@app.command("list")
def list_(
    context: typer.Context,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="How many.")] = 50,
    as_json: JsonOption = False,
) -> None:
    """Runs, newest first, with their outcome."""
    from operator_sre.app.audit import list_runs

    with opened(context) as app:
        runs = list_runs(app, limit=limit)
    if as_json:
        print_json({"runs": runs})
    elif not runs:
        print_lines(["No runs yet."])
    else:
        rows = [
            (
                one.id,
                one.ticket,
                one.model,
                one.state,
                f"{one.started_at:%m-%d %H:%M:%S}",
                one.summary,
            )
            for one in runs
        ]
        print_table(("run", "ticket", "model", "state", "started", "summary"), rows)


@app.command()
def show(
    context: typer.Context,
    run: Annotated[str, typer.Argument(help="A run's id.")] = "",
    seq: Annotated[int | None, typer.Option(help="One entry by its number.")] = None,
    as_json: JsonOption = False,
) -> None:
    """One run as it went, or one entry."""
    from operator_protocols.errors import UsageError
    from operator_sre.app.audit import show_entry, show_run

    if bool(run) == (seq is not None):
        raise UsageError("Name a run or an entry (--seq N).", next_step="See: operator audit list")
    with opened(context) as app:
        if seq is not None:
            print_json({"entry": show_entry(app, seq)})
            return
        view = show_run(app, run)
    if as_json:
        print_json({"run": view.run, "entries": view.entries})
        return
    record = view.run
    print_lines(
        [f"Run {record.id} on ticket {record.ticket} by {record.model}: {record.state}", ""]
    )
    tell(view.entries)


@app.command()
def verify(context: typer.Context, as_json: JsonOption = False) -> None:
    """Check the whole chain; exit 1 names the first damaged entry."""
    from operator_sre.app.audit import verify_ledger

    def progress(seq: int) -> None:
        if sys.stderr.isatty():
            sys.stderr.write(f"\r{seq} entries checked")

    with opened(context) as app:
        report = verify_ledger(app, progress=progress)
    if sys.stderr.isatty():
        sys.stderr.write("\r\x1b[K")
    if as_json:
        print_json({"whole": report.whole, "report": report})
    elif report.whole:
        print_lines([f"The ledger is whole: {report.entries} entries, head {report.head[:16]}."])
    for damage in () if as_json else report.damages:
        print_lines([f"DAMAGED at entry {damage.seq}: {damage.kind}: {clean(damage.detail)}."])
    raise typer.Exit(0 if report.whole else 1)
