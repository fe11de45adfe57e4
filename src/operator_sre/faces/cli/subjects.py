"""`operator subjects`: the subjects, their parts and their health."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from operator_protocols.domain.health import Health, worst
from operator_sre.app.subjects import (
    check_subject,
    observe_subject,
    replay_history,
    show_subject,
    subject_history,
)
from operator_sre.app.ticket_page import OBSERVABLE
from operator_sre.faces.cli.noun import arrange, noun_of
from operator_sre.faces.cli.options import JsonOption, config_of, open_home
from operator_sre.faces.cli.output import clean, print_json, print_lines, print_table
from operator_sre.faces.cli.progress import waiting
from operator_sre.faces.cli.signals import run_until_stopped
from operator_sre.operations import subjects

if TYPE_CHECKING:
    from operator_sre.app.subjects import HistoryView, Point, Replayed, Series, SubjectView

__all__ = ["app", "init", "print_history", "print_spells", "sparkline", "try_out"]

_WAYS = {
    "runs": "runs without approval",
    "asks": "needs approval",
    "proposes": "proposed only",
    "held": "does not run now",
    "never": "never runs",
}


def init(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="The subject name.")] = "",
    kind: Annotated[str, typer.Option(help="web, redis, postgres or blank.")] = "web",
    as_json: JsonOption = False,
) -> None:
    """Write a commented description NAME.yaml and add it to operator.toml. Overwrites nothing."""
    from operator_sre.app.description import write_description

    config = config_of(context)
    written = write_description(config, name or f"my-{kind}", kind, folder=Path.cwd())
    if as_json:
        print_json({"written": written})
        return
    print_lines(
        [
            clean(f"wrote   {written.file}"),
            clean(f"added   [subjects.{written.name}] to {written.config}"),
            "next    describe your system in it, then test it:",
            clean(f"        operator subjects test {Path(written.file).name}"),
        ]
    )


def try_out(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="The description file, such as shop.yaml.")],
    as_json: JsonOption = False,
) -> None:
    """Check a description: run every probe once, check every invariant, judge every tool.

    Exit 0 when everything is healthy, 1 when something is broken or unknown, 2 when the file is
    invalid.
    """
    from operator_sre.app.description import try_description

    with waiting("running every probe"):
        trial = run_until_stopped(try_description(config_of(context), file))
    if as_json:
        print_json({"trial": trial})
    else:
        rows: list[tuple[object, ...]]
        rows = [
            (reading.target, reading.reading, _show_value(reading.value))
            for reading in trial.readings
        ]
        print_table(("target", "reading", "value"), rows)
        for target, problem in trial.problems:
            print_lines([clean(f"{target} cannot be observed: {problem}")])
        print_lines([""])
        found = sorted(trial.findings, key=lambda finding: -finding.health.rank)
        rows = [
            (finding.health, finding.target, finding.invariant, finding.detail or "-")
            for finding in found
        ]
        print_table(("health", "target", "invariant", "because"), rows)
        if trial.levers:
            print_lines([""])
            rows = [
                (
                    tool.tool,
                    tool.target or "-",
                    tool.risk,
                    _WAYS[tool.now],
                    _WAYS[tool.in_execute],
                    " ".join(part for part in (tool.sentence, tool.why) if part),
                )
                for tool in trial.levers
            ]
            head = ("lever", "at", "risk", "now", "in mode execute", "what it does")
            print_table(head, rows)
        print_lines(["", clean(f"{trial.subject} is {trial.health}.")])
    raise typer.Exit(0 if trial.health == "healthy" else 1)


def _show_value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


WIDTH = 60
BLOCKS = "▁▂▃▄▅▆▇█"
NOT_SEEN = "×"
TEXT_CHARACTERS_MAX = 40


def print_history(view: HistoryView) -> None:
    """A line for each series: its chart, its least, its last and its greatest value."""
    span = f"{view.since:%m-%d %H:%M:%S} to {view.until:%m-%d %H:%M:%S} UTC"
    print_lines([f"{clean(view.subject)}: {view.looks} checks, {span}"])
    if not view.looks:
        print_lines(["No readings in that time. Watch it with: operator monitor run"])
        return
    rows = [
        (
            series.target,
            series.reading or "(not seen)",
            _chart(series, view.since, view.until),
            _figures(series),
        )
        for series in view.series
    ]
    print_table(("target", "reading", "over time", "min / last / max"), rows)
    if view.left_out:
        print_lines([f"{view.left_out} more series; filter with --target and --reading."])


def print_spells(view: Replayed) -> None:
    """A line for each break: from when to when, and when a ticket would have been opened."""
    print_lines([f"{clean(view.subject)}: current invariants over {view.looks} recorded checks"])
    if not view.spells:
        print_lines(["No invariant would have been broken."])
        return
    rows = [
        (
            spell.target,
            spell.invariant,
            _moment(spell.since),
            _moment(spell.until) if spell.until else "still",
            _moment(spell.ticket) if spell.ticket else "within grace",
            spell.detail,
        )
        for spell in view.spells
    ]
    print_table(("target", "invariant", "from", "to", "ticket", "because"), rows)


def _moment(at: datetime) -> str:
    return f"{at:%m-%d %H:%M:%S}"


def sparkline(points: Sequence[tuple[float, float | None]], *, width: int = WIDTH) -> str:
    """Blocks for (place from 0 to 1, value); the greatest where several meet; None: not seen."""
    cells: list[list[float | None]] = [[] for _ in range(width)]
    for place, value in points:
        cells[min(width - 1, max(0, int(place * width)))].append(value)
    values = [value for _, value in points if value is not None]
    low, high = min(values, default=0.0), max(values, default=0.0)
    return "".join(_block(cell, low, high) for cell in cells).rstrip()


def _block(cell: Sequence[float | None], low: float, high: float) -> str:
    if not cell:
        return " "
    known = [value for value in cell if value is not None]
    if not known:
        return NOT_SEEN
    if high == low:
        return BLOCKS[-1] if high else BLOCKS[0]
    return BLOCKS[round((max(known) - low) / (high - low) * (len(BLOCKS) - 1))]


def _chart(series: Series, since: datetime, until: datetime) -> str:
    whole = max((until - since).total_seconds(), 1.0)
    first = series.points[0].at if series.points else since
    # What was recorded fills the line, even where it is younger than what was asked for.
    begin = max(since, first)
    span = max((until - begin).total_seconds(), 1.0) if begin > since else whole
    points = [
        ((point.at - begin).total_seconds() / span, _number(point)) for point in series.points
    ]
    return sparkline(points)


def _number(point: Point) -> float | None:
    value = point.value
    if point.problem or value is None:
        return None
    if isinstance(value, str):
        return 1.0
    # Neither nan nor inf has a place in a chart.
    number = float(value)
    return number if number == number and abs(number) != float("inf") else None


def _figures(series: Series) -> str:
    values = [
        point.value for point in series.points if not point.problem and point.value is not None
    ]
    if not values:
        return series.points[-1].problem if series.points else "-"
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        figures = [float(value) for value in values if not isinstance(value, str)]
        return f"{min(figures):g} / {figures[-1]:g} / {max(figures):g}"
    different = list(dict.fromkeys(str(value) for value in values))
    shown = str(values[-1])[:TEXT_CHARACTERS_MAX]
    return shown if len(different) == 1 else f"{shown} ({len(different)} different)"


app = noun_of(subjects)
NameArgument = Annotated[str, typer.Argument(help="The subject name.")]
NamesArgument = Annotated[
    list[str] | None, typer.Argument(help="Subjects; optional when there is only one.")
]
TargetOption = Annotated[str, typer.Option(help="Only targets that match, such as 'node-*'.")]

app.command("init")(init)
app.command("test")(try_out)


@app.command("show")
def show_(context: typer.Context, name: NameArgument, as_json: JsonOption = False) -> None:
    """Show one subject: targets, dependencies, invariants, tools, faults and notes."""
    with open_home(context) as app:
        view = show_subject(app, name)
    if as_json:
        print_json({"subject": view})
    else:
        _show(view)


@app.command("observe")
def observe_(
    context: typer.Context, names: NamesArgument = None, as_json: JsonOption = False
) -> None:
    """Observe subjects once and print every reading. Stores nothing."""
    with open_home(context) as app, waiting("checking"):
        found = run_until_stopped(observe_subject(app, names or []))
    if as_json:
        print_json({"observations": found})
    else:
        for observation in found:
            head = f"{clean(observation.subject)} at {observation.at:%Y-%m-%d %H:%M:%S} UTC"
            if observation.problem:
                print_lines([f"{head}: it cannot be observed: {clean(observation.problem)}"])
            else:
                print_lines([head])
                for seen in observation.seen:
                    print_lines(
                        [
                            f"  {clean(seen.target)}"
                            + (f": {clean(seen.problem)}" * bool(seen.problem))
                        ]
                    )
                    width = max((len(name) for name in seen.readings), default=0)
                    print_lines(
                        [
                            f"    {clean(key):{width}}  {clean(str(value))}"
                            for key, value in seen.readings.items()
                        ]
                    )
    raise typer.Exit(1 if any(observation.problem for observation in found) else 0)


@app.command("check")
def check_(
    context: typer.Context, names: NamesArgument = None, as_json: JsonOption = False
) -> None:
    """Check invariants once and print every finding. Exit 0 when all are healthy, else 1."""
    with open_home(context) as app, waiting("checking"):
        found = run_until_stopped(check_subject(app, names or []))
    health = worst(finding.health for check in found for finding in check.findings)
    if as_json:
        print_json({"health": health, "sightings": found})
    else:
        for check in found:
            # That it could be observed goes without saying.
            shown = [
                finding
                for finding in check.findings
                if finding.invariant != OBSERVABLE or finding.health is not Health.HEALTHY
            ]
            rows = [
                (finding.health, finding.target, finding.invariant, finding.detail or "-")
                for finding in sorted(shown, key=lambda finding: -finding.health.rank)
            ]
            print_lines([clean(check.observation.subject)])
            print_table(("health", "target", "invariant", "because"), rows)
    raise typer.Exit(0 if health is Health.HEALTHY else 1)


@app.command("history")
def history_(
    context: typer.Context,
    name: NameArgument,
    target: TargetOption = "*",
    reading: Annotated[str, typer.Option(help="Only readings that match, such as 'p99*'.")] = "*",
    since: Annotated[
        str, typer.Option(help="How far back: a duration such as 1h, or a time.")
    ] = "1h",
    replay: Annotated[
        bool,
        typer.Option(
            "--replay", help="Check the current invariants against the recorded readings."
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Chart recorded readings, or replay the invariants over them."""
    with open_home(context) as app:
        if replay:
            spells = replay_history(app, name, target=target, since=since)
            print_json({"replay": spells}) if as_json else print_spells(spells)
            return
        view = subject_history(app, name, target=target, reading=reading, since=since)
    print_json({"history": view}) if as_json else print_history(view)


