"""A campaign whose trials others do: handed out, followed, done again when lost, and kept here.

All running trials are in the queue, so that a leader that is killed continues after its restart."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from operator_evals.app.campaigns import (
    begin_campaign,
    bundle_name,
    check_campaign,
    database_path,
    held_alone,
    ledger_folder,
)
from operator_evals.app.worker import order_of, unpack_result
from operator_evals.campaign import Campaign, Mind, Planned
from operator_evals.conductor import GUESS_S, Outcome, Progress, failed_trial, left_of
from operator_evals.database import must_be_written, open_database
from operator_evals.facts import TrialFacts, TrialState
from operator_protocols.domain.action import digest_of
from operator_protocols.errors import OperatorError, StoreError
from operator_protocols.ports import Clock
from operator_sre.app.wiring.engines import (
    ErrandState,
    TrialErrand,
    TrialQueue,
    TrialTaker,
    trials_of,
)
from operator_sre.clock import SystemClock
from operator_sre.config import Config
from operator_sre.release import code_revision

__all__ = ["Leader", "lead_campaign"]

POLL_S = 1.0
# Who has not spoken for so long is gone, by the clock of the database.
SILENT_S = 20.0
# A worker confirms a trial with its next heartbeat; without one by then, the trial is lost.
TAKEN_S_MAX = 12.0
# A trial that so many workers in a row did not survive is not for workers.
LOST_MAX = 3
# So long a database may be away.
AWAY_S_MAX = 300.0
log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Wanted:
    """A trial that is not done yet, and what is known of its newest attempt."""

    planned: Planned
    stem: str
    attempt: int = -1
    handed_out: bool = False
    unheld_since: float | None = None
    lost: int = 0

    @property
    def errand(self) -> str:
        """The newest attempt's name in the queue; all of a trial begin with the same stem."""
        return f"{self.stem}{self.attempt}"


