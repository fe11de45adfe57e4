"""`operator session`: how much risk each agent has piled up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from operator_sre.faces.cli.confirming import ProposeOption, YesOption, crossed
from operator_sre.faces.cli.options import JsonOption, ReasonOption, opened
from operator_sre.faces.cli.output import clean, print_json, print_lines, print_list

if TYPE_CHECKING:
    from operator_sre.app.sessions import SessionView

__all__ = ["app"]

app = typer.Typer(help="How much risk each agent has piled up.", no_args_is_help=True)
AgentArgument = Annotated[str, typer.Argument(help="An agent's name.")]


@app.command("list")
def list_(context: typer.Context, as_json: JsonOption = False) -> None:
    """Everybody who acted within five minutes, or was ever held in observe."""
    from operator_sre.app.sessions import list_sessions

    with opened(context) as app:
        found = list_sessions(app)
    rows = [
        (one.agent, one.level, one.score, "held" if one.held else "free", len(one.deeds))
        for one in found
    ]
    head = ("agent", "level", "score", "state", "deeds")
    print_list(
        "sessions", found, head, rows, none="No agent has done anything lately.", as_json=as_json
    )


@app.command()
def show(context: typer.Context, agent: AgentArgument, as_json: JsonOption = False) -> None:
    """One agent: what it did, what that adds up to, and why."""
    from operator_sre.app.sessions import show_session

    with opened(context) as app:
        _show(show_session(app, agent), as_json=as_json)


@app.command()
def reset(
    context: typer.Context,
    agent: AgentArgument,
    reason: ReasonOption,
    yes: YesOption = False,
    propose: ProposeOption = False,
    as_json: JsonOption = False,
) -> None:
    """Let an agent go that is held in observe, and begin its session anew."""
    from operator_sre.app.loosening import session_asked
    from operator_sre.app.sessions import reset_session, show_session
    from operator_sre.faces.cli.running import run_until_stopped

    with opened(context) as app:
        asked = session_asked(app, agent, reason=reason)
        if crossed(app, asked, yes=yes, propose=propose, as_json=as_json):
            view = show_session(app, agent)
        else:
            view = run_until_stopped(reset_session(app, agent, reason=reason))
    _show(view, as_json=as_json)


def _show(view: SessionView, *, as_json: bool) -> None:
    if as_json:
        print_json({"session": view})
        return
    held = "held in observe" if view.held else "free"
    lines = [f"{view.agent}: {view.level.upper()}, {view.score}, {held}", *view.reasons]
    if view.record is not None:
        record = view.record
        what = "held" if record.held else f"reset by {record.by}"
        lines.append(f"{what} at {record.at:%Y-%m-%d %H:%M:%S} UTC: {record.reason or '-'}")
    lines += [f"{deed.at:%H:%M:%S}  {deed.level:7}{deed.command}" for deed in view.deeds]
    print_lines([clean(line) for line in lines])
