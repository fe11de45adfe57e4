"""`operator silences`: what is broken and opens no ticket, for a while."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from operator_sre.faces.cli.options import EveryOption, JsonOption, ReasonOption, opened
from operator_sre.faces.cli.output import print_list
from operator_sre.faces.cli.running import run_until_stopped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from operator_protocols.domain.silence import Silence

__all__ = ["app"]

app = typer.Typer(help="Keep what is broken from opening tickets.", no_args_is_help=True)


@app.command()
def add(
    context: typer.Context,
    reason: ReasonOption,
    subject: Annotated[str, typer.Option(help="A name or a pattern.")] = "*",
    target: Annotated[str, typer.Option(help="A name or a pattern, such as 'node-*'.")] = "*",
    invariant: Annotated[str, typer.Option(help="A name or a pattern.")] = "*",
    for_: Annotated[str, typer.Option("--for", help="How long: 90s, 30m, 2h, 1d.")] = "",
    until: Annotated[str, typer.Option(help="Until when: 2030-01-31T06:00 (UTC).")] = "",
    as_json: JsonOption = False,
) -> None:
    """Open no tickets for what matches, from now on; what is worked on stays."""
    from operator_sre.app.silences import add_silence

    with opened(context) as app:
        made = add_silence(
            app,
            subject=subject,
            target=target,
            invariant=invariant,
            until=until,
            for_=for_,
            reason=reason,
        )
        _show([run_until_stopped(made)], as_json=as_json)


@app.command("list")
def list_(
    context: typer.Context,
    every: EveryOption = False,
    as_json: JsonOption = False,
) -> None:
    """Silences that hold, and maintenance windows that are open."""
    from operator_sre.app.silences import list_silences

    with opened(context) as app:
        _show(list_silences(app, every=every), as_json=as_json)


@app.command()
def end(
    context: typer.Context,
    silence: Annotated[str, typer.Argument(help="The id of a silence.")],
    reason: ReasonOption = "",
    as_json: JsonOption = False,
) -> None:
    """End one before its time; what is still broken opens its ticket at the next look."""
    from operator_sre.app.silences import end_silence

    with opened(context) as app:
        _show([run_until_stopped(end_silence(app, silence, reason=reason))], as_json=as_json)


def _show(silences: Sequence[Silence], *, as_json: bool) -> None:
    rows = [
        (
            one.id,
            one.subject,
            one.target,
            one.invariant,
            f"{one.until:%Y-%m-%d %H:%M:%S}",
            one.by,
            f"ended by {one.ended_by}: {one.ended_because}" if one.ended_at else "-",
            one.reason,
        )
        for one in silences
    ]
    head = ("id", "subject", "target", "invariant", "until (utc)", "by", "ended", "why")
    print_list("silences", silences, head, rows, none="Nothing is silenced.", as_json=as_json)
