"""`operator discover`: subjects for what runs on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from operator_protocols.errors import UsageError
from operator_sre.faces.cli.consent import YesOption, confirm
from operator_sre.faces.cli.options import JsonOption, config_of
from operator_sre.faces.cli.output import clean, print_json, print_lines, print_table
from operator_sre.faces.cli.progress import waiting
from operator_sre.faces.cli.signals import run_until_stopped

if TYPE_CHECKING:
    from operator_sre.app.discovery import Discovery

__all__ = ["discover"]

ALIKE_MAX = 3


def discover(
    context: typer.Context,
    port: Annotated[
        list[int] | None, typer.Option(help="Consider only servers at this port; may be repeated.")
    ] = None,
    host: Annotated[
        list[str] | None,
        typer.Option(help="Search user@host[:port] as well, over ssh; may be repeated."),
    ] = None,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Find what runs on this machine, and propose subjects to watch.

    It reads listening sockets, processes, systemd units, containers and configuration files, and
    asks each server once in its own protocol. It changes nothing on them. After you confirm, it
    writes the subjects to operator.toml in mode observe. With --json, confirm with --yes.
    """
    from operator_sre.app.discovery import discover as look_around
    from operator_sre.app.discovery import write_subjects
    from operator_sre.app.wiring import look_at_app

    config = config_of(context)
    with look_at_app(config) as app, waiting("searching this machine"):
        found = run_until_stopped(look_around(app, ports=port or (), hosts=host or ()))
    if not as_json:
        _show(found)
    written = None
    if found.proposals and not (as_json and not yes):
        toml = config.file or Path.cwd() / "operator.toml"
        count = len(found.proposals)
        question = f"Add {count} subject{'s' * (count > 1)} to {toml}?"
        try:
            confirm(clean(question), yes=yes)
        except UsageError:
            print_lines([clean(f"To add them to {toml}: operator discover --yes")])
            return
        written = write_subjects(config, found.proposals, folder=Path.cwd())
    if as_json:
        print_json({"discovery": found, "written": written})
    elif written is not None:
        print_lines([clean(f"wrote   {file}") for file in (*written.files, written.config)])
        print_lines(["next    operator subjects check " + clean(" ".join(written.subjects))])
        print_lines(["        operator up --all"])


def _show(found: Discovery) -> None:
    rows = [
        (
            proposal.name,
            proposal.plugin or (f"pack {proposal.pack}" if proposal.pack else "description"),
            ", ".join(proposal.places),
            "; ".join(proposal.why) + ("; needs a credential" if proposal.grant else ""),
        )
        for proposal in found.proposals
    ]
    if rows:
        print_table(("subject", "watched by", "at", "because"), rows)
    else:
        print_lines(["Nothing new was found."])
    # A busy machine has many of the same kind: one line for each reason.
    sources: dict[str, list[str]] = {}
    for left in (*found.watched, *found.left_out):
        sources.setdefault(left.why, []).append(left.source)
    others = [
        (source, why)
        for why, same in sources.items()
        for source in (
            same if len(same) <= ALIKE_MAX else [f"{same[0]} (and {len(same) - 1} more)"]
        )
    ]
    if others:
        print_lines([""])
        print_table(("not proposed", "because"), others)
    for proposal in found.proposals:
        if proposal.grant:
            print_lines(["", clean(f"{proposal.name} needs a credential. Run in {proposal.kind}:")])
            print_lines([clean(f"  {line}") for line in proposal.grant.splitlines()])
