"""`operator store`: the database as a whole."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from operator_sre.faces.cli.options import JsonOption, config_of
from operator_sre.faces.cli.output import clean, print_json, print_lines

if TYPE_CHECKING:
    from operator_sre.app.wiring import Difference, PurgePlan

__all__ = ["app"]

UNCONFIRMED = 4
app = typer.Typer(help="The database as a whole.", no_args_is_help=True)
ForceOption = Annotated[bool, typer.Option("--force", help="Replace what is there.")]


@app.command()
def check(context: typer.Context, as_json: JsonOption = False) -> None:
    """Look everything through; exit 1 names what is wrong. The chain: operator audit verify."""
    from operator_sre.app.store import check_store

    with _progress("checked") as progress:
        report = check_store(config_of(context), progress=progress)
    if as_json:
        print_json({"sound": report.sound, "report": report})
    elif report.sound:
        print_lines([f"The store is sound: {report.entries} entries, {report.purged} purged."])
    else:
        print_lines([f"WRONG: {clean(problem)}." for problem in report.problems])
        print_lines(_told(report.differences))
    if report.differences and not as_json:
        print_lines(["Make them anew with: operator store rebuild"])
    raise typer.Exit(0 if report.sound else 1)


@app.command()
def rebuild(context: typer.Context, as_json: JsonOption = False) -> None:
    """Make everything anew that follows from the ledger, and say what was different."""
    from operator_sre.app.store import rebuild_store

    with _progress("followed") as progress:
        differences = rebuild_store(config_of(context), progress=progress)
    if as_json:
        print_json({"differences": differences})
    else:
        print_lines(_told(differences) or ["Everything follows from the ledger; no difference."])


@app.command()
def backup(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="The file to write.")],
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write the whole store to one file, and read it back."""
    from operator_sre.app.store import backup_store

    with _progress("saved") as progress:
        done = backup_store(config_of(context), file, force=force, progress=progress)
    if as_json:
        saved = {"file": str(done.path), "entries": done.entries, "head": done.head}
        print_json({"backup": saved | {"size_bytes": done.size_bytes}})
        return
    where = clean(str(done.path))
    print_lines(
        [
            f"Saved {done.entries} entries, {_size(done.size_bytes)}, head {done.head[:16]}"
            f" to {where}.",
            "The keys are not in it: keep ledger.key and vault.key of the home as well.",
        ]
    )


@app.command()
def restore(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="A backup.")],
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Fill an empty store from a backup; --force saves what is there and replaces it."""
    from operator_sre.app.store import restore_store

    with _progress("restored") as progress:
        done = restore_store(config_of(context), file, force=force, progress=progress)
    saved = str(done.saved) if done.saved else None
    if as_json:
        print_json({"restored": {"entries": done.entries, "head": done.head, "saved": saved}})
        return
    print_lines([f"Restored {done.entries} entries, head {done.head[:16]}."])
    if saved:
        print_lines([f"What was there is in {clean(saved)}."])


@app.command()
def migrate(context: typer.Context, as_json: JsonOption = False) -> None:
    """Bring the tables up to this program; a backup is made first."""
    from operator_sre.app.store import migrate_store

    done = migrate_store(config_of(context))
    saved = str(done.backup) if done.backup else None
    if as_json:
        print_json({"before": done.before, "after": done.after, "backup": saved})
    elif saved:
        print_lines([f"From schema {done.before} to {done.after}: {'; '.join(done.steps)}."])
        print_lines([f"What was there is in {clean(saved)}."])
    elif done.after:
        print_lines([f"Nothing to do: the store has schema {done.after}."])
    else:
        print_lines(["Nothing to do: there is no store yet, and a new one is made as it should."])


@app.command()
def purge(
    context: typer.Context,
    before: Annotated[str, typer.Option(help="A date; stories that ended earlier go.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Take the contents of old entries away; the chain still verifies, and this is recorded."""
    from operator_sre.app.store import plan_purge, purge_store

    config = config_of(context)
    plan = plan_purge(config, before)
    if plan.entries == 0:
        _say_purged(plan, None, as_json=as_json)
        return
    if not yes and not _confirmed(plan, as_json=as_json):
        raise typer.Exit(UNCONFIRMED)
    with _progress("purged") as progress:
        entry = purge_store(config, plan, progress=progress)
    _say_purged(plan, entry.seq, as_json=as_json)


def _say_purged(plan: PurgePlan, seq: int | None, *, as_json: bool) -> None:
    if as_json:
        print_json({"purged": plan.entries, "recorded": seq})
    elif seq is None:
        print_lines(["Nothing to purge."])
    else:
        print_lines([f"Purged {plan.entries} entries, recorded as entry {seq}."])


def _confirmed(plan: PurgePlan, *, as_json: bool) -> bool:
    """Ask a person to type the number; whoever cannot be asked is told what would happen."""
    what = f"{plan.entries} entries of {len(plan.tickets)} tickets, {_size(plan.size_bytes)}"
    if as_json:
        would = {"entries": plan.entries, "tickets": len(plan.tickets)}
        print_json({"would_purge": would | {"size_bytes": plan.size_bytes}})
        return False
    sys.stderr.write(f"operator: This takes away for good: {what}, {plan.first} to {plan.last}.")
    if not sys.stdin.isatty():
        sys.stderr.write(" Confirm it with --yes.\n")
        return False
    sys.stderr.write(f"\nType {plan.entries} to purge them: ")
    sys.stderr.flush()
    if sys.stdin.readline().strip() == str(plan.entries):
        return True
    sys.stderr.write("Nothing was purged.\n")
    return False


def _told(differences: Iterable[Difference]) -> list[str]:
    return [
        f"DIFFERENT: {one.table}: {one.missing} rows missing, {one.extra} too many,"
        f" {one.changed} changed."
        for one in differences
    ]


def _size(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if count >= 1e6 else f"{count / 1e3:.1f} kB"


@contextmanager
def _progress(what: str) -> Iterator[Callable[[int], None]]:
    """Tells a person how far it is, and leaves no trace."""
    shown = sys.stderr.isatty()

    def progress(count: int) -> None:
        if shown:
            sys.stderr.write(f"\r{count} entries {what}")
            sys.stderr.flush()

    try:
        yield progress
    finally:
        if shown:
            sys.stderr.write("\r\x1b[K")
