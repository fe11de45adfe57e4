"""Who works in a trial: the agents of a variant, or a control that knows the fault."""

from __future__ import annotations

import asyncio
import contextlib
import glob
import json
import random
from collections.abc import Sequence
from datetime import timedelta

from operator_evals.app.trial_rig import (
    TRIGGER,
    FaultOfTrial,
    Job,
    RigOfTrial,
    model_of,
    settings_for,
)
from operator_evals.campaign import Control, Scenario, budgets_of, denied_tools
from operator_evals.facts import TicketFact
from operator_evals.trial import ENDED
from operator_lab import faults
from operator_lab.crew import Crew
from operator_protocols.domain.alert import Alert
from operator_protocols.domain.diagnosis import Diagnosis, Hypothesis
from operator_protocols.domain.entry import Actor, Draft, Kind
from operator_protocols.domain.health import Severity
from operator_protocols.domain.silence import Silence
from operator_protocols.domain.ticket import Move, MoveKind, Ticket
from operator_protocols.errors import ConflictError, RigError
from operator_protocols.ports import Ability, CorrectOutcome, Fault
from operator_sre.app.wiring import App
from operator_sre.codec import to_json
from operator_sre.plugins import find_plugin

__all__ = ["ControlOfTrial", "Knowing", "VariantAtWork", "ticket_fact", "truth_of"]

PROGRAM = "operator"
POLL_S = 0.2
LINES_MAX = 5
_ME = Actor("oracle", "system")


class VariantAtWork:
    """The operator as a person would start it, under a supervisor that ends with us."""

    def __init__(self, app: App, job: Job, place: RigOfTrial) -> None:
        self._app = app
        self._job = job
        self._place = place
        self._crew: Crew | None = None

    async def start(self) -> None:
        """Start it; a policy in its home says what the variant may not use.

        Where the agent starts late, only the monitor runs at first.
        """
        limits = budgets_of(self._job.variant)
        known = {tool.spec.name for tool in self._place.controls.executor.tools}
        lines = ["version: 1"]
        if denied := denied_tools(self._job.variant, known):
            lines += ["tools:", *(f"  {json.dumps(name)}: deny" for name in denied)]
        if limits:
            lines += ["budgets:", *(f"  {name}: {value:g}" for name, value in limits.items())]
        if len(lines) > 1:
            (self._job.home / "policy.yaml").write_text("\n".join([*lines, ""]), encoding="utf-8")
        if self._job.planned.scenario.fault == Control.RECOVERED:
            await self._begin(self._watching_words())
        else:
            await self.work()

    async def work(self) -> None:
        """Start the agent now."""
        job = self._job
        model = model_of(job.variant, job.planned.seed)
        words = ("up", "--subject", job.planned.scenario.subject, "--model", model)
        await self._begin((*self._front(), *words) if model else self._watching_words())

    async def _begin(self, words: tuple[str, ...]) -> None:
        env = {f"OPERATOR_{key.upper()}": text for key, text in settings_for(self._job).items()}
        self._crew = await Crew.up(
            self._job.home / "crew",
            {PROGRAM: words},
            env=env,
            inherits=self._job.passes,
            files={"operator.toml": self._job.settings_file},
        )

    def watching(self) -> bool:
        """Whether it has checked the rig; RigError when it ended by itself."""
        if self._crew is not None and (exits := self._crew.exits()):
            output = " ".join(self._crew.lines(PROGRAM)[-LINES_MAX:])
            raise RigError(f"The operator exited with {exits[PROGRAM]}: {output[-500:]}")
        subject = self._job.planned.scenario.subject
        return bool(self._app.store.observations.newest(subject, limit=1))

    def tickets(self) -> Sequence[TicketFact]:
        """The tickets of its home."""
        return [ticket_fact(ticket) for ticket in self._app.store.tickets.find()]

    async def stop(self) -> None:
        """End it."""
        if self._crew is not None:
            crew, self._crew = self._crew, None
            await crew.down()

    def _watching_words(self) -> tuple[str, ...]:
        return (*self._front(), "monitor", "run", "--subject", self._job.planned.scenario.subject)

    def _front(self) -> tuple[str, ...]:
        job = self._job
        return (*job.command, "--home", str(job.home), "--mode", job.variant.mode)


