"""`operator kill-switch`: stop everything, and let it go on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from operator_sre.faces.cli.confirming import ProposeOption, YesOption, crossed
from operator_sre.faces.cli.options import JsonOption, ReasonOption, opened
from operator_sre.faces.cli.output import clean, print_json, print_lines
from operator_sre.faces.cli.progress import waiting
from operator_sre.faces.cli.running import run_until_stopped

if TYPE_CHECKING:
    from operator_protocols.domain.switch import SwitchState
    from operator_sre.app.switch import Stopped

__all__ = ["app"]

app = typer.Typer(help="Stop everything, and let it go on.", no_args_is_help=True)


@app.command()
def on(context: typer.Context, reason: ReasonOption = "", as_json: JsonOption = False) -> None:
    """End what runs, cancel what waits, permit nothing. Fine when it is on already."""
    from operator_sre.app.switch import switch_on

    with opened(context) as app, waiting("stopping everything"):
        stopped = run_until_stopped(switch_on(app, reason=reason))
    if as_json:
        print_json({"stopped": stopped})
    else:
        print_lines(_lines(stopped))


@app.command()
def off(
    context: typer.Context,
    reason: ReasonOption = "",
    yes: YesOption = False,
    propose: ProposeOption = False,
    as_json: JsonOption = False,
) -> None:
    """Let permits be given again; those from before stay void."""
    from operator_sre.app.loosening import switch_asked
    from operator_sre.app.switch import switch_off, switch_state

    with opened(context) as app:
        asked = switch_asked(app, reason=reason)
        if crossed(app, asked, yes=yes, propose=propose, as_json=as_json):
            state = switch_state(app)
        else:
            state = run_until_stopped(switch_off(app, reason=reason))
    _show(state, as_json=as_json)


@app.command()
def status(context: typer.Context, as_json: JsonOption = False) -> None:
    """How it stands, who turned it, and why."""
    from operator_sre.app.switch import switch_state

    with opened(context) as app:
        state = switch_state(app)
    _show(state, as_json=as_json)


def _show(state: SwitchState, *, as_json: bool) -> None:
    if as_json:
        print_json({"switch": state})
        return
    word = "on" if state.on else "off"
    who = f", by {state.by} at {state.at:%Y-%m-%d %H:%M:%S} UTC" if state.at else ""
    why = f": {state.reason}" if state.reason else ""
    print_lines([clean(f"The kill switch is {word}{who}{why}.")])


def _lines(stopped: Stopped) -> list[str]:
    docker = stopped.docker or f"{len(stopped.docker_containers)} containers ended"
    lines = [
        f"The kill switch is on, after {stopped.took_s:.2f} s.",
        f"pending proposals cancelled: {len(stopped.pending_proposals)}",
        f"processes ended: {', '.join(map(str, stopped.processes)) or 'none'}",
        f"docker: {docker}",
        f"tickets in work: {', '.join(map(str, stopped.tasks)) or 'none'}",
    ]
    lines += [f"may have partly run: {one.seq}  {one.command}" for one in stopped.partly_run]
    lines.append("Nothing is permitted until: operator kill-switch off")
    return [clean(line) for line in lines]