arrange(app, "init", "test", "list", "show", "observe", "check", "history")


def _show(view: SubjectView) -> None:
    rig = ", a rig of the lab" if view.rig else ""
    print_lines(
        [
            f"{clean(view.name)}: {clean(view.sentence)}",
            f"plug-in {clean(view.plugin)}{rig}, checked every {view.interval_s:g} s,"
            f" {view.state.health}"
            + (f" ({clean(view.state.problem)})" if view.state.problem else ""),
            "",
        ]
    )
    states = {target.name: target.health for target in view.state.targets}
    rows: list[tuple[object, ...]] = [
        (
            target.name,
            target.kind,
            f"{target.host}:{target.port}" if target.port else target.host,
            states.get(target.name, "unknown"),
            ", ".join(target.depends_on) or "-",
        )
        for target in view.targets
    ]
    print_table(("target", "kind", "at", "health", "depends on"), rows)
    print_lines([""])
    rows = [
        (invariant.name, invariant.severity, f"{invariant.grace_s:g} s", invariant.sentence)
        for invariant in view.invariants
    ]
    print_table(("invariant", "severity", "grace", "what must hold"), rows)
    if view.tools:
        print_lines([""])
        rows = [(tool.name, tool.risk, tool.sentence) for tool in view.tools]
        print_table(("tool", "risk", "what it does"), rows)
    if view.faults:
        print_lines([""])
        rows = [(fault.name, ", ".join(fault.breaks), fault.sentence) for fault in view.faults]
        print_table(("fault", "breaks", "what happens"), rows)
    if view.notes:
        print_lines(["", *(clean(line) for line in view.notes.splitlines())])