class Knowing:
    """The agent that knows the fault: it states the truth, and repairs or escalates it."""

    def __init__(
        self, app: App, working: VariantAtWork, hurting: FaultOfTrial, scenario: Scenario
    ) -> None:
        self._app = app
        self._working = working
        self._hurting = hurting
        self._scenario = scenario
        self._task: asyncio.Task[None] | None = None
        self._told: set[int] = set()
        self._healed = False

    async def start(self) -> None:
        """Begin to watch, and wait for tickets."""
        await self._working.start()
        self._task = asyncio.create_task(self._attend())

    def watching(self) -> bool:
        """Whether the rig is watched; OperatorError when healing went wrong."""
        if self._task is not None and self._task.done() and not self._task.cancelled():
            self._task.result()
        return self._working.watching()

    def tickets(self) -> Sequence[TicketFact]:
        """The tickets of its home."""
        return self._working.tickets()

    async def stop(self) -> None:
        """End it."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._working.stop()

    async def _attend(self) -> None:
        while True:
            for ticket in self._app.store.tickets.find():
                if not self._hurting.hit or ticket.state.value in ENDED:
                    continue
                if ticket.id not in self._told:
                    self._told.add(ticket.id)
                    truth = truth_of(self._scenario, self._hurting.hit, ticket)
                    draft = Draft(Kind.DIAGNOSIS, to_json(truth), ticket=ticket.id, actor=_ME)
                    await self._app.store.journal.append(draft)
                if self._scenario.end is CorrectOutcome.ESCALATED:
                    reason = "This fault must not be repaired without approval."
                    move = Move(MoveKind.ESCALATE, _ME, reason=reason)
                    with contextlib.suppress(ConflictError):  # it came to an end meanwhile
                        await self._app.store.ticket_moves.make(ticket.id, move)
                elif not self._healed:
                    self._healed = True
                    await self._hurting.heal()
            await asyncio.sleep(POLL_S)


def truth_of(scenario: Scenario, hit: str, ticket: Ticket) -> Diagnosis:
    """The cause that rightly explains the fault, as a diagnosis."""
    cause, _, place = (scenario.truths or ("unknown@any",))[0].partition("@")
    target = {"hit": hit, "any": ticket.target}.get(place, place)
    return Diagnosis(
        cause=cause,
        target=target,
        summary=f"{scenario.fault} at {hit}, injected by the harness.",
        severity=ticket.severity,
        confidence=1.0,
        timeline=(),
        affected=tuple(dict.fromkeys(violation.target for violation in ticket.violations)),
        evidence=(),
        hypotheses=(Hypothesis(cause, target, 1.0),),
        alternatives=(),
        options=(),
        choice="heal" if scenario.end is CorrectOutcome.MITIGATED else "escalate",
        why="The oracle knows the fault.",
    )


def ticket_fact(ticket: Ticket) -> TicketFact:
    """A ticket as it stands."""
    return TicketFact(
        id=ticket.id,
        state=ticket.state.value,
        target=ticket.target,
        invariants=tuple(dict.fromkeys(violation.invariant for violation in ticket.violations)),
        reason=ticket.reason,
    )


CONTROL_POLL_S = 0.1
# So short that a check waits for it, and so often that there is always some.
PAUSE_S = 0.1
PAUSE_EVERY_S = 0.6
MAINTENANCE = timedelta(hours=1)


class ControlOfTrial:
    """What is done in a control; a target is chosen by the seed, as for a fault."""

    def __init__(self, app: App, place: RigOfTrial, variant: VariantAtWork, job: Job) -> None:
        self._app = app
        self._place = place
        self._variant = variant
        self._job = job
        self._subject = job.planned.scenario.subject
        self._control = Control(job.planned.scenario.fault)
        self._chance = random.Random(job.planned.seed)
        self._noise: asyncio.Task[None] | None = None
        self._broke: set[str] = set()

    @property
    def plain(self) -> Fault:
        """The first fault of a plug-in is its plainest one: a part is down."""
        return find_plugin(self._subject).faults[0]

    def unavailable(self) -> str:
        """Why it cannot be done here, or ""."""
        match self._control:
            case Control.RECOVERED | Control.MAINTENANCE:
                return faults.unavailable(self._place.rig, self.plain)
            case Control.NOISY:
                return "" if self._restless() else "no part of the rig can be paused"
            case _:
                return ""

    async def inject(self) -> str:
        """Do it; the target that it is about, "" where it is about none."""
        match self._control:
            case Control.NOTHING:
                return ""
            case Control.RECOVERED:
                hit = await self._break()
                ends = self._app.clock.monotonic() + self._job.campaign.detect_s_max
                while not self._variant.tickets():
                    self._must_be_before(ends, f"No ticket was opened while {hit!r} was down.")
                    await asyncio.sleep(CONTROL_POLL_S)
                await self._variant.stop()
                await faults.heal(self._place.rig, self.plain)
                ends = self._app.clock.monotonic() + self._job.campaign.well_s_max
                while (await self._place.look()).broken:
                    self._must_be_before(ends, f"The rig was not healthy after {hit!r} was back.")
                    await asyncio.sleep(CONTROL_POLL_S)
                await self._variant.work()
                return hit
            case Control.NOISY:
                self._noise = asyncio.create_task(self._make_noise())
                return ""
            case Control.MISLEADING:
                # An alert as its receiver takes it down.
                parts = [
                    target for target in self._place.rig.targets() if target.kind == self.plain.kind
                ]
                hit = self._chance.choice(parts).name
                alert = Alert(
                    trigger=TRIGGER,
                    fingerprint="1",
                    name="TargetDown",
                    subject=self._subject,
                    target=hit,
                    invariant="alert:TargetDown",
                    severity=Severity.CRITICAL,
                    summary=f"{hit} is down",
                    since=self._app.clock.now(),
                )
                await self._app.store.alerts.take([alert])
                return hit
            case Control.MAINTENANCE:
                now = self._app.clock.now()
                announced = Silence(
                    id="quiet-planned",
                    starts_at=now,
                    until=now + MAINTENANCE,
                    by="maintainer",
                    reason="planned maintenance",
                    subject=glob.escape(self._subject),
                )
                await self._app.store.silences.add(announced)
                return await self._break()

    async def still(self) -> str:
        """What it broke in spite of its name."""
        if self._noise is not None:
            if self._noise.done():
                self._noise.result()
            self._broke |= set((await self._place.look()).broken)
        return ", ".join(sorted(self._broke))

    async def heal(self) -> None:
        """Roll back the changes."""
        if self._noise is not None:
            self._noise.cancel()
            await asyncio.gather(self._noise, return_exceptions=True)
        if any(wound.fault == self.plain.name for wound in faults.broken(self._place.rig)):
            await faults.heal(self._place.rig, self.plain)

    async def _break(self) -> str:
        return await faults.inject(self._place.rig, self.plain, target=None, rng=self._chance)

    def _must_be_before(self, ends: float, why: str) -> None:
        if self._app.clock.monotonic() >= ends:
            raise RigError(why)

    def _restless(self) -> list[str]:
        rig = self._place.rig
        return [
            target.name for target in rig.targets() if not rig.unable(target.name, Ability.PAUSE)
        ]

    async def _make_noise(self) -> None:
        """Pause one part after another for a moment, and look whether that broke anything."""
        rig, parts = self._place.rig, self._restless()
        while True:
            part = self._chance.choice(parts)
            await rig.pause(part)
            try:
                await asyncio.sleep(PAUSE_S)
            finally:
                with contextlib.suppress(RigError):  # it goes on, and answers a moment later
                    await rig.resume(part)
            self._broke |= set((await self._place.look()).broken)
            await asyncio.sleep(PAUSE_EVERY_S)
