"""`operator subjects`: what is in our care, what it is made of, and how it looks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from operator_sre.faces.cli.options import JsonOption, opened
from operator_sre.faces.cli.output import clean, print_json, print_lines, print_table
from operator_sre.faces.cli.progress import waiting
from operator_sre.faces.cli.running import run_until_stopped
from operator_sre.faces.cli.subjects_init import init, try_out

if TYPE_CHECKING:
    from operator_protocols.domain.observation import Observation, Sighting
    from operator_sre.app.subjects import SubjectView

__all__ = ["app"]

app = typer.Typer(help="What is in our care, and how it looks.", no_args_is_help=True)
NameArgument = Annotated[str, typer.Argument(help="A subject.")]
NamesArgument = Annotated[list[str] | None, typer.Argument(help="Subjects; one may be left out.")]
TargetOption = Annotated[str, typer.Option(help="Only these targets, such as 'node-*'.")]

app.command()(init)
app.command("test")(try_out)


@app.command("list")
def list_(context: typer.Context, as_json: JsonOption = False) -> None:
    """Every subject: its plug-in, its targets, its health, and when it was last looked at."""
    from operator_sre.app.subjects import list_subjects

    with opened(context) as app:
        found = list_subjects(app)
    if as_json:
        print_json({"subjects": found})
    elif not found:
        start = "Describe one in operator.toml, or start one with: operator lab up SUBJECT"
        print_lines(["There is no subject here.", start])
    else:
        rows = [
            (
                one.name,
                f"{one.plugin} (rig)" if one.rig else one.plugin,
                one.targets,
                one.health,
                f"{one.last_look:%m-%d %H:%M:%S}" if one.last_look else "never",
                one.problem or "-",
            )
            for one in found
        ]
        print_table(("subject", "plugin", "targets", "health", "last look", "but"), rows)


@app.command()
def show(context: typer.Context, name: NameArgument, as_json: JsonOption = False) -> None:
    """One subject: targets, dependencies, invariants, tools, faults and notes."""
    from operator_sre.app.subjects import show_subject

    with opened(context) as app:
        view = show_subject(app, name)
    if as_json:
        print_json({"subject": view})
    else:
        _show(view)


@app.command()
def observe(
    context: typer.Context, names: NamesArgument = None, as_json: JsonOption = False
) -> None:
    """Look once and print every reading; nothing is remembered."""
    from operator_sre.app.subjects import observe_subject

    with opened(context) as app, waiting("looking"):
        found = run_until_stopped(observe_subject(app, names or []))
    if as_json:
        print_json({"observations": found})
    else:
        for one in found:
            _print_readings(one)
    raise typer.Exit(1 if any(one.problem for one in found) else 0)


@app.command()
def check(context: typer.Context, names: NamesArgument = None, as_json: JsonOption = False) -> None:
    """Look once and print every finding; 0 when all is healthy, 1 when it is not or not known."""
    from operator_protocols.domain.health import Health, worst
    from operator_sre.app.subjects import check_subject

    with opened(context) as app, waiting("looking"):
        found = run_until_stopped(check_subject(app, names or []))
    health = worst(finding.health for one in found for finding in one.findings)
    if as_json:
        print_json({"health": health, "sightings": found})
    else:
        for one in found:
            _print_findings(one)
    raise typer.Exit(0 if health is Health.HEALTHY else 1)


@app.command()
def history(
    context: typer.Context,
    name: NameArgument,
    target: TargetOption = "*",
    reading: Annotated[str, typer.Option(help="Only these readings, such as 'p99*'.")] = "*",
    since: Annotated[str, typer.Option(help="A span such as 1h, or a time.")] = "1h",
    replay: Annotated[
        bool, typer.Option("--replay", help="Check today's invariants over what was recorded.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """What was seen over time, as charts; or when each invariant would have been broken."""
    from operator_sre.app.subject_history import replay_history, subject_history
    from operator_sre.faces.cli.charts import print_history, print_spells

    with opened(context) as app:
        if replay:
            spells = replay_history(app, name, target=target, since=since)
            print_json({"replay": spells}) if as_json else print_spells(spells)
            return
        view = subject_history(app, name, target=target, reading=reading, since=since)
    print_json({"history": view}) if as_json else print_history(view)


def _show(view: SubjectView) -> None:
    rig = ", a rig of the lab" if view.rig else ""
    print_lines(
        [
            f"{clean(view.name)}: {clean(view.sentence)}",
            f"plug-in {clean(view.plugin)}{rig}, looked at every {view.interval_s:g} s,"
            f" {view.state.health}"
            + (f" ({clean(view.state.problem)})" if view.state.problem else ""),
            "",
        ]
    )
    states = {one.name: one.health for one in view.state.targets}
    rows: list[tuple[object, ...]] = [
        (
            one.name,
            one.kind,
            f"{one.host}:{one.port}" if one.port else one.host,
            states.get(one.name, "unknown"),
            ", ".join(one.depends_on) or "-",
        )
        for one in view.targets
    ]
    print_table(("target", "kind", "at", "health", "needs"), rows)
    print_lines([""])
    rows = [(one.name, one.severity, f"{one.grace_s:g} s", one.sentence) for one in view.invariants]
    print_table(("invariant", "severity", "grace", "it says"), rows)
    if view.tools:
        print_lines([""])
        rows = [(one.name, one.risk, one.sentence) for one in view.tools]
        print_table(("tool", "risk", "it does"), rows)
    if view.faults:
        print_lines([""])
        rows = [(one.name, ", ".join(one.breaks), one.sentence) for one in view.faults]
        print_table(("fault", "breaks", "in the lab"), rows)
    if view.notes:
        print_lines(["", clean(view.notes)])


def _print_readings(observation: Observation) -> None:
    head = f"{clean(observation.subject)} at {observation.at:%Y-%m-%d %H:%M:%S} UTC"
    if observation.problem:
        print_lines([f"{head}: it cannot be observed: {clean(observation.problem)}"])
        return
    print_lines([head])
    for seen in observation.seen:
        print_lines([f"  {clean(seen.target)}" + (f": {clean(seen.problem)}" * bool(seen.problem))])
        width = max((len(name) for name in seen.readings), default=0)
        print_lines(
            [
                f"    {clean(key):{width}}  {clean(str(value))}"
                for key, value in seen.readings.items()
            ]
        )


def _print_findings(sighting: Sighting) -> None:
    rows = [
        (one.health, one.target, one.invariant, one.detail or "-")
        for one in sorted(sighting.findings, key=lambda one: -one.health.rank)
    ]
    print_lines([clean(sighting.observation.subject)])
    print_table(("health", "target", "invariant", "because"), rows)
