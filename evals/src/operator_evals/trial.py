"""One trial from a fresh rig to an empty place: the order of its steps, and nothing else.

Its caller defines the rig, the fault and the variant; times are of one monotonic clock.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

from operator_evals.campaign import Campaign, Planned
from operator_evals.facts import Moments, Snapshot, TicketFact, TrialFacts, TrialState
from operator_protocols.domain.ticket import TicketState
from operator_protocols.errors import OperatorError
from operator_protocols.ports import Clock

__all__ = ["Cast", "Hurting", "Place", "Trial", "Witness", "Working", "run_trial"]

POLL_S = 0.1
# How long taking the fault back may take; the rig is taken down anyway.
HEAL_S_MAX = 30.0
ENDED = frozenset(
    {TicketState.RESOLVED.value, TicketState.ESCALATED.value, TicketState.CLOSED.value}
)


@runtime_checkable
class Place(Protocol):
    """The rig of a trial."""

    async def up(self) -> None:
        """Make it and wait until all of it answers; OperatorError when it does not."""
        ...

    async def look(self) -> Snapshot:
        """Its current state, by our own monitor alone."""
        ...

    async def down(self) -> None:
        """End all of it, also when little of it is there."""
        ...


@runtime_checkable
class Hurting(Protocol):
    """The fault of a trial, or what is done in a control, which breaks nothing."""

    def unavailable(self) -> str:
        """Why it cannot be done here, or ""."""
        ...

    async def inject(self) -> str:
        """Do it, with whatever is done beside it; the target that was hit."""
        ...

    async def still(self) -> str:
        """What its oracle finds wrong, or ""; of a control why it was none."""
        ...

    async def heal(self) -> None:
        """Take it back if it is there."""
        ...


@runtime_checkable
class Working(Protocol):
    """The variant at work: a monitor, and the agent that works on its tickets."""

    async def start(self) -> None:
        """Start, with a home of its own."""
        ...

    def watching(self) -> bool:
        """Whether it has checked the rig; OperatorError when it ended by itself."""
        ...

    def tickets(self) -> Sequence[TicketFact]:
        """The tickets of its home, as they stand."""
        ...

    async def stop(self) -> None:
        """End it, also when it never began."""
        ...


@runtime_checkable
class Witness(Protocol):
    """Who reads afterwards what the variant has written down."""

    def complete(self, facts: TrialFacts) -> TrialFacts:
        """The facts with all that its ledger tells."""
        ...


@dataclass(frozen=True, slots=True)
class Cast:
    """Everybody in a trial."""

    place: Place
    hurting: Hurting
    working: Working
    witness: Witness


@dataclass(slots=True)
class Trial:
    """What is known of a trial while it runs; `waited_s` is what was not the harness's own time."""

    planned: Planned
    campaign: Campaign
    cast: Cast
    clock: Clock
    began: float
    facts: TrialFacts
    waited_s: float = 0.0
    moments: Moments = field(default_factory=Moments)

    def now(self) -> float:
        """Seconds since it began."""
        return self.clock.monotonic() - self.began

    @asynccontextmanager
    async def waiting(self) -> AsyncIterator[None]:
        """What rig, fault, variant or hold take is not the harness's own time."""
        started = self.clock.monotonic()
        try:
            yield
        finally:
            self.waited_s += self.clock.monotonic() - started

    def mark(self, **moments: Any) -> None:
        """Note when something happened."""
        self.moments = replace(self.moments, **moments)

    def say(self, **facts: Any) -> None:
        """Note what was found."""
        self.facts = replace(self.facts, **facts)


async def run_trial(
    planned: Planned,
    campaign: Campaign,
    cast: Cast,
    clock: Clock,
    *,
    began: float | None = None,
    follow: Callable[[Trial], Awaitable[None]] | None = None,
) -> TrialFacts:
    """Everything from the rig to its end; what was made is taken down in any case.

    `began` is when the trial was decided on, on the same clock. `follow` waits for the end of what
    was injected, where no list says what it breaks.
    """
    start = clock.monotonic() if began is None else began
    facts = TrialFacts(
        campaign=campaign.name,
        key=planned.key,
        scenario=planned.scenario,
        variant=planned.variant,
        seed=planned.seed,
        state=TrialState.DONE,
        started_at=clock.now().isoformat(timespec="seconds"),
    )
    trial = Trial(planned, campaign, cast, clock, start, facts)
    try:
        await _run_course(trial, follow or _follow_listed)
    except OperatorError as error:
        trial.say(state=TrialState.FAILED, why=error.message)
    finally:
        await _take_down(trial)
    trial.mark(ended=trial.now())
    overhead_s = max(0.0, trial.now() - trial.waited_s)
    return replace(trial.facts, moments=trial.moments, overhead_s=round(overhead_s, 3))


