"""`operator lab`: real systems to break."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated

import typer

from operator_sre.faces.cli.options import JsonOption, opened
from operator_sre.faces.cli.output import clean, print_json, print_lines, print_table
from operator_sre.faces.cli.running import run_until_stopped

if TYPE_CHECKING:
    from operator_sre.app.lab import RigView

__all__ = ["app"]

app = typer.Typer(help="Real systems to break.", no_args_is_help=True)
TargetOption = Annotated[str | None, typer.Option(help="Which target; chosen if not named.")]


@app.command()
def up(context: typer.Context, subject: str, as_json: JsonOption = False) -> None:
    """Start a disposable copy of a subject on private ports. It runs until `lab down`."""
    from operator_sre.app.lab import rig_up

    with opened(context) as app:
        _show(run_until_stopped(rig_up(app, subject)), context.obj.home, as_json=as_json)


@app.command()
def down(context: typer.Context, subject: str, as_json: JsonOption = False) -> None:
    """End everything of it and remove its directory."""
    from operator_sre.app.lab import rig_down

    with opened(context) as app:
        run_until_stopped(rig_down(app, subject))
    if as_json:
        print_json({"subject": subject, "down": True})
    else:
        print_lines([f"The rig of {subject} is down; nothing of it is left."])


@app.command()
def status(context: typer.Context, subject: str, as_json: JsonOption = False) -> None:
    """Every target with its pid, port, log file and data directory."""
    from operator_sre.app.lab import rig_status

    with opened(context) as app:
        _show(rig_status(app, subject), context.obj.home, as_json=as_json)


@app.command("break")
def break_(
    context: typer.Context,
    subject: str,
    fault: str,
    target: TargetOption = None,
    seed: Annotated[int | None, typer.Option(help="Choose the victim repeatably.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Hurt it. Nobody is told."""
    from operator_sre.app.lab import break_rig

    with opened(context) as app:
        hit = run_until_stopped(break_rig(app, subject, fault, target=target, seed=seed))
    if as_json:
        print_json({"subject": subject, "fault": fault, "target": hit})
    else:
        print_lines([f"{fault}: {hit} was hit."])


@app.command()
def heal(
    context: typer.Context,
    subject: str,
    fault: str,
    target: TargetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Undo a fault."""
    from operator_sre.app.lab import heal_rig

    with opened(context) as app:
        healed = run_until_stopped(heal_rig(app, subject, fault, target=target))
    if as_json:
        print_json({"subject": subject, "fault": fault, "target": healed})
    else:
        print_lines([f"{fault}: {healed} is healed."])


def _show(view: RigView, home: str | None, *, as_json: bool) -> None:
    if as_json:
        print_json({"rig": view})
        return
    rows = [(one.name, one.kind, one.state, one.pid, one.port, one.log) for one in view.targets]
    print_table(("target", "kind", "state", "pid", "port", "log"), rows)
    if view.load is not None:
        print_lines([f"load: {view.load.ops_per_s:.0f}/s, {view.load.failed} failed"])
    here = f" --home {shlex.quote(home)}" if home else ""
    lines = [
        f"directory: {view.directory}",
        f"break it:  operator lab break {view.subject} {view.faults[0]}{here}",
        f"           (or: {', '.join(view.faults[1:])}; or kill a pid yourself)",
        f"watch it:  operator up --subject {view.subject} --mode execute{here}",
    ]
    print_lines([clean(line) for line in lines])
