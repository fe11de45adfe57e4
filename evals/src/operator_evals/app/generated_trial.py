"""A trial of a generated fault: injected in its own time, watched as clients see it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from operator_evals.app.trial_facts import Counting, LedgerWitness
from operator_evals.app.trial_rig import Job, RigOfTrial
from operator_evals.campaign import Mind
from operator_evals.facts import TicketFact, TrialFacts, TrialState
from operator_evals.generated.case import Case, Injection, Timing
from operator_evals.generated.clients import Canary, ClientView
from operator_evals.generated.generator import generate
from operator_evals.generated.inflictor import Inflictor
from operator_evals.generated.observed import Claim, GeneratedFacts, Injected, Look
from operator_evals.generated.outcome import failing_s, fails_now
from operator_evals.generated.servers import Undo
from operator_evals.trial import ENDED, Trial
from operator_lab.rig import Rig
from operator_protocols.domain.ticket import TicketState
from operator_protocols.errors import OperatorError, RigError
from operator_protocols.ports import Clock
from operator_sre.app.ticket_brief import brief_ticket
from operator_sre.app.wiring import App

__all__ = ["GeneratedFault", "GeneratedWitness", "claims_in"]

POLL_S = 0.2
# How long clients are watched before anything is broken.
BEFORE_S = 1.5
# Healthy checks in a row before a case gets its place, where one more is made.
LOOKS_AHEAD = 2
INFLICT_S_MAX = 25.0
# Between what was undone and the same again.
AGAIN_S = 1.5
# Clients fail for so long that an observer has to notice.
BOTHERED_S = 3.0
# A harness that is woken later than that cannot tell a slow product from a busy machine.
LAG_S_MAX = 0.5
LINES_MAX = 3
LINE_CHARS_MAX = 400
ENTRIES_MAX = 5_000
NOTE_CHARS_MAX = 300


class GeneratedFault:
    """The primitives of a case, each injected in its time, and the clients' view of the rig."""

    def __init__(self, place: RigOfTrial, job: Job, counting: Counting, clock: Clock) -> None:
        self._place = place
        self._job = job
        self._counting = counting
        self._clock = clock
        self._inflictor: Inflictor | None = None
        self._view: ClientView | None = None
        self._plays: list[asyncio.Task[None]] = []
        self._repair = asyncio.Event()
        self._first = asyncio.Event()
        self._injected: dict[int, Injected] = {}
        self._case: Case | None = None
        self._scratch = Path(job.folder) / "scratch"

    def unavailable(self) -> str:
        """Why it cannot be done here, or ""."""
        return "" if isinstance(self._place.rig, Rig) else "only a rig of processes can be broken"

    async def prepare(self) -> None:
        """Wait until the rig is healthy, and read what can be broken; what fails is left to do."""
        with contextlib.suppress(OperatorError, TimeoutError):
            async with asyncio.timeout(self._job.campaign.well_s_max):
                in_row = 0
                while in_row < LOOKS_AHEAD:
                    in_row = 0 if (await self._place.look()).broken else in_row + 1
                    await asyncio.sleep(self._job.campaign.interval_s / 2)
                await self._read()

    async def _read(self) -> None:
        rig = self._place.rig
        assert isinstance(rig, Rig)
        await asyncio.to_thread(self._scratch.mkdir, mode=0o700, exist_ok=True)
        inflictor = Inflictor(rig, scratch=self._scratch, stand_in=self._job.stand_in)
        case = self._job.case
        if case is None:
            case = generate(await inflictor.surface(), self._job.planned.seed)
        self._inflictor, self._case = inflictor, case

    async def inject(self) -> str:
        """Begin to look as clients do, and begin to break."""
        if self._inflictor is None:
            await self._read()
        rig, inflictor, case = self._place.rig, self._inflictor, self._case
        assert isinstance(rig, Rig)
        assert inflictor is not None
        assert case is not None
        counting = self._counting
        self._view = ClientView(
            rig,
            inflictor.servers,
            Canary(acknowledged_at=lambda: counting.acknowledged_at, reads=counting.reads),
            since=self._since,
            scratch=self._scratch,
        )
        self._view.start()
        await asyncio.sleep(BEFORE_S)
        self._plays = [
            asyncio.create_task(self._play(number, each))
            for number, each in enumerate(case.injections)
        ]
        if case.injections[0].timing is not Timing.REPAIR and not case.injections[0].after_s:
            await self._first.wait()
        return ", ".join(sorted(case.components))

    async def still(self) -> str:
        """No oracle of its own: clients are asked instead."""
        return ""

    async def heal(self) -> None:
        """End what runs beside the rig; the rig itself is taken down."""
        for play in self._plays:
            play.cancel()
        await asyncio.gather(*self._plays, return_exceptions=True)
        if self._view is not None:
            await self._view.stop()
        if self._inflictor is not None:
            await self._inflictor.stop()

    def facts(self) -> GeneratedFacts:
        """What was injected and seen so far."""
        looks: Sequence[Look] = () if self._view is None else self._view.looks
        case = self._case or Case(self._job.planned.scenario.subject, self._job.planned.seed, ())
        injected = tuple(self._injected[number] for number in sorted(self._injected))
        lag_s = 0.0 if self._view is None else self._view.lag_s
        return GeneratedFacts(case, injected, tuple(looks), lag_s=lag_s)

    async def follow(self, trial: Trial) -> None:
        """Until every ticket has ended and the end has held, or nothing more is to be expected."""
        trial.mark(fault_injected=trial.now())
        campaign, working = trial.campaign, trial.cast.working
        quiet_since = trial.now()
        opened: float | None = None
        over: float | None = None
        async with trial.waiting():
            while True:
                working.watching()
                tickets, now = working.tickets(), trial.now()
                if self._repair_begins(tickets):
                    self._repair.set()
                if tickets and opened is None:
                    opened = now
                    trial.mark(ticket_created=now)
                if self._is_playing():
                    quiet_since = now
                if tickets and all(ticket.state in ENDED for ticket in tickets):
                    over = now if over is None else over
                else:
                    over = None
                bothered = failing_s(self.facts()) >= BOTHERED_S
                if over is not None:
                    escalated = any(t.state == TicketState.ESCALATED.value for t in tickets)
                    # A variant that reported success gets time to notice that it is wrong.
                    hold_s = campaign.hold_s * (
                        1 if escalated or not fails_now(self.facts()) else 4
                    )
                    if now - max(over, quiet_since) >= hold_s:
                        trial.mark(resolved=over)
                        return
                elif opened is not None and now - max(opened, quiet_since) >= campaign.end_s_max:
                    return
                elif opened is None:
                    limit_s = campaign.detect_s_max if bothered else campaign.control_s
                    if now - quiet_since >= limit_s:
                        return
                await trial.clock.sleep(POLL_S)

    def _repair_begins(self, tickets: Sequence[TicketFact]) -> bool:
        """Whether an agent works on a ticket; without any agent, whether it would begin to."""
        if self._job.variant.mind is Mind.NONE:
            return bool(tickets)
        return any(ticket.state != TicketState.OPEN.value for ticket in tickets)

    def _is_playing(self) -> bool:
        """Whether anything is still to be injected; a repair that never begins is not awaited."""
        assert self._case is not None
        for play, each in zip(self._plays, self._case.injections, strict=True):
            waits = each.timing is Timing.REPAIR and not self._repair.is_set()
            if not play.done() and not waits:
                return True
        return False

    async def _play(self, number: int, injection: Injection) -> None:
        """Inject one primitive in its time, and undo it where that belongs to it."""
        if injection.timing is Timing.REPAIR:
            await self._repair.wait()
        await asyncio.sleep(injection.after_s)
        undo = await self._inflict(number, injection)
        if not injection.after_s and injection.timing is not Timing.REPAIR:
            self._first.set()
        if undo is None or injection.timing in (Timing.ONCE, Timing.REPAIR):
            return
        for left in reversed(range(injection.times)):
            await asyncio.sleep(injection.lasts_s)
            await _quietly(undo)
            if left:
                await asyncio.sleep(AGAIN_S)
                undo = await self._inflict(number, injection) or undo

    async def _inflict(self, number: int, injection: Injection) -> Undo | None:
        assert self._inflictor is not None
        at_s = round(self._since(), 2)
        before = self._injected.get(number)
        try:
            async with asyncio.timeout(INFLICT_S_MAX):
                note, undo = await self._inflictor.inflict(injection.primitive)
        except (RigError, OSError, TimeoutError) as problem:
            refused = f"{type(problem).__name__}: {problem}"[:NOTE_CHARS_MAX]
            # The second time it may have broken what it needs.
            self._injected[number] = before or Injected(number, at_s, refused=refused)
            self._first.set()
            return None
        self._injected[number] = before or Injected(number, at_s, note[:NOTE_CHARS_MAX])
        return undo

    def _since(self) -> float:
        return self._clock.monotonic() - self._job.began


