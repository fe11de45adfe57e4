"""Checks a ticket again, with fresh observations, until its invariants have held for a while."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from operator_protocols.domain.health import Health
from operator_protocols.domain.observation import CheckResult, key_of
from operator_protocols.domain.proof import Proof
from operator_protocols.domain.target import Target, dependencies_of
from operator_protocols.domain.ticket import Ticket
from operator_protocols.ports import Clock

__all__ = ["NO_CONCERN", "Concern", "Verifier"]

# A fault does not spread by making its subject unobservable.
OBSERVABLE = "observable"
AGAIN_LOOKS = 2  # one check may just miss
# One target of several has to hold for this part of the stable period before the next is repaired:
# the proof of the whole ticket covers it again, for all of the period.
TARGET_RATIO = 1 / 3
# A supervisor starts a process that has exited within this time, or hardly at all, unless the tool
# declares another one.
ENDED_S = 10.0


@dataclass(frozen=True, slots=True)
class Concern:
    """What must never break: critical invariants with their grace, and what the cause breaks."""

    critical: Mapping[str, float] = field(default_factory=dict)
    predicted: frozenset[str] = frozenset()

    def critical_of(self, harm: Iterable[str], hurt_s: float, stable_s: float) -> tuple[str, ...]:
        """The critical part of harm that has lasted for longer than its grace."""
        return tuple(
            key
            for key in harm
            if (name := key.rpartition("/")[2]) in self.critical
            and hurt_s >= max(self.critical[name], stable_s)
        )


NO_CONCERN = Concern()


@dataclass(slots=True)
class _Holding:
    """Since when each violation of a growing ticket has held without a break."""

    starts: dict[str, tuple[float, datetime]] = field(default_factory=dict)

    def note(self, keys: Iterable[str], now: float, at: datetime, *, well: bool) -> float | None:
        """For how long all of these have held; None when they do not hold."""
        if not well:
            self.starts = {}
            return None
        self.starts = {key: self.starts.get(key, (now, at)) for key in keys}
        return now - max((start for start, _ in self.starts.values()), default=now)

    def since(self) -> datetime | None:
        """When the last of them began to hold."""
        return max((at for _, at in self.starts.values()), default=None)


@dataclass(slots=True)
class _Course:
    """What became of each violation after a change: whether it goes, persists or comes back.

    What persists may do so until `persists_at`. A supervisor has `ended_s` for a new start.
    """

    persists_at: float
    ended_s: float
    details: dict[str, str] = field(default_factory=dict)
    held_since: dict[str, float] = field(default_factory=dict)
    again: dict[str, int] = field(default_factory=dict)
    looks: int = 0
    ended_at: float | None = None

    def note(self, check: CheckResult, view: _View, now: float, *, held_s: float) -> None:
        """Take in one more check; what held for `held_s` and is broken again came back."""
        self.ended_at = (now if self.ended_at is None else self.ended_at) if view.exited else None
        subject, self.looks = check.observation.subject, self.looks + 1
        details = {
            key_of(subject, each.target, each.invariant): each.detail for each in check.findings
        }
        for key in view.keys:
            health = check.own_health_of([key])
            if health is Health.BROKEN:
                since = self.held_since.get(key, now)
                if key in self.again or now - since >= held_s > 0:
                    self.again[key] = self.again.get(key, 0) + 1
                self.held_since.pop(key, None)
            else:
                self.again.pop(key, None)
                if health is Health.HEALTHY:
                    self.held_since.setdefault(key, now)
            first = self.looks == 1 or key in self.details
            unmoved = first and self.details.get(key) in (None, details.get(key))
            if health is Health.BROKEN and unmoved:
                self.details[key] = details.get(key, "")
            else:
                self.details.pop(key, None)

    def is_lost(self, now: float) -> bool:
        """Whether waiting longer is of no use: it came back, plainly persists, or has exited."""
        exited = self.ended_at is not None and now - self.ended_at >= self.ended_s
        return exited or self.came_back or (self.persists and now >= self.persists_at)

    @property
    def came_back(self) -> bool:
        """Whether something that held is broken again, and not for one check only."""
        return any(looks >= AGAIN_LOOKS for looks in self.again.values())

    @property
    def persists(self) -> bool:
        """Whether something was broken at every check, always with the same finding."""
        return bool(self.details)


@dataclass(frozen=True, slots=True)
class _View:
    """What one check says of a ticket, or of one target of it.

    `everything` is the health of the whole ticket, and `suffers` is True while something that
    depends on the target is still broken. `exited` is True while the process of a broken target is
    gone.
    """

    keys: frozenset[str]
    harm: tuple[str, ...]
    pending: tuple[str, ...]
    health: Health
    everything: Health
    suffers: bool
    exited: bool

    @classmethod
    def of(
        cls,
        check: CheckResult,
        ticket: Ticket,
        before: frozenset[str],
        targets: Sequence[Target],
        concern: Concern,
        target: str,
        ended: Collection[str] = (),
    ) -> _View:
        """Read it from the check."""
        filed = ticket.violations
        all_keys = frozenset(violation.key for violation in filed)
        mine = [violation for violation in filed if target in ("", violation.target)]
        keys = frozenset(violation.key for violation in mine)
        new = check.broken() - before - all_keys
        spread, harm = _split_new(check, new, ticket, targets, concern)
        pending = tuple(  # what other systems report, and our own check does not show
            key
            for key in sorted(keys)
            if check.own_health_of([key]) is Health.HEALTHY
            and check.health_of([key]) is not Health.HEALTHY
        )
        suffers = any(
            check.own_health_of([violation.key]) is Health.BROKEN
            and target in dependencies_of(violation.target, targets)
            for violation in filed
        )
        everything = check.own_health_of(all_keys | spread)
        health = check.own_health_of(keys) if target else everything
        exited = any(
            violation.target in ended and check.own_health_of([violation.key]) is Health.BROKEN
            for violation in mine
        )
        return cls(keys, harm, pending, health, everything, suffers, exited)


class Verifier:
    """Decides whether a ticket's invariants hold. The word of an agent is not evidence."""

    def __init__(
        self,
        *,
        clock: Clock,
        stable_s: float | Callable[[str], float],
        deadline_s: float,
        interval_s: float,
    ) -> None:
        self._clock = clock
        self._stable_s = stable_s
        self._deadline_s = deadline_s
        self._interval_s = interval_s

    def _stable_of(self, subject: str) -> float:
        return self._stable_s(subject) if callable(self._stable_s) else self._stable_s

    async def prove(
        self,
        ticket: Callable[[], Ticket],
        look: Callable[[], Awaitable[CheckResult]],
        *,
        before: frozenset[str],
        targets: Sequence[Target] = (),
        deadline_s: float | None = None,
        hasty: bool = False,
        changed: bool = False,
        concern: Concern = NO_CONCERN,
        target: str = "",
        ended: Callable[[], Collection[str]] = tuple,
    ) -> Proof:
        """Check until every violation of the ticket has held for the stable period, or time is up.

        Every check reads the ticket again, because it may grow. `before` is what was broken before
        the first action. What broke since is harm, unless the fault itself spread along `targets`.
        A violation that only other systems still report is awaited. `hasty` ends at the first check
        that shows it broken. After a change (`changed`) the wait ends early when a violation comes
        back or persists, the process of a broken target has exited (`ended`), or something critical
        is harmed. With a `target`, only its own violations count.
        """
        started = self._clock.monotonic()
        stable_for_s = self._stable_of(ticket().subject)
        # A finding that has not moved by then persists, unless the change needs longer.
        persists_s = deadline_s or max(self._deadline_s / 2, 2 * stable_for_s)
        course = _Course(started + persists_s, max(2 * stable_for_s, ENDED_S, deadline_s or 0.0))
        # A subject with rare checks has to hold for long, and gets the time to begin to.
        deadline_s = max(self._deadline_s, deadline_s or 0.0, 2 * stable_for_s)
        holding, looks = _Holding(), 0
        hurt_at: float | None = None
        while True:
            check = await look()
            looks, now, at = looks + 1, self._clock.monotonic(), check.observation.at
            view = _View.of(check, ticket(), before, targets, concern, target, ended())
            harm, health = view.harm, view.health
            well_s = holding.note(view.keys, now, at, well=health is Health.HEALTHY)
            stable_s = well_s or 0.0
            hurt_at = (now if hurt_at is None else hurt_at) if harm else None
            hurt_s = 0.0 if hurt_at is None else now - hurt_at
            enough_s = stable_for_s
            if target:  # what depends on it gets time to recover
                enough_s *= 2 if view.suffers else TARGET_RATIO
            held = well_s is not None and looks > 1 and stable_s >= enough_s
            if target and held and view.everything is Health.HEALTHY:
                target = ""  # the rest holds as well, so all of it is to be proven
                continue
            critical = concern.critical_of(harm, hurt_s, stable_for_s)
            # One check with another break proves little.
            judged = hurt_s >= stable_for_s if harm else not view.pending
            course.note(check, view, now, held_s=stable_for_s / 2)
            over = now - started >= deadline_s or (hasty and health is not Health.HEALTHY)
            if (held and judged) or over or (changed and (course.is_lost(now) or critical)):
                break
            await self._clock.sleep(self._interval_s)
        detail = _describe_proof(view, looks, stable_s, held=held, target=target)
        return Proof(
            held=held and not harm,
            health=health,
            looks=looks,
            since=holding.since() or at,
            until=at,
            stable_s=round(stable_s, 3),
            detail=detail,
            harm=harm,
            pending=view.pending if held and not harm else (),
            critical=critical,
            target=target,
        )


