"""`operator audit`: the record of everything that was done."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from operator_protocols.errors import OperatorError, UsageError
from operator_sre.app import audit as ledger
from operator_sre.drawing import plural
from operator_sre.faces.cli.noun import arrange, noun_of
from operator_sre.faces.cli.options import NUMBER_MAX, JsonOption, config_of, open_home
from operator_sre.faces.cli.output import clean, print_json, print_lines
from operator_sre.faces.cli.parser import moment
from operator_sre.faces.cli.progress import progress
from operator_sre.faces.cli.signals import run_until_stopped
from operator_sre.faces.cli.story import follow as follow_entries
from operator_sre.faces.cli.story import show_entries, tell
from operator_sre.operations import audit

__all__ = ["app"]

app = noun_of(audit)
TicketOption = Annotated[
    int | None, typer.Option(min=1, max=NUMBER_MAX, help="Only entries of this ticket.")
]


@app.command("show")
def show_(
    context: typer.Context,
    run: Annotated[str, typer.Argument(help="The run id.")] = "",
    seq: Annotated[
        int | None, typer.Option(min=1, max=NUMBER_MAX, help="Show the entry with this number.")
    ] = None,
    span: Annotated[str, typer.Option(help="Show the entry that a trace span started with.")] = "",
    raw: Annotated[bool, typer.Option("--raw", help="Show every entry with its payload.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show a run's full transcript, or one entry."""
    if bool(run) + bool(span) + (seq is not None) != 1:
        raise UsageError(
            "Name a run, an entry (--seq N) or a span (--span ID).",
            next_step="See: operator audit list",
        )
    with open_home(context) as app:
        if span:
            from operator_sre.app.telemetry import entry_of

            print_json({"entry": entry_of(app, span)})
            return
        if seq is not None:
            print_json({"entry": ledger.show_entry(app, seq)})
            return
        view = ledger.show_run(app, run)
    if as_json:
        print_json({"run": view.run, "entries": view.entries})
        return
    record = view.run
    print_lines(
        [f"Run {record.id} on ticket {record.ticket} by {record.model}: {record.state}", ""]
    )
    if not raw:
        tell(view.entries, summaries=True)
        return
    for entry in view.entries:
        print_lines([f"{entry.seq:6}  {entry.at:%H:%M:%S.%f}  {entry.kind}"])
        body = json.dumps(dict(entry.payload), indent=2, ensure_ascii=True)
        print_lines([f"        {clean(line)}" for line in body.splitlines()])


@app.command("verify")
def verify_(
    context: typer.Context,
    bundle: Annotated[Path | None, typer.Option(help="Verify this bundle instead.")] = None,
    anchors: Annotated[
        Path | None, typer.Option(help="Compare with the anchors in this file.")
    ] = None,
    key: Annotated[str, typer.Option(help="The signer's public key; for a bundle.")] = "",
    record: Annotated[
        bool, typer.Option(help="Record damage found, so that the ledger continues after it.")
    ] = True,
    as_json: JsonOption = False,
) -> None:
    """Verify the chain, checkpoints, signatures and anchors. Exit 1 if anything is damaged."""
    with progress("checked") as tell_count:
        if bundle is not None:
            config_of(context)
            report = ledger.verify_bundle(bundle, key=key, progress=tell_count)
        else:
            with open_home(context) as app:
                report = ledger.verify_ledger(app, progress=tell_count, anchors=anchors)
                if report.damages and record:
                    run_until_stopped(ledger.record_damage(app, report.damages))
    if as_json:
        print_json({"whole": report.whole, "report": report})
    elif report.whole:
        entries = plural(report.entries, "entry", "entries")
        checkpoints = plural(report.checkpoints, "checkpoint")
        print_lines(
            [f"The ledger is intact: {entries}, {checkpoints} signed, head {report.head[:16]}."]
        )
    for damage in () if as_json else report.damages:
        print_lines([f"DAMAGED at entry {damage.seq}: {damage.kind}: {clean(damage.detail)}."])
    raise typer.Exit(0 if report.whole else 1)


@app.command("anchor")
def anchor_(
    context: typer.Context,
    file: Annotated[Path | None, typer.Option(help="Append the head to this file.")] = None,
    url: Annotated[str, typer.Option(help="POST the head to this URL.")] = "",
    as_json: JsonOption = False,
) -> None:
    """Print the signed head of the ledger, to store on another system."""
    with open_home(context) as app:
        line = ledger.anchor_head(app, file=file)
        if url:
            run_until_stopped(ledger.post_anchor(line, url))
    if as_json:
        print_json({"anchor": json.loads(line)})
    else:
        print_lines([line])


@app.command("export")
def export_(
    context: typer.Context,
    file: Annotated[
        Path | None, typer.Argument(help="The file to write; - or nothing is stdout.")
    ] = None,
    style: Annotated[str, typer.Option("--format", help="bundle, jsonl, csv, html.")] = "bundle",
    since: Annotated[
        datetime | None,
        typer.Option(parser=moment, metavar="TIME", help="Only entries from this time on (UTC)."),
    ] = None,
    until: Annotated[
        datetime | None,
        typer.Option(parser=moment, metavar="TIME", help="Only entries before this time (UTC)."),
    ] = None,
    run: Annotated[str, typer.Option(help="Only entries of this run.")] = "",
    ticket: TicketOption = None,
    actor: Annotated[str, typer.Option(help="Only entries of this actor or agent.")] = "",
    kind: Annotated[str, typer.Option(help="Only entries of this kind.")] = "",
    as_json: JsonOption = False,
) -> None:
    """Export entries as a verifiable bundle, or as JSON lines, CSV or HTML."""
    wanted = ledger.Filter(_utc(since), _utc(until), run, ticket, actor, kind)
    shown = file is None or str(file) == "-"
    with open_home(context) as app:
        if style != "bundle":
            count = _write_lines(ledger.export_text(app, style, wanted), None if shown else file)
        elif file is None or shown:
            raise UsageError(
                "A bundle needs a file.", next_step="Name one: operator audit export FILE"
            )
        else:
            count = ledger.export_bundle(app, file, wanted)
    if shown:
        return
    if as_json:
        print_json({"file": str(file), "format": style, "count": count})
    else:
        print_lines([f"{count} written to {file}."])


@app.command("tail")
def tail_(
    context: typer.Context,
    count: Annotated[
        int, typer.Option("--count", "-n", min=0, max=10_000, help="Maximum number of rows.")
    ] = 20,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Keep printing new entries.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Print the newest entries; with --json, one document per line."""
    with open_home(context) as app:
        newest = ledger.tail(app, count=max(count, 1))
        show_entries(newest[-count:] if count else [], as_json=as_json)
        if follow:
            seq = newest[-1].seq if newest else 0
            run_until_stopped(follow_entries(app, seq, as_json=as_json))


arrange(app, "list", "show", "verify", "anchor", "export", "search", "tail")


def _write_lines(lines: Iterable[str], file: Path | None) -> int:
    count = 0
    with contextlib.ExitStack() as stack:
        try:
            out = sys.stdout if file is None else stack.enter_context(file.open("w"))
        except OSError as error:
            raise OperatorError(
                f"{str(file)!r} cannot be written: {error.strerror}.",
                next_step="Name another file.",
            ) from error
        for line in lines:
            out.write(f"{line}\n")
            count += 1
    return count


def _utc(at: datetime | None) -> datetime | None:
    return at.replace(tzinfo=UTC) if at is not None and at.tzinfo is None else at
