"""Rigs: start, break, repair, restart and remove them."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from graphlib import TopologicalSorter
from pathlib import Path

from operator_lab import faults
from operator_lab.artifacts import fetch_artifacts
from operator_lab.builders import build_for, unbuildable
from operator_lab.kubernetes.build import SAMPLE_IMAGE, build_sample
from operator_lab.load import Latency, LoadStats, read_load
from operator_lab.rig import AnyRig, Make, Rig, attach, retire_any
from operator_lab.stacks.containers import Containers, at_once
from operator_lab.stacks.rig import raise_stack
from operator_lab.stacks.target import find_compose
from operator_protocols.domain.target import Target
from operator_protocols.errors import MissingExtraError, NotFoundError, RigError, UsageError
from operator_protocols.ports import CorrectOutcome, Fault, Plugin
from operator_sre.app.wiring import App
from operator_sre.app.wiring.engines import desk_of
from operator_sre.plugins import find_plugin, plugin_names

__all__ = [
    "BrokenView",
    "FaultView",
    "Latency",
    "RigView",
    "TargetView",
    "attach_rig",
    "break_rig",
    "check_rig",
    "choose_fault",
    "choose_rig",
    "fault_of",
    "faults_of",
    "heal_all",
    "heal_rig",
    "no_rig",
    "own_rig",
    "parts_of",
    "raise_rig",
    "restart_rig",
    "rig_down",
    "rig_report",
    "rig_status",
    "rig_up",
    "rigs_there_are",
    "rigs_up",
]


def _say_nothing(_: str) -> None:
    """Drop the progress of a build or a download."""


async def raise_rig(
    subject: str,
    directory: Path,
    *,
    make: str | None,
    owned: bool,
    tell: Callable[[str], None] = _say_nothing,
) -> AnyRig:
    """Bring one up. Without a `make` it is of processes where they can be had, else containers.

    `tell` gets what is fetched or built before, and how far it is.
    """
    plugin = find_plugin(subject)
    chosen = _choose_make(plugin, make)
    if chosen is Make.PROCESSES and plugin.rig is not None:
        spec = plugin.rig()
        if spec.note:
            tell(spec.note)
        await asyncio.to_thread(fetch_artifacts, spec.artifacts, tell)
        stop = threading.Event()
        try:
            await asyncio.to_thread(build_for, spec, tell, stop)
        finally:
            stop.set()
        tell("starting the rig")
        return await Rig.up(replace(spec, artifacts=()), directory, owned=owned)
    if chosen is Make.COMPOSE and plugin.stack is not None:
        return await raise_stack(plugin.stack(), directory, owned=owned)
    if chosen is None:
        raise UsageError(f"The subject {subject!r} has no rig.", next_step=rigs_there_are())
    raise UsageError(
        f"The subject {subject!r} has no rig of {chosen}.", next_step=_makes_told(plugin)
    )


def rigs_there_are() -> str:
    """The subjects that have a rig, as a sentence."""
    able = [name for name in plugin_names() if _makes(find_plugin(name))]
    return f"Rigs: {', '.join(able) or 'none'}."


def no_rig(plugin: Plugin) -> str:
    """Why this machine cannot run the rig, as far as that is known without Docker, or ""."""
    if plugin.stack is not None:
        return ""
    if plugin.rig is None:
        return "it has no rig"
    try:
        spec = plugin.rig()
    except (MissingExtraError, RigError) as problem:
        return str(problem)
    return unbuildable(spec)


def check_rig(plugin: Plugin) -> None:
    """OperatorError where this machine cannot run the rig, before anything is started."""
    match _choose_make(plugin, None):
        case Make.PROCESSES if plugin.rig is not None:
            fetch_artifacts(plugin.rig().artifacts, _say_nothing)
        case Make.COMPOSE if plugin.stack is not None:
            plugin.stack()
            at_once(find_compose())
            at_once(Containers("").reach())
        case _:
            raise UsageError(f"The subject {plugin.name!r} has no rig.")


def parts_of(plugin: Plugin) -> tuple[Target, ...]:
    """The parts of a rig that is not up, as its description tells."""
    if _choose_make(plugin, None) is Make.PROCESSES and plugin.rig is not None:
        return tuple(
            Target(process.name, process.kind, depends_on=process.depends_on)
            for process in plugin.rig().processes
        )
    services = () if plugin.stack is None else plugin.stack().services
    return tuple(
        Target(service.name, service.kind, depends_on=service.depends_on) for service in services
    )


def _makes(plugin: Plugin) -> tuple[Make, ...]:
    there = {Make.PROCESSES: plugin.rig, Make.COMPOSE: plugin.stack}
    return tuple(make for make, factory in there.items() if factory is not None)


def _makes_told(plugin: Plugin) -> str:
    return f"Rigs of {plugin.name}: {', '.join(_makes(plugin)) or 'none'}."


def _choose_make(plugin: Plugin, name: str | None) -> Make | None:
    makes = _makes(plugin)
    if name is not None:
        if name not in list(Make):
            raise UsageError(
                f"A rig cannot be made of {name[:80]!r}.", next_step=_makes_told(plugin)
            )
        return Make(name)
    if plugin.rig is not None and plugin.stack is not None:
        # Without its programs containers are the nearer way; an extra is installed by one command.
        try:
            plugin.rig()
        except MissingExtraError:
            return Make.PROCESSES
        except RigError:
            return Make.COMPOSE
    return makes[0] if makes else None


ORACLE_S_MAX = 10.0
UP = "operator lab up SUBJECT"


@dataclass(frozen=True, slots=True)
class TargetView:
    """A target as a person needs it to break it by hand.

    `port` is where it is reached, `ports` are those it listens on itself, its main one first.
    """

    name: str
    kind: str
    state: str
    pid: int | None
    host: str
    port: int | None
    log: str
    data_dir: str
    ports: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BrokenView:
    """A fault that is in a rig, and what its oracle says; `over` is None when it was not asked."""

    fault: str
    target: str
    over: bool | None = None
    still: str = ""


@dataclass(frozen=True, slots=True)
class FaultView:
    """A fault that a subject can have; `available` is None where no rig is up to tell."""

    subject: str
    name: str
    sentence: str
    kind: str
    breaks: tuple[str, ...]
    end: CorrectOutcome
    available: bool | None
    why_not: str = ""


@dataclass(frozen=True, slots=True)
class RigView:
    """A rig with all its targets."""

    subject: str
    directory: str
    targets: tuple[TargetView, ...]
    load: LoadStats | None
    faults: tuple[str, ...]
    broken: tuple[BrokenView, ...] = ()


async def rig_up(
    app: App,
    subject: str | None,
    *,
    make: str | None = None,
    tell: Callable[[str], None] = _say_nothing,
) -> RigView:
    """Bring the rig of a subject to life under this home; it runs until it is taken down.

    `tell` gets what is fetched or built before, and how far it is.
    """
    if subject is None:
        raise UsageError("Name a subject.", next_step=rigs_there_are())
    await raise_rig(subject, app.rig_directory(subject), make=make, owned=False, tell=tell)
    return rig_status(app, subject)


async def attach_rig(
    app: App,
    subject: str,
    options: Mapping[str, str],
    *,
    tell: Callable[[str], None] = _say_nothing,
) -> RigView:
    """Put a rig into a system that exists already; `lab down` removes all of it there."""
    plugin = find_plugin(subject)
    if plugin.attach is None:
        able = [name for name in plugin_names() if find_plugin(name).attach is not None]
        raise UsageError(
            f"A rig of {subject!r} cannot be attached to a system.",
            next_step=f"It can be: {', '.join(able)}.",
        )
    spec = plugin.attach(options)
    if not options.get("image"):
        stop = threading.Event()
        try:
            image = await asyncio.to_thread(build_sample, tell=tell, stop=stop)
        finally:
            stop.set()
        tell(f"The nodes need the image {SAMPLE_IMAGE!r}, which is in {str(image)!r}.")
    tell("starting the sample")
    try:
        await Rig.up(spec, app.rig_directory(subject), owned=False)
    except RigError as problem:
        if "image" not in problem.message:
            raise
        raise RigError(
            problem.message,
            next_step="Images are loaded with: kind load image-archive FILE, k3s ctr images import "
            "FILE; or name an image that the nodes can pull with --image.",
        ) from problem
    return rig_status(app, subject)


async def own_rig(app: App, subject: str) -> AnyRig:
    """A rig that ends with this process at the latest; the caller holds it and takes it down."""
    return await raise_rig(subject, app.rig_directory(subject), make=None, owned=True)


async def rig_down(app: App, subject: str) -> None:
    """Stop a rig and remove its directory."""
    find_plugin(subject)
    await retire_any(app.rig_directory(subject))
    if why := app.why_gone(subject):  # a configured subject of the same name has its own tickets
        await desk_of(app).retire(subject, why)


def rigs_up(app: App) -> list[str]:
    """The subjects whose rig lies under this home."""
    return [name for name in plugin_names() if (app.rig_directory(name) / "rig.json").exists()]


def choose_rig(app: App, subject: str | None) -> str:
    """The subject that was named, or that of the only rig that is up."""
    if subject is not None:
        find_plugin(subject)
        return subject
    found = rigs_up(app)
    if not found:
        raise NotFoundError("No rig is up.", next_step=f"Start one with: {UP}")
    if len(found) > 1:
        raise UsageError("Several rigs are up.", next_step=f"Name one of: {', '.join(found)}.")
    return found[0]


def choose_fault(app: App, words: Sequence[str]) -> tuple[str, str | None]:
    """Subject and fault, of which each may be left out; one word alone may be either."""
    match list(words):
        case []:
            return choose_rig(app, None), None
        case [word] if word in plugin_names():
            return word, None
        case [word]:
            return choose_rig(app, None), word
        case [subject, fault]:
            return choose_rig(app, subject), fault
        case _:
            raise UsageError(
                "At most a subject and a fault can be named.",
                next_step="See them with: operator lab faults",
            )


def rig_status(app: App, subject: str) -> RigView:
    """Every target as it is now."""
    plugin = find_plugin(subject)
    rig = attach(app.rig_directory(subject))
    states = {process.name: process.state for process in rig.status().processes}
    own = [(key.partition(":"), port) for key, port in rig.own_ports().items()]
    targets = [
        TargetView(
            name=target.name,
            kind=target.kind,
            state=states.get(target.name, "gone"),
            pid=target.process.pid if target.process else None,
            host=target.host,
            port=target.port,
            log=target.log,
            data_dir=target.data_dir,
            ports={name or "main": port for (of, _, name), port in own if of == target.name},
        )
        for target in rig.targets()
    ]
    return RigView(
        subject=subject,
        directory=str(app.rig_directory(subject)),
        targets=tuple(targets),
        load=read_load(app.rig_directory(subject)),
        faults=tuple(fault.name for fault in plugin.faults),
        broken=tuple(BrokenView(broken.fault, broken.target) for broken in faults.broken(rig)),
    )


async def rig_report(app: App, subject: str) -> RigView:
    """The same, and of every fault in it what its oracle says."""
    view = rig_status(app, subject)
    rig = attach(app.rig_directory(subject))
    judgements = (
        _ask_oracle(rig, fault_of(subject, broken.fault), broken) for broken in view.broken
    )
    return replace(view, broken=tuple(await asyncio.gather(*judgements)))


async def _ask_oracle(rig: AnyRig, fault: Fault, broken_view: BrokenView) -> BrokenView:
    try:
        async with asyncio.timeout(ORACLE_S_MAX):
            still = await faults.is_over(rig, fault, target=broken_view.target)
    except TimeoutError:
        still = f"the oracle gave no answer within {ORACLE_S_MAX:g} s"
    except Exception as problem:  # noqa: BLE001  what a stranger's oracle raises is no good news
        still = f"the oracle failed: {type(problem).__name__}: {problem}"
    return replace(broken_view, over=not still, still=still)


async def restart_rig(app: App, subject: str, *, target: str | None) -> tuple[str, ...]:
    """Restart one target, or all, each after its dependencies; returns their names."""
    rig = attach(app.rig_directory(subject))
    if target is not None:
        await rig.restart(target)
        return (target,)
    order = TopologicalSorter({target.name: target.depends_on for target in rig.targets()})
    order.prepare()
    done: list[str] = []
    while order.is_active():
        able = order.get_ready()
        await asyncio.gather(*(rig.restart(name) for name in able))
        order.done(*able)
        done += able
    return tuple(done)


async def break_rig(
    app: App, subject: str, fault: str | None, *, target: str | None, seed: int | None
) -> str:
    """Inject a fault; returns the target that was hit. UsageError lists faults if none is named."""
    if fault is None:
        raise UsageError("Name a fault.", next_step=_list_faults(find_plugin(subject)))
    found = fault_of(subject, fault)
    rig = attach(app.rig_directory(subject))
    return await faults.inject(rig, found, target=target, rng=random.Random(seed))


async def heal_rig(app: App, subject: str, fault: str, *, target: str | None) -> str:
    """Undo a fault; returns the target."""
    found = fault_of(subject, fault)
    rig = attach(app.rig_directory(subject))
    return await faults.heal(rig, found, target=target)


async def heal_all(app: App, subject: str, *, target: str | None) -> tuple[BrokenView, ...]:
    """Undo every fault (at this target), newest first; returns what was undone.

    A fault that cannot be undone does not keep the others.
    """
    rig = attach(app.rig_directory(subject))
    if target is not None:
        rig.require(target)  # NotFoundError names those there are
    healed, problems = [], []
    for broken in reversed(faults.broken(rig)):
        if target not in (None, broken.target):
            continue
        try:
            await faults.heal(rig, fault_of(subject, broken.fault), target=broken.target)
            healed.append(BrokenView(broken.fault, broken.target))
        except (NotFoundError, RigError) as problem:
            problems.append(f"{broken.fault} at {broken.target}: {problem.message}")
    if problems:
        raise RigError(
            f"Not everything could be healed. {' '.join(problems)}",
            next_step=f"Start over with: operator lab down {subject}",
        )
    return tuple(healed)


def fault_of(subject: str, name: str) -> Fault:
    """A fault or control of a subject by its name; NotFoundError lists the faults there are."""
    plugin = find_plugin(subject)
    for fault in (*plugin.faults, *plugin.controls):
        if fault.name == name:
            return fault
    raise NotFoundError(f"{subject!r} has no fault {name!r}.", next_step=_list_faults(plugin))


def _list_faults(plugin: Plugin) -> str:
    return f"Faults: {', '.join(fault.name for fault in plugin.faults) or 'none'}."


def faults_of(app: App, subject: str | None) -> tuple[FaultView, ...]:
    """Every fault of a subject, or of all that are installed, and whether it can be had here."""
    views = []
    for name in plugin_names() if subject is None else [subject]:
        plugin = find_plugin(name)
        rig = attach(app.rig_directory(name)) if name in rigs_up(app) else None
        why_not = no_rig(plugin) if rig is None else ""
        for fault in plugin.faults:
            why = why_not if rig is None else faults.unavailable(rig, fault)
            available = None if rig is None and not why else not why
            facts = (fault.name, fault.sentence, fault.kind, fault.breaks, fault.end)
            views.append(FaultView(name, *facts, available, why))
    return tuple(views)