@dataclass(slots=True)
class Leader:
    """Hands the trials of a campaign out and keeps what comes back, each once.

    `place` is what the names of this campaign begin with in the queue, and of no other.
    """

    queue: TrialQueue
    campaign: Campaign
    place: str
    ledgers: Path
    keep: Callable[[TrialFacts], None]
    clock: Clock
    tell: Callable[[Progress], None] = lambda progress: None
    poll_s: float = POLL_S
    silent_s: float = SILENT_S
    taken_s_max: float = TAKEN_S_MAX
    _wanted: dict[str, _Wanted] = field(default_factory=dict)
    _drop: list[str] = field(default_factory=list)
    _done: list[TrialFacts] = field(default_factory=list)
    _before: int = 0
    _of: int = 0
    _usd: float = 0.0
    _skipped: int = 0

    async def conduct(self, known: Sequence[TrialFacts]) -> Outcome:
        """Run all that is left; cancelled, it keeps finished trials and drops the others."""
        left = left_of(self.campaign, known)
        stems = {planned.key: f"{self.place}-{_short(planned.key)}-" for planned in left}
        self._wanted = {
            stems[planned.key]: _Wanted(planned, stems[planned.key]) for planned in left
        }
        self._usd = sum(trial.spent.usd for trial in known)
        done = {trial.key for trial in known if trial.state is not TrialState.FAILED}
        self._before, self._of = len(done), len(done) + len(left)
        away_since: float | None = None
        try:
            while self._wanted:
                try:
                    errands, takers = await asyncio.to_thread(self._exchange)
                    held = {name for taker in takers for name in taker.holds}
                    running = [
                        wanted.planned.key
                        for wanted in self._wanted.values()
                        if wanted.errand in held
                    ]
                    self._say(running, takers)
                    for wanted, errand in self._match_newest(errands):
                        await self._follow(wanted, errand, is_held=errand.id in held)
                        if wanted.stem not in self._wanted:
                            others = [key for key in running if key != wanted.planned.key]
                            self._say(others, takers, last=True)
                    await self._hand_out(errands)
                    away_since = None
                except StoreError as error:
                    now = self.clock.monotonic()
                    away_since = now if away_since is None else away_since
                    if now - away_since > AWAY_S_MAX:
                        raise
                    log.error("%s Retrying.", error)
                if self._wanted:
                    await self.clock.sleep(self.poll_s)
        finally:
            await asyncio.shield(asyncio.to_thread(self._withdraw))
        states = [trial.state for trial in self._done]
        skipped = self._skipped
        return Outcome(
            campaign=self.campaign.name,
            of=self._of,
            done=len(self._done),
            before=self._before,
            invalid=states.count(TrialState.INVALID),
            failed=states.count(TrialState.FAILED),
            why=f"{skipped} trials were skipped: usd_max is reached." if skipped else "",
        )

    def _exchange(self) -> tuple[list[TrialErrand], list[TrialTaker]]:
        """Drop finished trials from the queue; return its entries and its workers."""
        dropped = list(self._drop)
        self.queue.drop(dropped)
        del self._drop[: len(dropped)]
        # In this order: a trial taken in between has no confirmed worker yet, and is not lost.
        errands = self.queue.find(begins=f"{self.place}-")
        return errands, self.queue.takers(silent_s=self.silent_s)

    def _match_newest(self, errands: Iterable[TrialErrand]) -> list[tuple[_Wanted, TrialErrand]]:
        """The newest attempt at each trial; all others are to be dropped."""
        newest: dict[str, TrialErrand] = {}
        for errand in sorted(errands, key=lambda errand: _attempt(errand.id)):
            stem = errand.id[: errand.id.rindex("-") + 1]
            if stem in newest:
                self._drop.append(newest[stem].id)
            newest[stem] = errand
        found = []
        for stem, errand in newest.items():
            wanted = self._wanted.get(stem)
            if wanted is None:  # its result is kept, and the former leader was killed
                self._drop.append(errand.id)
                continue
            if wanted.attempt != _attempt(errand.id):
                wanted.attempt, wanted.unheld_since = _attempt(errand.id), None
            found.append((wanted, errand))
        for wanted in self._wanted.values():
            wanted.handed_out = wanted.stem in newest
        return found

    async def _follow(self, wanted: _Wanted, errand: TrialErrand, *, is_held: bool) -> None:
        state, now = errand.state, self.clock.monotonic()
        if state is ErrandState.OVER:
            text = await asyncio.to_thread(self.queue.outcome, wanted.errand)
            if text:
                file = self.ledgers / bundle_name(wanted.planned)
                named = "/".join(file.parts[-3:])
                name = self.campaign.name
                self._take(wanted, lambda: unpack_result(text, name, wanted.planned, file, named))
            else:  # given back: its worker was stopped
                await self._again(wanted)
        elif state is ErrandState.BROKEN:
            self._take(wanted, lambda: self._make_failure(wanted, "its worker could not run it"))
        elif not errand.ours:  # the leader was upgraded, and the workers with it
            await self._again(wanted)
        elif state is ErrandState.WAITS or is_held:
            wanted.unheld_since = None
        elif wanted.unheld_since is None:
            wanted.unheld_since = now
        elif now - wanted.unheld_since > self.taken_s_max:
            wanted.lost += 1
            if wanted.lost < LOST_MAX:
                await self._again(wanted)
            else:
                why = f"{wanted.lost} workers in a row were lost while they ran it"
                self._take(wanted, lambda: self._make_failure(wanted, why))

    async def _again(self, wanted: _Wanted) -> None:
        """Another attempt; whatever may still come of the one before does not count."""
        self._drop.append(wanted.errand)
        await self._add(wanted)

    async def _add(self, wanted: _Wanted) -> None:
        wanted.attempt, wanted.unheld_since, wanted.handed_out = wanted.attempt + 1, None, True
        order, alone = order_of(self.campaign, wanted.planned), wanted.planned.scenario.alone
        await asyncio.to_thread(self.queue.add, wanted.errand, order, alone=alone)

    def _take(self, wanted: _Wanted, facts_of: Callable[[], TrialFacts]) -> None:
        """Keep what came of a trial, and forget it only after that."""
        try:
            facts = facts_of()
        except OperatorError as error:
            facts = self._make_failure(wanted, error.message)
        self.keep(facts)
        del self._wanted[wanted.stem]
        self._drop.append(wanted.errand)
        self._done.append(facts)
        self._usd += facts.spent.usd

    def _make_failure(self, wanted: _Wanted, why: str) -> TrialFacts:
        return failed_trial(self.campaign, wanted.planned, self.clock, why)

    async def _hand_out(self, errands: Sequence[TrialErrand]) -> None:
        """Put in what is not there yet.

        What must be alone follows when nothing else waits, so that no machine is kept free for
        it too early. Of what costs money there is little at once: it ends when the money does.
        """
        paid = {variant.name for variant in self.campaign.variants if variant.mind is Mind.MODEL}
        costs = sum(
            wanted.handed_out and wanted.planned.variant in paid for wanted in self._wanted.values()
        )
        new = [wanted for wanted in self._wanted.values() if not wanted.handed_out]
        waits = any(errand.state is ErrandState.WAITS for errand in errands)
        waits = waits or any(not wanted.planned.scenario.alone for wanted in new)
        for wanted in new:
            if wanted.planned.scenario.alone and waits:
                continue
            if wanted.planned.variant in paid:
                if 0 < self._usd >= self.campaign.usd_max:
                    del self._wanted[wanted.stem]
                    self._skipped += 1
                    continue
                if costs >= self.campaign.parallel:
                    continue
                costs += 1
            await self._add(wanted)

    def _withdraw(self) -> None:
        """Withdraw the trials that are left; workers notice with their next heartbeat."""
        try:
            self.queue.drop([errand.id for errand in self.queue.find(begins=f"{self.place}-")])
        except StoreError as error:
            log.error("%s The next leader will find the remaining trials.", error)

    def _say(
        self, running: Sequence[str], takers: Sequence[TrialTaker], *, last: bool = False
    ) -> None:
        took = [trial.moments.ended for trial in self._done if trial.moments.ended]
        each_s = sum(took) / len(took) if took else GUESS_S
        at_once = max(1, sum(taker.at_once for taker in takers))
        progress = Progress(
            done=self._before + len(self._done),
            of=self._of,
            running=tuple(running),
            left_s=len(self._wanted) * (each_s + self.campaign.cool_down_s) / at_once,
            last=self._done[-1] if last else None,
            workers=len(takers),
        )
        self.tell(progress)