@dataclass(frozen=True, slots=True)
class GeneratedWitness:
    """Reads the records of the variant, and adds what clients saw and what people were shown."""

    ledger: LedgerWitness
    fault: GeneratedFault
    app: App

    def complete(self, facts: TrialFacts) -> TrialFacts:
        """The facts with all of that."""
        seen = replace(self.fault.facts(), claims=claims_in(self.app))
        whole = replace(self.ledger.complete(facts), generated=seen)
        if facts.moments.ticket_created is None:  # opened while the rig was taken down
            whole = replace(whole, tickets=())
        if seen.lag_s > LAG_S_MAX:
            why = f"the machine was too busy: this process was woken {seen.lag_s:.1f} s late"
            return replace(whole, state=TrialState.INVALID, why=why)
        return whole


def claims_in(app: App) -> tuple[Claim, ...]:
    """What every ticket of a home says: its headline, and the first lines of its evidence."""
    store = app.store
    entries = store.entries.after(0, limit=ENTRIES_MAX)
    claims = []
    for ticket in store.tickets.find():
        brief = brief_ticket(ticket, [entry for entry in entries if entry.ticket == ticket.id])
        diagnosis = brief.diagnosis
        lines = [violation.detail for violation in ticket.violations]
        if diagnosis is not None:
            lines = [evidence.sentence for evidence in diagnosis.evidence] or lines
        claims.append(
            Claim(
                ticket=ticket.id,
                state=ticket.state.value,
                headline=brief.headline[:LINE_CHARS_MAX],
                lines=tuple(line[:LINE_CHARS_MAX] for line in lines[:LINES_MAX]),
                cause="" if diagnosis is None else diagnosis.cause,
                target="" if diagnosis is None else diagnosis.target,
            )
        )
    return tuple(claims)


async def _quietly(undo: Callable[[], Awaitable[None]]) -> None:
    """Undo what may be undone by now, or cannot be."""
    try:
        async with asyncio.timeout(INFLICT_S_MAX):
            await undo()
    except (RigError, OSError, TimeoutError):
        return
