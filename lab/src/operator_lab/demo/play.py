"""The whole journey of an incident on its own rig. Only the fault is scripted."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from operator_lab.app.rigs import TargetView, break_rig, fault_of, own_rig, parts_of, rig_status
from operator_lab.crew import Crew, crew_files
from operator_lab.demo.story import (
    CHAPTERS,
    FAULT,
    REPORT,
    WATCH,
    Begun,
    Count,
    Ending,
    Event,
    Look,
    Part,
    Picture,
    Said,
    Told,
    chapter_of,
    story_of,
)
from operator_lab.rig import AnyRig
from operator_protocols.domain.entry import Kind
from operator_protocols.domain.health import Health, worst
from operator_protocols.errors import OperatorError, UsageError
from operator_sre.app.audit import verify_ledger
from operator_sre.app.story import Line, lines_of
from operator_sre.app.wiring import App
from operator_sre.config import Config
from operator_sre.plugins import find_plugin

__all__ = [
    "Cue",
    "Plan",
    "choose_fault",
    "crew_programs",
    "play",
    "sentence_of",
    "straight_on",
]

FOLDER = "crew"
# What a demo sets for all of its processes; nothing here could be a secret.
_SETTINGS = (
    "anthropic_model",
    "approval_s",
    "deadline_s",
    "interval_s",
    "profile",
    "stable_s",
    "timeout_s",
    "tokens_per_day",
    "usd_per_day",
)
_KEYS = ("ANTHROPIC_API_KEY", "OPERATOR_ANTHROPIC_API_KEY")


async def start_crew(app: App, subject: str, command: Sequence[str]) -> Crew:
    """Start both; they end with this process at the latest. `command` is how we are called."""
    config = app.config
    env = {f"OPERATOR_{name.upper()}": f"{config.values[name]}" for name in _SETTINGS}
    keys = [*_KEYS, *(model.key_env for model in config.models if model.key_env)]
    return await Crew.up(
        config.home / FOLDER,
        crew_programs(config, subject, command),
        env={**env, "OPERATOR_LOG_LEVEL": "warning"},
        inherits=tuple(dict.fromkeys(keys)),
        files=crew_files(config),
    )


def crew_programs(
    config: Config, subject: str, command: Sequence[str]
) -> dict[str, tuple[str, ...]]:
    """The words of each."""
    home = ("--home", str(config.home))
    kind, colon, path = str(config.values["model"]).partition(":")
    return {
        Part.MONITOR: (*command, "monitor", "run", "--subject", subject, "--tell", *home),
        Part.AGENT: (
            *(*command, "agent", "start", "--tell", "--mode", config.mode.value),
            *("--model", f"{kind}:{Path(path).absolute()}" if colon else kind, *home),
        ),
    }


POLL_S = 0.05
PICTURE_S = 0.5
COUNT_S = 1.0
HEALTHY_S_MAX = 20.0
LOOKS_BEFORE = 2
STORY_S_MAX = 180.0
# A person may be asked in between, and takes as long as they like.
ASKED_S_MAX = 900.0
DEFAULT_FAULT = "node_kill"
_OVER = frozenset({Kind.TICKET_RESOLVED, Kind.TICKET_ESCALATED})

# Awaited before a chapter begins: the audience decides when.
Cue = Callable[[int], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Plan:
    """What is played; `command` is how monitor and agent are started."""

    subject: str
    fault: str
    command: tuple[str, ...]
    seed: int | None = None
    countdown_s: int = 0


async def straight_on(chapter: int) -> None:
    """The cue of a play that never waits."""


def choose_fault(subject: str, fault: str | None) -> str:
    """The named fault, or a fault that every subject should have, or its first."""
    plugin = find_plugin(subject)
    if not (plugin.rig or plugin.stack) or not plugin.faults:
        raise UsageError(
            f"The subject {subject!r} has no rig or no faults.",
            next_step="List subjects and faults with: operator lab faults",
        )
    names = [fault.name for fault in plugin.faults]
    chosen = fault or (DEFAULT_FAULT if DEFAULT_FAULT in names else names[0])
    return fault_of(subject, chosen).name


def sentence_of(plan: Plan) -> str:
    """What the fault of a plan does, in a sentence."""
    return fault_of(plan.subject, plan.fault).sentence


async def play(app: App, plan: Plan, *, cue: Cue = straight_on) -> AsyncGenerator[Told, None]:
    """Rig, monitor, agent, fault, and everything that follows from it.

    The last thing it yields is the Ending. Leaves no process behind, whatever ends it.
    """
    fault_of(plan.subject, plan.fault)  # an unknown fault is an error now and not later
    queue: asyncio.Queue[Told | None] = asyncio.Queue()
    director = _Director(app, plan, cue, queue.put_nowait)
    work = asyncio.create_task(director.run())
    work.add_done_callback(lambda _: queue.put_nowait(None))
    try:
        while (event := await queue.get()) is not None:
            yield event
        work.result()
    finally:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)


class _Director:
    """Plays the chapters; beside them it passes on what the programs say and how things stand."""

    def __init__(self, app: App, plan: Plan, cue: Cue, tell: Callable[[Told], None]) -> None:
        self._app = app
        self._plan = plan
        self._cue = cue
        self._tell = tell
        self._look = Look.NORMAL
        self._times: dict[str, float] = {}
        self._ticket: int | None = None
        self._target = ""
        self._is_asked = False
        self._chapters_told: set[int] = set()

    async def run(self) -> None:
        rig: AnyRig | None = None
        crew: Crew | None = None
        beside: list[asyncio.Task[None]] = []
        try:
            app, subject = self._app, self._plan.subject
            self._tell(Begun(1))
            self._say("rig", f"starting a real {subject} on private ports ...")
            self._tell_story("rig", 1)
            parts = parts_of(find_plugin(subject))
            self._tell(
                Picture(
                    self._look,
                    tuple(
                        TargetView(part.name, part.kind, "starting", None, "", None, "", "")
                        for part in parts
                    ),
                    None,
                )
            )
            rig = await own_rig(app, subject)
            for target in rig_status(app, subject).targets:
                process = f"pid {target.pid}" if target.pid else "container"
                where = f"{target.name:8} {target.kind:6} {process} port {target.port}"
                self._say("rig", where, kind="rig_up")
            beside.append(asyncio.create_task(self._pictures()))
            await self._until_healthy()
            self._tell(Begun(1, ready=True))
            await self._cue(WATCH)
            self._tell(Begun(WATCH))
            crew = await start_crew(self._app, self._plan.subject, self._plan.command)
            beside.append(asyncio.create_task(self._voices(crew)))
            await _first_of(self._journey(), *beside)
        finally:
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)
            if crew is not None:
                await crew.down()
            if rig is not None:
                await rig.down()
            await self._app.programs.dismiss()

    async def _journey(self) -> None:
        """From the watch to the end; the viewer says when the fault comes."""
        newest, subject = self._app.store.observations.newest, self._plan.subject
        deadline = time.monotonic() + HEALTHY_S_MAX
        seen = len(newest(subject, limit=100)) + LOOKS_BEFORE
        while time.monotonic() < deadline:
            if len(newest(subject, limit=100)) >= seen:
                break
            await asyncio.sleep(POLL_S)
        self._tell_story("watch", WATCH)
        load = rig_status(self._app, subject).load
        traffic = f"{load.ops_per_s:.0f} requests/s" if load else "no traffic"
        self._say(
            "watch",
            f"the monitor has checked {LOOKS_BEFORE} times: all invariants hold, {traffic}",
            "good",
            kind="healthy",
        )
        self._tell(Begun(WATCH, ready=True))
        await self._cue(FAULT)
        self._tell(Begun(FAULT))
        last = self._app.store.entries.newest(limit=1)
        before = last[0].seq if last else 0
        plan = self._plan
        for left_s in range(plan.countdown_s, 0, -1):
            self._tell(Count(left_s))
            await asyncio.sleep(COUNT_S)
        self._tell(Count(0))
        self._look = Look.INJECTING
        self._target = await break_rig(
            self._app, plan.subject, plan.fault, target=None, seed=plan.seed
        )
        self._times["fault"] = time.monotonic()
        self._tell_story("fault", FAULT)
        self._say(
            "fault",
            f"{plan.fault}: injected into {self._target}; monitor and agent do not know",
            "bad",
        )
        await self._follow(before)
        self._tell(Begun(REPORT))
        report = verify_ledger(self._app, progress=lambda seq: None)
        times: Mapping[str, float] = self._times
        fault, detected = times["fault"], times.get(Kind.TICKET_OPENED)
        repaired, proven = times.get(Kind.TOOL_RESULT), times.get(Kind.TICKET_RESOLVED)
        self._tell(
            Ending(
                ticket=None if self._ticket is None else self._app.store.tickets.get(self._ticket),
                target=self._target,
                detect_s=detected - fault if detected else None,
                repair_s=repaired - detected if repaired and detected else None,
                proof_s=proven - detected if proven and detected else None,
                entries=report.entries,
                chain_whole=report.whole,
                load=rig_status(self._app, self._plan.subject).load,
            )
        )
        await self._cue(len(CHAPTERS) + 1)

    async def _until_healthy(self) -> None:
        """A demo on a rig that was never well would show nothing."""
        subject = self._plan.subject
        pipeline = self._app.engine().pipeline
        controls = pipeline.controls(subject)
        deadline = time.monotonic() + HEALTHY_S_MAX
        while time.monotonic() < deadline:
            check = await pipeline.monitor.check(controls.subject)
            if worst(finding.health for finding in check.findings) is Health.HEALTHY:
                return
            await asyncio.sleep(0.2)
        raise OperatorError(
            f"The rig of {subject!r} did not become healthy within {HEALTHY_S_MAX:g} s.",
            next_step="Inspect it with: operator lab up, operator lab status",
        )

    async def _follow(self, after: int) -> None:
        """Show every new entry of the ledger behind `after`, until a ticket has ended."""
        seq, began = after, time.monotonic()
        while time.monotonic() < began + (ASKED_S_MAX if self._is_asked else STORY_S_MAX):
            for entry in self._app.store.entries.after(seq, limit=100):
                seq = entry.seq
                now = time.monotonic()
                self._times.setdefault(entry.kind, now)
                match entry.kind:
                    case Kind.TOOL_RESULT:
                        self._times[entry.kind] = now  # the last thing done is the repair
                    case Kind.TICKET_OPENED:
                        self._look = Look.RECOVERING
                    case Kind.TICKET_RESOLVED:
                        self._look = Look.NORMAL
                    case Kind.APPROVAL_REQUESTED:
                        self._is_asked = True
                self._ticket = entry.ticket or self._ticket
                for line in lines_of(entry):
                    event = Event(line, entry.seq, entry.kind.value, entry.payload, entry.ticket)
                    if (chapter := chapter_of(event)) is not None:
                        self._tell(Begun(chapter))
                    self._tell(event)
                    if chapter is not None and chapter not in self._chapters_told:
                        self._chapters_told.add(chapter)
                        self._tell_story(line.step, chapter)
                if entry.kind in _OVER:
                    return
            await asyncio.sleep(POLL_S)
        self._say("close", f"the ticket was not closed within {STORY_S_MAX:g} s", "bad")

    async def _pictures(self) -> None:
        """How the cluster stands, twice a second."""
        app, subject = self._app, self._plan.subject
        while True:
            view = rig_status(app, subject)
            broken: dict[str, tuple[str, ...]] = {}
            for condition in app.store.conditions.of(subject):
                if condition.health is Health.BROKEN:
                    broken[condition.target] = (
                        *broken.get(condition.target, ()),
                        condition.invariant,
                    )
            self._tell(Picture(self._look, view.targets, view.load, broken))
            await asyncio.sleep(PICTURE_S)

    async def _voices(self, crew: Crew) -> None:
        """Show the output of monitor and agent; when one of them exits, the play ends."""
        while True:
            ended = crew.exits()
            last: dict[Part, str] = {}
            for part in Part:
                if lines := crew.lines(part):
                    self._tell(Said(part, tuple(lines)))
                    last[part] = lines[-1]
            for name, code in ended.items():
                line = last.get(Part(name), "")
                raise OperatorError(
                    f"The {name} exited with code {code}. {line}".rstrip(),
                    next_step=f"Start it by hand to see why: operator {name} --help",
                )
            await asyncio.sleep(POLL_S)

    def _tell_story(self, step: str, chapter: int) -> None:
        """What the subject says of a chapter, where it says anything."""
        if text := story_of(chapter, find_plugin(self._plan.subject).story):
            self._say(step, text)

    def _say(self, step: str, text: str, tone: str = "plain", *, kind: str = "") -> None:
        self._tell(Event(Line(step, text, tone), kind=kind))


async def _first_of(main: Awaitable[None], *beside: asyncio.Task[None]) -> None:
    """Do the main thing; what goes wrong beside it goes wrong for all."""
    task = asyncio.ensure_future(main)
    try:
        await asyncio.wait([task, *beside], return_when=asyncio.FIRST_COMPLETED)
        for other in beside:
            if other.done():
                other.result()
        await task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