async def _run_course(trial: Trial, follow: Callable[[Trial], Awaitable[None]]) -> None:
    cast = trial.cast
    async with trial.waiting():
        try:
            await cast.place.up()
        except OperatorError as error:
            trial.say(state=TrialState.INVALID, why=f"the rig did not come up: {error.message}")
            return
        await cast.working.start()
        why = await _wait_until_well(trial)
    if why:
        trial.say(state=TrialState.INVALID, why=why)
        return
    trial.mark(healthy=trial.now())
    async with trial.waiting():
        before = await cast.place.look()
    trial.say(before=replace(before, at_s=trial.now()))
    if why := cast.hurting.unavailable():
        trial.say(state=TrialState.INVALID, why=f"not available here: {why}")
        return
    async with trial.waiting():
        try:
            hit = await cast.hurting.inject()
        except OperatorError as error:
            why = f"the fault could not be injected: {error.message}"
            trial.say(state=TrialState.INVALID, why=why)
            return
    trial.say(hit=hit)
    await follow(trial)
    if trial.facts.state is TrialState.DONE:
        async with trial.waiting():
            after = await cast.place.look()
        trial.say(after=replace(after, at_s=trial.now()))


async def _wait_until_well(trial: Trial) -> str:
    """Wait until nothing is broken in some looks after another; why not, or ""."""
    ends = trial.now() + trial.campaign.well_s_max
    in_row = 0
    broken: tuple[str, ...] = ()
    while trial.now() < ends:
        seen = await trial.cast.place.look()
        in_row, broken = (0, seen.broken) if seen.broken else (in_row + 1, ())
        if trial.cast.working.watching() and in_row >= trial.campaign.well_looks:
            break
        await trial.clock.sleep(trial.campaign.interval_s / 2)
    else:
        reason = ", ".join(broken) or "the monitor never checked it"
        return f"the rig was not healthy within {trial.campaign.well_s_max:g} s: {reason}"
    if trial.cast.working.tickets():
        return "there was a ticket before anything was broken"
    return ""


async def _follow_listed(trial: Trial) -> None:
    """Wait for the end of a fault that a subject lists, or of a control."""
    if trial.planned.scenario.is_control:
        await _follow_control(trial)
    else:
        trial.mark(fault_injected=trial.now())
        await _follow_fault(trial)


async def _follow_fault(trial: Trial) -> None:
    """Until all tickets have come to an end, and a while longer, as more may come meanwhile."""
    campaign, hurting = trial.campaign, trial.cast.hurting
    breaks = trial.planned.scenario.breaks

    def is_detected() -> bool:
        tickets = trial.cast.working.tickets()
        return any(name in breaks for ticket in tickets for name in ticket.invariants)

    async with trial.waiting():
        if await _until(trial, is_detected, campaign.detect_s_max):
            trial.mark(ticket_created=trial.now())
        ends = trial.now() + (campaign.end_s_max if trial.cast.working.tickets() else 0.0)
        while await _until(trial, lambda: _all_over(trial), ends - trial.now()):
            trial.mark(resolved=trial.now())
            trial.say(still=await hurting.still())
            if not await _until(trial, lambda: not _all_over(trial), campaign.hold_s):
                break
            trial.mark(resolved=None)
        else:
            trial.say(still=await hurting.still())
        trial.say(still_after_hold=await hurting.still())


async def _follow_control(trial: Trial) -> None:
    """Nothing is broken: who repairs something all the same is waited for."""
    async with trial.waiting():
        await _until(trial, lambda: bool(trial.cast.working.tickets()), trial.campaign.control_s)
        if trial.cast.working.tickets():
            trial.mark(ticket_created=trial.now())
            if await _until(trial, lambda: _all_over(trial), trial.campaign.end_s_max):
                trial.mark(resolved=trial.now())
        if why := await trial.cast.hurting.still():
            trial.say(state=TrialState.INVALID, why=f"it was not a control: {why}")


def _all_over(trial: Trial) -> bool:
    tickets = trial.cast.working.tickets()
    return bool(tickets) and all(ticket.state in ENDED for ticket in tickets)


async def _until(trial: Trial, condition: Callable[[], bool], within_s: float) -> bool:
    """Whether it came to be in time; OperatorError when the variant ended by itself."""
    ends = trial.now() + within_s
    while trial.now() < ends:
        if condition():
            return True
        trial.cast.working.watching()
        await trial.clock.sleep(POLL_S)
    return False


async def _take_down(trial: Trial) -> None:
    """Stop the variant, read what it wrote, heal and take the rig down; nothing keeps the next."""
    cast = trial.cast
    async with trial.waiting():
        await _surely(trial, cast.working.stop)
    if trial.facts.state is TrialState.DONE:
        try:
            trial.facts = cast.witness.complete(replace(trial.facts, moments=trial.moments))
        except OperatorError as error:
            trial.say(state=TrialState.FAILED, why=f"its record cannot be read: {error.message}")
    async with trial.waiting():
        if trial.moments.healthy is not None:
            with suppress(TimeoutError):
                await asyncio.wait_for(_surely(trial, cast.hurting.heal, quiet=True), HEAL_S_MAX)
        await _surely(trial, cast.place.down)


async def _surely(
    trial: Trial, step: Callable[[], Awaitable[None]], *, quiet: bool = False
) -> None:
    """One step of the clean-up: an error in it does not prevent the next step."""
    try:
        await step()
    except OperatorError as error:
        if not quiet and trial.facts.state is TrialState.DONE:
            trial.say(state=TrialState.FAILED, why=f"it could not be taken down: {error.message}")
