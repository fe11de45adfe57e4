"""The variant at work: processes of the operator itself, in a home that nobody else has."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

from operator_protocols.domain.diagnosis import Diagnosis, Hypothesis
from operator_protocols.domain.entry import Actor, Draft, Kind
from operator_protocols.domain.ticket import Move, MoveKind, Ticket
from operator_protocols.errors import ConflictError, RigError
from operator_protocols.ports import RightEnd
from operator_sre.app.evals.job import Job, model_of, settings_for
from operator_sre.app.evals.places import FaultOfTrial, RigOfTrial
from operator_sre.app.wiring import App
from operator_sre.codec import to_json
from operator_sre.evals.campaign import Control, Scenario
from operator_sre.evals.facts import TicketFact
from operator_sre.evals.trial import ENDED
from operator_sre.evals.variants import budgets_of
from operator_sre.lab.crew import Crew

__all__ = ["Knowing", "VariantAtWork", "ticket_fact", "truth_of"]

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

        Where whoever works comes late, only the monitor is there at first.
        """
        self._write_policy()
        if self._job.planned.scenario.fault == Control.RECOVERED:
            await self._begin(self._watching_words())
        else:
            await self.work()

    async def work(self) -> None:
        """Let whoever works come now."""
        await self._begin(self._words())

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
        """Whether it has looked at the rig; RigError when it ended by itself."""
        if self._crew is not None and (exits := self._crew.exits()):
            said = " ".join(self._crew.lines(PROGRAM)[-LINES_MAX:])
            raise RigError(f"The operator ended by itself with {exits[PROGRAM]}: {said[-500:]}")
        subject = self._job.planned.scenario.subject
        return bool(self._app.store.observations.newest(subject, limit=1))

    def tickets(self) -> Sequence[TicketFact]:
        """The tickets of its home."""
        return [ticket_fact(one) for one in self._app.store.tickets.find()]

    async def stop(self) -> None:
        """End it."""
        if self._crew is not None:
            crew, self._crew = self._crew, None
            await crew.down()

    def _words(self) -> tuple[str, ...]:
        subject = self._job.planned.scenario.subject
        model = model_of(self._job.variant, self._job.planned.seed)
        if not model:
            return self._watching_words()
        return (*self._front(), "up", "--subject", subject, "--model", model)

    def _watching_words(self) -> tuple[str, ...]:
        return (*self._front(), "monitor", "run", "--subject", self._job.planned.scenario.subject)

    def _front(self) -> tuple[str, ...]:
        job = self._job
        return (*job.command, "--home", str(job.home), "--mode", job.variant.mode)

    def _write_policy(self) -> None:
        """Tools that the variant has not, and the limits of its runs."""
        wanted, limits = set(self._job.variant.tools), budgets_of(self._job.variant)
        lines = ["version: 1"]
        if wanted:
            known = {tool.spec.name for tool in self._place.care.executor.tools}
            denied = sorted(known - wanted)
            lines += ["tools:", *(f"  {json.dumps(name)}: deny" for name in denied)]
        if limits:
            lines += ["budgets:", *(f"  {name}: {value:g}" for name, value in limits.items())]
        if len(lines) > 1:
            (self._job.home / "policy.yaml").write_text("\n".join([*lines, ""]), encoding="utf-8")


class Knowing:
    """The mind that knows the fault: it says the truth, and heals it or hands it to a person."""

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
                if self._hurting.hit and ticket.state.value not in ENDED:
                    await self._work_on(ticket, self._scenario)
            await asyncio.sleep(POLL_S)

    async def _work_on(self, ticket: Ticket, scenario: Scenario) -> None:
        if ticket.id not in self._told:
            self._told.add(ticket.id)
            found = truth_of(scenario, self._hurting.hit, ticket)
            draft = Draft(Kind.DIAGNOSIS, to_json(found), ticket=ticket.id, actor=_ME)
            await self._app.store.journal.append(draft)
        if scenario.end is RightEnd.ESCALATED:
            move = Move(MoveKind.ESCALATE, _ME, reason="Nobody may mend this without a person.")
            try:
                await self._app.store.ticket_moves.make(ticket.id, move)
            except ConflictError:  # it came to an end meanwhile
                return
        elif not self._healed:
            self._healed = True
            await self._hurting.heal()


def truth_of(scenario: Scenario, hit: str, ticket: Ticket) -> Diagnosis:
    """The cause that rightly explains the fault, as a diagnosis."""
    cause, _, place = (scenario.truths or ("unknown@any",))[0].partition("@")
    target = hit if place == "hit" else ticket.target
    return Diagnosis(
        cause=cause,
        target=target,
        summary=f"{scenario.fault} at {hit}, because it was done on purpose.",
        severity=ticket.severity,
        confidence=1.0,
        timeline=(),
        affected=tuple(dict.fromkeys(one.target for one in ticket.violations)),
        evidence=(),
        hypotheses=(Hypothesis(cause, target, 1.0),),
        alternatives=(),
        options=(),
        choice="heal" if scenario.end is RightEnd.MITIGATED else "escalate",
        why="It knows what was done.",
    )


def ticket_fact(ticket: Ticket) -> TicketFact:
    """A ticket as it stands."""
    return TicketFact(
        id=ticket.id,
        state=ticket.state.value,
        target=ticket.target,
        invariants=tuple(dict.fromkeys(one.invariant for one in ticket.violations)),
        reason=ticket.reason,
    )