async def lead_campaign(
    config: Config,
    campaign: Campaign,
    *,
    tell: Callable[[Progress], None],
    database: Path | None = None,
) -> Outcome:
    """Have what is left of it done by workers; cancelled, it keeps what is done."""
    for planned in {
        planned.variant: planned for planned in check_campaign(config, campaign)
    }.values():
        order_of(campaign, planned)  # reports now what cannot be sent
    path = database_path(config, database)
    must_be_written(path)
    host = socket.gethostname()
    executor = f"leader-{host}-{os.getpid()}"
    queue = trials_of(config, executor=executor, version=code_revision())
    with held_alone(path, campaign.name), open_database(path) as facts:
        known = begin_campaign(facts, campaign, SystemClock())
        started_at = facts.campaign(campaign.name).started_at
        place = f"trial-{_short(f'{host} {path.absolute()} {campaign.name} {started_at}')}"
        ledgers = ledger_folder(path.absolute(), campaign.name)
        leader = Leader(queue, campaign, place, ledgers, facts.keep, SystemClock(), tell)
        try:
            await asyncio.to_thread(queue.open)
            return await leader.conduct(known)
        finally:
            await asyncio.shield(asyncio.to_thread(queue.close))


def _attempt(errand: str) -> int:
    return int(errand[errand.rindex("-") + 1 :])


def _short(text: str) -> str:
    return digest_of([text]).removeprefix("sha256:")[:16]