def _split_new(
    check: CheckResult,
    new: Iterable[str],
    ticket: Ticket,
    targets: Sequence[Target],
    concern: Concern,
) -> tuple[frozenset[str], tuple[str, ...]]:
    """The new breaks, split into the spread of the fault itself and harm."""
    known = {violation.invariant for violation in ticket.violations} | concern.predicted
    about = {violation.target for violation in ticket.violations}
    needed = about.union(*(dependencies_of(name, targets) for name in about))
    subject = check.observation.subject
    spread: set[str] = set()
    harm: set[str] = set()
    wanted = set(new)
    for finding in check.findings:
        key = key_of(subject, finding.target, finding.invariant)
        if key not in wanted:
            continue
        leans = dependencies_of(finding.target, targets) & about
        whole = finding.target == subject and finding.invariant != OBSERVABLE
        related = leans or whole or finding.target in needed
        # A cause that is known does not break what it does not predict.
        if concern.predicted and finding.invariant in concern.critical.keys() - known:
            related = False
        (spread if related else harm).add(key)
    return frozenset(spread), tuple(sorted(harm))


def _describe_proof(view: _View, looks: int, stable_s: float, *, held: bool, target: str) -> str:
    if view.harm:
        return f"Another invariant broke meanwhile: {', '.join(view.harm)}."
    if held and view.pending:
        return (
            f"Operator's own invariants held for {stable_s:.1f} s in {looks} checks, but"
            f" other systems still report {', '.join(view.pending)}."
        )
    if held and target:
        return f"Every invariant of {target} held for {stable_s:.1f} s in {looks} checks."
    if held:
        return f"Every invariant of the ticket held for {stable_s:.1f} s in {looks} checks."
    return (
        f"After {looks} checks the invariants of the ticket are {view.health}; nothing is proven."
    )
