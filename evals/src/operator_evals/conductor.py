"""A campaign as a whole: what is left of it, how many at once, and who must be alone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field

from operator_evals.campaign import Campaign, Mind, Planned
from operator_evals.campaign_file import plan_trials
from operator_evals.facts import TrialFacts, TrialState
from operator_protocols.errors import OperatorError
from operator_protocols.ports import Clock

__all__ = ["GUESS_S", "Conductor", "Outcome", "Progress", "failed_trial", "left_of"]

# What a trial is thought to take before any has ended.
GUESS_S = 60.0


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a campaign is; `left_s` is the estimated time that is left.

    `workers` is how many processes do its trials, where others do them.
    """

    done: int
    of: int
    running: tuple[str, ...]
    left_s: float
    last: TrialFacts | None = None
    workers: int | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a campaign ended: what was done now, what was before, and why not all of it."""

    campaign: str
    of: int
    done: int
    before: int
    invalid: int
    failed: int
    why: str = ""


def left_of(
    campaign: Campaign, known: Iterable[TrialFacts], only: Sequence[Planned] | None = None
) -> tuple[Planned, ...]:
    """The trials (of these `only`) that are left; trials that the harness failed are repeated.

    Trials that have to run alone come last, so that they delay no other.
    """
    done = {trial.key for trial in known if trial.state is not TrialState.FAILED}
    every = plan_trials(campaign) if only is None else only
    left = [trial for trial in every if trial.key not in done]
    return tuple(sorted(left, key=lambda trial: trial.scenario.alone))


def failed_trial(campaign: Campaign, planned: Planned, clock: Clock, why: str) -> TrialFacts:
    """What is kept of a trial that the harness itself did not get to an end."""
    return TrialFacts(
        campaign=campaign.name,
        key=planned.key,
        scenario=planned.scenario,
        variant=planned.variant,
        seed=planned.seed,
        state=TrialState.FAILED,
        started_at=clock.now().isoformat(timespec="seconds"),
        why=why,
    )


@dataclass(slots=True)
class Conductor:
    """Runs what is left of a campaign.

    `run` does one trial in places that are its own, `keep` writes it down, `tell` is called
    whenever something begins or ends. `only` names its trials, where its matrix does not.
    """

    campaign: Campaign
    run: Callable[[Planned], Awaitable[TrialFacts]]
    keep: Callable[[TrialFacts], None]
    clock: Clock
    tell: Callable[[Progress], None] = lambda progress: None
    only: Sequence[Planned] | None = None
    _running: list[str] = field(default_factory=list)
    _took_s: list[float] = field(default_factory=list)
    _done: list[TrialFacts] = field(default_factory=list)
    _usd: float = 0.0
    _before: int = 0
    _left: int = 0

    @property
    def ran(self) -> frozenset[str]:
        """The keys of the trials that it has run."""
        return frozenset(trial.key for trial in self._done)

    async def conduct(self, known: Sequence[TrialFacts]) -> Outcome:
        """All that is left; cancelled, it keeps what is done and ends what runs."""
        left = left_of(self.campaign, known, self.only)
        every = plan_trials(self.campaign) if self.only is None else self.only
        self._before = len(every) - len(left)
        self._left = len(left)
        self._usd = sum(trial.spent.usd for trial in known)
        paid = {variant.name for variant in self.campaign.variants if variant.mind is Mind.MODEL}
        places = asyncio.Semaphore(self.campaign.parallel)
        skipped = 0
        self._say()
        async with asyncio.TaskGroup() as group:
            for trial in left:
                wants = self.campaign.parallel if trial.scenario.alone else 1
                for _ in range(wants):
                    await places.acquire()
                # A model without a price spends nothing, so that no limit stops it.
                if trial.variant in paid and 0 < self._usd >= self.campaign.usd_max:
                    skipped += 1
                    _free(places, wants)
                    continue
                group.create_task(self._run_trial(trial, places, wants))
        states = [trial.state for trial in self._done]
        why = f"{skipped} trials were skipped: usd_max is reached." if skipped else ""
        return Outcome(
            campaign=self.campaign.name,
            of=self._before + self._left,
            done=len(self._done),
            before=self._before,
            invalid=states.count(TrialState.INVALID),
            failed=states.count(TrialState.FAILED),
            why=why,
        )

    async def _run_trial(self, planned: Planned, places: asyncio.Semaphore, wants: int) -> None:
        self._running.append(planned.key)
        self._say()
        started = self.clock.monotonic()
        try:
            try:
                facts = await self.run(planned)
            except OperatorError as error:
                facts = failed_trial(self.campaign, planned, self.clock, error.message)
            self.keep(facts)
            self._done.append(facts)
            self._usd += facts.spent.usd
            self._took_s.append(self.clock.monotonic() - started)
            self._running.remove(planned.key)
            self._say(facts)
            if self.campaign.cool_down_s:
                await self.clock.sleep(self.campaign.cool_down_s)
        finally:
            _free(places, wants)

    def _say(self, last: TrialFacts | None = None) -> None:
        left = self._left - len(self._done)
        each_s = sum(self._took_s) / len(self._took_s) if self._took_s else GUESS_S
        progress = Progress(
            done=self._before + len(self._done),
            of=self._before + self._left,
            running=tuple(self._running),
            left_s=left * (each_s + self.campaign.cool_down_s) / self.campaign.parallel,
            last=last,
        )
        self.tell(progress)


def _free(places: asyncio.Semaphore, count: int) -> None:
    for _ in range(count):
        places.release()
