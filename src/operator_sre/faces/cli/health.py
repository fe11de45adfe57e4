"""`operator health`: how everything is, on one screen."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from operator_sre.faces.cli.options import JsonOption, opened
from operator_sre.faces.cli.output import clean, print_json, print_lines
from operator_sre.faces.cli.running import run_until_stopped

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from operator_sre.app.health import HealthView, SubjectHealth, Trouble
    from operator_sre.app.wiring import App

__all__ = ["health"]

WATCH_S = 2.0
TROUBLES_MAX = 12
CLEAR = "\x1b[H\x1b[2J"


def health(
    context: typer.Context,
    watch: Annotated[
        bool, typer.Option("--watch", help="Again every two seconds, until stopped.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Every subject, the worst first, who watches, and what is kept quiet.

    The exit code is 0 when all is watched and holds or is silenced, else 1.
    """
    from operator_sre.app.health import show_health

    with opened(context) as app:
        if watch:
            run_until_stopped(_follow(app, as_json=as_json))
            return
        view = show_health(app)
    _show(view, as_json=as_json, line=False)
    raise typer.Exit(0 if view.fine else 1)


async def _follow(app: App, *, as_json: bool) -> None:
    from operator_sre.app.health import show_health

    while True:
        view = show_health(app)
        if sys.stdout.isatty() and not as_json:
            sys.stdout.write(CLEAR)
        _show(view, as_json=as_json, line=True)
        await asyncio.sleep(WATCH_S)


def _show(view: HealthView, *, as_json: bool, line: bool) -> None:
    if as_json:
        print_json({"health": view}, line=line)
        return
    print_lines([*_head(view), ""])
    for one in view.subjects:
        print_lines(_subject(one, view.at))
    if view.silences:
        count = len(view.silences)
        print_lines([f"{count} silenced pattern(s); see: operator silences list"])


def _head(view: HealthView) -> Sequence[str]:
    if not view.subjects:
        start = "Describe one in operator.toml, or start one with: operator lab up SUBJECT"
        return ["There is no subject here.", start]
    who = ", ".join(clean(one.worker) for one in view.watchers)
    told = f"watched by {who}" if who else "NOBODY IS WATCHING: start operator monitor run --all"
    return [f"{view.at:%Y-%m-%d %H:%M:%S} UTC  {view.health.upper()}  {told}"]


def _subject(one: SubjectHealth, now: datetime) -> Sequence[str]:
    looked = f"looked at {_ago(one.last_look, now)}" if one.last_look else "never looked at"
    well = sum(target.health == "healthy" for target in one.targets)
    head = f"{one.health.upper():8} {clean(one.subject)}: {well}/{len(one.targets)} targets healthy"
    missed = f", {one.missed} looks missed" if one.missed else ""
    lines = [f"{head}, {looked}{missed}"]
    if one.problem:
        lines.append(f"  !! {clean(one.problem)}")
    lines += [_trouble(trouble, now) for trouble in one.troubles[:TROUBLES_MAX]]
    if len(one.troubles) > TROUBLES_MAX:
        lines.append(f"  and {len(one.troubles) - TROUBLES_MAX} more; see --json")
    for ticket in one.tickets:
        flaps = ", flapping" if ticket.flapping else ""
        lines.append(
            f"  ticket {ticket.id} ({ticket.state}, {ticket.severity}{flaps})"
            f" since {_ago(ticket.opened_at, now)}: {clean(ticket.summary)}"
        )
    return [*lines, ""]


def _trouble(one: Trouble, now: datetime) -> str:
    marks = [f"since {_ago(one.since, now)}"]
    if one.ticket is not None:
        marks.append(f"ticket {one.ticket}")
    if one.flapping:
        marks.append("flapping")
    if one.silenced:
        marks.append(f"silenced: {one.silenced}")
    detail = f": {clean(one.detail)}" if one.detail else ""
    what = f"{one.health} {clean(one.target)} {clean(one.invariant)}"
    return f"  {what} ({clean(', '.join(marks))}){detail}"


def _ago(at: datetime, now: datetime) -> str:
    seconds = max(0.0, (now - at).total_seconds())
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit} ago"
    return f"{seconds:.0f} s ago"
