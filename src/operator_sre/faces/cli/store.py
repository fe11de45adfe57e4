"""`operator store`: its operations, and the verbs that save, replace and purge the database."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from operator_protocols.errors import StoreError, UsageError
from operator_sre.app.confirmations import cross, decline_own
from operator_sre.app.store import (
    backup_store,
    plan_purge,
    purge_asked,
    purge_recorded,
    restore_asked,
    restore_store,
    tidy_store,
    watch_purge,
)
from operator_sre.app.wiring import open_app
from operator_sre.faces.cli.consent import (
    NEEDS_A_PERSON,
    ConfirmationOption,
    ProposeOption,
    cross_boundary,
    say_pending,
)
from operator_sre.faces.cli.noun import arrange, noun_of
from operator_sre.faces.cli.options import JsonOption, ReasonOption, config_of, open_home
from operator_sre.faces.cli.output import clean, print_json, print_lines
from operator_sre.faces.cli.progress import progress
from operator_sre.operations import store

if TYPE_CHECKING:
    from operator_sre.app.confirmations import Asked
    from operator_sre.app.wiring import PurgePlan

__all__ = ["app"]

app = noun_of(store)
PASSPHRASE_BYTES_MAX = 4096
PassphraseOption = Annotated[
    Path | None,
    typer.Option(help="Read the passphrase of the keys from this file; a terminal asks for it."),
]
ForceOption = Annotated[bool, typer.Option("--force", help="Replace existing data.")]


@app.command("backup")
def backup(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="The file to write.")],
    force: ForceOption = False,
    passphrase_file: PassphraseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Back up the store, and with a passphrase the keys of the home, to one file and verify it."""
    from operator_sre.app.sealed_keys import check_passphrase, seal_keys

    config = config_of(context)
    passphrase = _read_passphrase(passphrase_file, again=True, asks=not as_json)
    if passphrase is not None:  # before a backup is written that would lack its keys
        check_passphrase(passphrase)
    with progress("saved") as tell:
        done = backup_store(config, file, force=force, progress=tell)
    keys = seal_keys(config, file, passphrase) if passphrase is not None else ()
    if as_json:
        saved = {"file": str(done.path), "entries": done.entries, "head": done.head}
        print_json({"backup": saved | {"size_bytes": done.size_bytes, "keys": keys}})
        return
    where = clean(str(done.path))
    print_lines(
        [
            f"Saved {done.entries} entries, {_size(done.size_bytes)}, head {done.head[:16]}"
            f" to {where}.",
            f"Sealed with the passphrase: {', '.join(keys)}."
            if keys
            else "The keys are not in it: keep ledger.key and vault.key of the home as well, or"
            " use --passphrase-file.",
        ]
    )


