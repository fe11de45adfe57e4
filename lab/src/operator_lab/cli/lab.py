"""`operator lab`: real systems to break."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from operator_sre.faces.cli.options import JsonOption, open_home
from operator_sre.faces.cli.output import clean, print_json, print_lines, print_table
from operator_sre.faces.cli.progress import show_progress, waiting
from operator_sre.faces.cli.signals import run_until_stopped

if TYPE_CHECKING:
    from operator_lab.app.rig_logs import LogView
    from operator_lab.app.rigs import Latency, RigView
    from operator_sre.app.wiring import App

__all__ = ["app"]

LINES_MAX = 10_000
BROKEN_OFF = "Stopped. Nothing of the rig is left."
app = typer.Typer(help="Run disposable systems and break them.", no_args_is_help=True)
TargetOption = Annotated[
    str | None, typer.Option(help="The target; chosen by the fault by default.")
]
SubjectArgument = Annotated[
    str | None, typer.Argument(help="The rig's subject; optional when only one rig is up.")
]
WordsArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[SUBJECT] FAULT",
        help="[SUBJECT] FAULT; the subject is optional when only one rig is up.",
    ),
]


@app.command()
def up(
    context: typer.Context,
    subject: Annotated[str | None, typer.Argument(help="The subject to copy.")] = None,
    rig: Annotated[str | None, typer.Option(help="processes, or compose for containers.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Start a disposable copy of a subject on private ports. It runs until `lab down`."""
    from operator_lab.app.rigs import rig_up

    progress = ["starting the rig"]

    def tell(sentence: str) -> None:
        progress.append(sentence)
        if sentence.endswith("."):  # the cost always; progress on terminals only
            sys.stderr.write(f"{sentence}\n")

    with open_home(context) as app, show_progress(lambda: progress[-1]):
        view = run_until_stopped(rig_up(app, subject, make=rig, tell=tell), last=BROKEN_OFF)
    _show(view, context.obj.home, as_json=as_json)


@app.command()
def attach(
    context: typer.Context,
    subject: Annotated[str, typer.Argument(help="The subject.")] = "kubernetes",
    kubeconfig: Annotated[str, typer.Option(help="The kubeconfig; kubectl's by default.")] = "",
    cluster: Annotated[
        str, typer.Option("--context", help="The context; the current one by default.")
    ] = "",
    namespace: Annotated[
        str, typer.Option(help="The namespace to make; it must not exist.")
    ] = "operator-lab",
    image: Annotated[
        str, typer.Option(help="An image of the sample application; built here by default.")
    ] = "",
    as_json: JsonOption = False,
) -> None:
    """Put the sample into a cluster that exists, in a namespace of its own, until `lab down`."""
    from operator_lab.app.rigs import attach_rig

    progress = ["building the sample"]

    def tell(sentence: str) -> None:
        progress.append(sentence)
        if sentence.endswith("."):
            sys.stderr.write(f"{sentence}\n")

    given = {"kubeconfig": kubeconfig, "context": cluster, "namespace": namespace, "image": image}
    with open_home(context) as app, show_progress(lambda: progress[-1]):
        view = run_until_stopped(attach_rig(app, subject, given, tell=tell), last=BROKEN_OFF)
    _show(view, context.obj.home, as_json=as_json)


@app.command()
def down(
    context: typer.Context, subject: SubjectArgument = None, as_json: JsonOption = False
) -> None:
    """Stop a rig and remove its directory."""
    from operator_lab.app.rigs import choose_rig, rig_down, rigs_up

    with open_home(context) as app:
        found = None
        if subject is not None or rigs_up(app):
            found = choose_rig(app, subject)
            with waiting("stopping the rig"):
                run_until_stopped(rig_down(app, found))
    if as_json:
        print_json({"subject": found, "down": True})
    elif found is None:
        print_lines(["No rig is up."])
    else:
        print_lines([f"The rig of {found} is down; nothing of it is left."])


@app.command()
def status(
    context: typer.Context, subject: SubjectArgument = None, as_json: JsonOption = False
) -> None:
    """Show a rig: its targets, active faults and load."""
    from operator_lab.app.rigs import choose_rig, rig_report

    with open_home(context) as app:
        found = choose_rig(app, subject)
        with waiting("checking the rig"):
            view = run_until_stopped(rig_report(app, found))
    _show(view, context.obj.home, as_json=as_json)