@app.command("restore")
def restore(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="The backup file.")],
    force: ForceOption = False,
    reason: ReasonOption = "",
    propose: ProposeOption = False,
    confirmation: ConfirmationOption = "",
    passphrase_file: PassphraseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Restore a backup into an empty store; --force saves and replaces existing data."""
    from operator_sre.app.sealed_keys import has_sealed_keys, missing_sentence, return_keys

    config, sealed = config_of(context), has_sealed_keys(file)
    passphrase = _read_passphrase(passphrase_file, again=False, asks=sealed and not as_json)
    means = force or propose
    unrecorded = (
        _mean_it(context, file, propose=propose, given=confirmation, as_json=as_json)
        if means
        else None
    )
    keys = return_keys(config, file, passphrase, force=force)
    with progress("restored") as tell:
        done = restore_store(config, file, force=force, progress=tell, reason=reason)
    if unrecorded is not None:
        from operator_sre.app.confirmations import record_applied
        from operator_sre.app.wiring import open_app
        from operator_sre.faces.cli.signals import run_until_stopped

        with open_app(config_of(context)) as app:
            why = "the store that was replaced could not be opened"
            run_until_stopped(record_applied(app, unrecorded, why=why))
    saved = str(done.saved) if done.saved else None
    if as_json:
        restored = {"entries": done.entries, "head": done.head, "saved": saved}
        print_json({"restored": restored | {"keys": keys.written, "missing": keys.missing}})
        return
    print_lines([f"Restored {done.entries} entries, head {done.head[:16]}."])
    if keys.written:
        print_lines([f"Restored the {', '.join(keys.written)}."])
    if sentence := missing_sentence(keys.missing, sealed=sealed):
        print_lines([sentence])
    if saved:
        print_lines([f"The previous store is in {clean(saved)}."])


def _read_passphrase(file: Path | None, *, again: bool, asks: bool) -> str | None:
    """The passphrase of a file, or of a person at a terminal; None to leave the keys out."""
    if file is not None:
        try:
            with file.open("rb") as stream:
                text = stream.read(PASSPHRASE_BYTES_MAX).decode().rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(
                f"{str(file)!r} cannot be read: {error}.", next_step="Name a text file."
            ) from None
        return text
    if not asks or not sys.stdin.isatty():
        return None
    import getpass

    typed = getpass.getpass("Passphrase for the keys (empty: without keys): ", stream=sys.stderr)
    if typed and again and getpass.getpass("Again: ", stream=sys.stderr) != typed:
        raise UsageError("The two passphrases differ.", next_step="Nothing was saved; try again.")
    return typed or None


def _mean_it(
    context: typer.Context, file: Path, *, propose: bool, given: str, as_json: bool
) -> Asked | None:
    """Confirm a restore with --force; a store that cannot be opened can still be replaced.

    The returned change could not be recorded there, and is recorded in the restored store instead.
    """
    config = config_of(context)
    change = restore_asked(config, file)
    if change is None:
        return None
    with ExitStack() as stack:
        try:
            app = stack.enter_context(open_app(config))
        except StoreError:
            if propose or given:
                raise
            return change
        cross_boundary(app, change, yes=True, propose=propose, as_json=as_json, given=given)
    return None


@app.command("purge")
def purge(
    context: typer.Context,
    before: Annotated[str, typer.Option(help="Purge incidents that ended before this date.")],
    yes: Annotated[bool, typer.Option("--yes", help="Skip the confirmation prompt.")] = False,
    propose: ProposeOption = False,
    as_json: JsonOption = False,
) -> None:
    """Purge the contents of old entries. The chain still verifies."""
    from operator_sre.faces.cli.signals import run_until_stopped

    config = config_of(context)
    plan = plan_purge(config, before)
    if plan.entries == 0:
        _say_purged(plan, None, as_json=as_json)
        return
    asks = not yes and not propose and not as_json and sys.stdin.isatty()
    if asks and not _ask_for_number(plan):
        with open_home(context) as app:
            run_until_stopped(decline_own(app, purge_asked(plan)))
        raise typer.Exit(NEEDS_A_PERSON)
    sure = (yes or asks) and not propose
    with open_home(context) as app:
        with progress("purged") as tell, watch_purge(tell):
            found = run_until_stopped(cross(app, purge_asked(plan), sure=sure))
        if found.state != "pending":
            gone = tidy_store(config)
            _say_purged(plan, purge_recorded(app), as_json=as_json, gone=gone)
            return
    would = {"entries": plan.entries, "tickets": len(plan.tickets)}
    would |= {"size_bytes": plan.size_bytes}
    say_pending(found, as_json=as_json, would_purge=would)
    raise typer.Exit(NEEDS_A_PERSON)


def _say_purged(plan: PurgePlan, seq: int | None, *, as_json: bool, gone: bool = True) -> None:
    if as_json:
        print_json({"purged": plan.entries, "recorded": seq, "gone": gone})
    elif seq is None:
        print_lines(["Nothing to purge."])
    else:
        print_lines([f"Purged {plan.entries} entries, recorded as entry {seq}."])
    if not gone and not as_json:
        from operator_sre.app.store import ON_DISK

        print_lines([ON_DISK])


def _ask_for_number(plan: PurgePlan) -> bool:
    """Ask a person to type the number."""
    amount = f"{plan.entries} entries of {len(plan.tickets)} tickets, {_size(plan.size_bytes)}"
    sys.stderr.write(f"operator: This deletes permanently: {amount}, {plan.first} to {plan.last}.")
    sys.stderr.write(f"\nType {plan.entries} to purge them: ")
    sys.stderr.flush()
    if sys.stdin.readline().strip() == str(plan.entries):
        return True
    sys.stderr.write("Nothing was purged.\n")
    return False


def _size(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if count >= 1e6 else f"{count / 1e3:.1f} kB"


arrange(app, "check", "rebuild", "backup", "restore", "migrate", "purge")