@app.command()
def restart(
    context: typer.Context,
    subject: SubjectArgument = None,
    target: Annotated[str | None, typer.Option(help="The target; all by default.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Restart one target or all. Active faults stay recorded."""
    from operator_lab.app.rigs import choose_rig, restart_rig

    with open_home(context) as app:
        found = choose_rig(app, subject)
        with waiting("restarting"):
            names = run_until_stopped(restart_rig(app, found, target=target))
    if as_json:
        print_json({"subject": found, "restarted": names})
    else:
        print_lines([clean(f"Restarted: {', '.join(names)}.")])


@app.command("break")
def break_(
    context: typer.Context,
    words: WordsArgument = None,
    target: TargetOption = None,
    seed: Annotated[
        int | None, typer.Option(help="Seed for choosing the target, to repeat a run.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Inject a fault. Operator is not informed."""
    from operator_lab.app.rigs import break_rig, choose_fault

    with open_home(context) as app:
        subject, fault = choose_fault(app, words or ())
        with waiting("breaking it"):
            hit = run_until_stopped(break_rig(app, subject, fault, target=target, seed=seed))
    if as_json:
        print_json({"subject": subject, "fault": fault, "target": hit})
    else:
        print_lines([f"{fault}: injected into {hit}."])


@app.command()
def heal(
    context: typer.Context,
    words: WordsArgument = None,
    target: TargetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Heal one fault, or all, the newest first."""
    from operator_lab.app.rigs import BrokenView, choose_fault, heal_all, heal_rig

    with open_home(context) as app:
        subject, fault = choose_fault(app, words or ())
        if fault is None:
            healed = run_until_stopped(heal_all(app, subject, target=target))
        else:
            hit = run_until_stopped(heal_rig(app, subject, fault, target=target))
            healed = (BrokenView(fault, hit),)
    if as_json:
        healed_fault = {"fault": fault, "target": healed[0].target} if fault is not None else {}
        done = [{"fault": each.fault, "target": each.target} for each in healed]
        print_json({"subject": subject, **healed_fault, "healed": done})
    else:
        lines = [f"{each.fault}: {each.target} is healed." for each in healed]
        print_lines(lines or [f"Nothing is broken in the rig of {subject}."])


@app.command()
def faults(
    context: typer.Context, subject: SubjectArgument = None, as_json: JsonOption = False
) -> None:
    """List faults, and whether this machine supports them."""
    from operator_lab.app.rigs import faults_of

    with open_home(context) as app:
        found = faults_of(app, subject)
    if as_json:
        print_json({"faults": found})
        return
    words = {None: "when a rig is up", True: "yes"}
    rows = [
        (
            *(fault.subject, fault.name, fault.kind, ", ".join(fault.breaks), fault.end),
            words.get(fault.available) or f"no: {fault.why_not}",
            fault.sentence,
        )
        for fault in found
    ]
    print_table(
        ("subject", "fault", "kind", "breaks", "correct outcome", "available", "effect"), rows
    )


@app.command()
def logs(
    context: typer.Context,
    subject: SubjectArgument = None,
    target: Annotated[str | None, typer.Option(help="The target; all by default.")] = None,
    lines: Annotated[
        int, typer.Option(min=1, max=LINES_MAX, help="Maximum number of lines of each log.")
    ] = 20,
    follow: Annotated[bool, typer.Option("--follow", help="Keep printing new lines.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Print the logs of a rig."""
    from operator_lab.app.rig_logs import read_logs
    from operator_lab.app.rigs import choose_rig

    with open_home(context) as app:
        found = choose_rig(app, subject)
        if follow:
            run_until_stopped(_follow(app, found, target, lines, as_json=as_json))
            return
        views = read_logs(app, found, target=target, lines=lines)
    if as_json:
        print_json({"subject": found, "logs": views})
        return
    for view in views:
        _say(view)


async def _follow(app: App, subject: str, target: str | None, lines: int, *, as_json: bool) -> None:
    from operator_lab.app.rig_logs import follow_logs

    async for view in follow_logs(app, subject, target=target, lines=lines):
        if as_json:
            for line in view.lines:
                print_json({"target": view.target, "line": line}, line=True)
        else:
            _say(view)


def _say(view: LogView) -> None:
    print_lines([f"{view.target:12}{clean(line)}" for line in view.lines])


def _show(view: RigView, home: str | None, *, as_json: bool) -> None:
    if as_json:
        print_json({"rig": view})
        return
    rows = []
    for target in view.targets:
        # Where it is reached, and where it listens if that is somewhere else.
        further = [f"{name} {port}" for name, port in target.ports.items() if port != target.port]
        ports = f"{target.port} ({', '.join(further)})" if further else f"{target.port}"
        places = (target.data_dir, target.log)
        shown = (place.removeprefix(f"{view.directory}/") or "-" for place in places)
        rows.append((target.name, target.kind, target.state, target.pid or "-", ports, *shown))
    print_table(("target", "kind", "state", "pid", "port", "data", "log"), rows)
    lines = []
    if (load := view.load) is not None:
        done = load.success_rate
        rate = "no request completed" if done is None else f"{done:.1%} ok"
        last, ever = _latency(load.latency), _latency(load.latency_total)
        lines = [
            f"load:      {load.shape}, {load.ops_per_s:.0f}/s, {rate}, {last}",
            f"           since the start: {load.total} requests, {load.failed} failed, {ever}",
        ]
    for broken in view.broken:
        over = {None: "", True: ", already gone"}.get(broken.over, f", still: {broken.still}")
        lines.append(f"broken:    {broken.fault} at {broken.target}{over}")
    lines.append(f"directory: {view.directory}")
    if view.faults:
        here = f" --home {shlex.quote(home)}" if home else ""
        others = len(view.faults) - 1
        all_of = f"operator lab faults {view.subject}{here}"
        more = f"or {others} other ways: {all_of}; " if others else ""
        heal = [f"heal it:   operator lab heal {view.subject}{here}"] if view.broken else []
        lines += [
            f"break it:  operator lab break {view.subject} {view.faults[0]}{here}",
            f"           ({more}or kill a pid yourself)",
            *heal,
            f"watch it:  operator up --subject {view.subject} --mode execute{here}",
        ]
    print_lines([clean(line) for line in lines])


def _latency(latency: Latency) -> str:
    if latency.p50_ms is None:
        return "no answers"
    return f"p50 {latency.p50_ms:.1f} ms, p95 {latency.p95_ms:.1f} ms, p99 {latency.p99_ms:.1f} ms"
