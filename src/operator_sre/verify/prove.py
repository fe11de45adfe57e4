"""Checks a ticket again, with fresh observations, until its invariants have held for a while."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from operator_protocols.domain.health import Health
from operator_protocols.domain.observation import CheckResult, key_of
from operator_protocols.domain.proof import Proof
from operator_protocols.domain.target import Target, dependencies_of
from operator_protocols.domain.ticket import Ticket
from operator_protocols.ports import Clock

__all__ = ["Verifier"]

# A fault does not spread by making its subject unobservable.
OBSERVABLE = "observable"


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

    async def prove(
        self,
        ticket: Callable[[], Ticket],
        look: Callable[[], Awaitable[CheckResult]],
        *,
        before: frozenset[str],
        targets: Sequence[Target] = (),
        deadline_s: float | None = None,
        hasty: bool = False,
    ) -> Proof:
        """Check until every violation of the ticket has held for the stable period, or time is up.

        Every check reads the ticket again, because it may grow meanwhile; the period of an added
        violation begins when it first holds. `before` is what was broken before the first action.
        What broke since is harm, unless the fault itself spread along `targets`: then that has to
        hold as well. A violation that only other systems still report is awaited, and is no reason
        to repair again. `hasty` ends at the first check that shows it broken.
        """
        started = self._clock.monotonic()
        stable_for_s = (
            self._stable_s(ticket().subject) if callable(self._stable_s) else self._stable_s
        )
        # A subject with rare checks has to hold for long, and gets the time to begin to.
        deadline_s = max(self._deadline_s, deadline_s or 0.0, 2 * stable_for_s)
        holding, looks = _Holding(), 0
        hurt_at: float | None = None
        while True:
            check = await look()
            looks += 1
            now, at = self._clock.monotonic(), check.observation.at
            keys = {violation.key for violation in ticket().violations}
            spread, harm = _split_new(check, check.broken() - before - keys, ticket(), targets)
            health = check.own_health_of(keys | spread)
            pending = tuple(  # what other systems report, and our own check does not show
                key
                for key in sorted(keys)
                if check.own_health_of([key]) is Health.HEALTHY
                and check.health_of([key]) is not Health.HEALTHY
            )
            well_s = holding.note(keys, now, at, well=health is Health.HEALTHY)
            stable_s = well_s or 0.0
            hurt_at = (now if hurt_at is None else hurt_at) if harm else None
            hurt_s = 0.0 if hurt_at is None else now - hurt_at
            held = well_s is not None and looks > 1 and stable_s >= stable_for_s
            # One check with another break proves little: the break may be gone at the next.
            judged = hurt_s >= stable_for_s if harm else not pending
            over = now - started >= deadline_s or (hasty and health is not Health.HEALTHY)
            if (held and judged) or over:
                break
            await self._clock.sleep(self._interval_s)
        return Proof(
            held=held and not harm,
            health=health,
            looks=looks,
            since=holding.since() or at,
            until=at,
            stable_s=round(stable_s, 3),
            detail=_describe_proof(health, looks, stable_s, harm, pending, held=held),
            harm=harm,
            pending=pending if held and not harm else (),
        )


def _split_new(
    check: CheckResult, new: Iterable[str], ticket: Ticket, targets: Sequence[Target]
) -> tuple[frozenset[str], tuple[str, ...]]:
    """The new breaks, split into the spread of the fault itself and harm."""
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
        (spread if related else harm).add(key)
    return frozenset(spread), tuple(sorted(harm))


def _describe_proof(
    health: Health,
    looks: int,
    stable_s: float,
    harm: tuple[str, ...],
    pending: tuple[str, ...],
    *,
    held: bool,
) -> str:
    if harm:
        return f"Another invariant broke meanwhile: {', '.join(harm)}."
    if held and pending:
        return (
            f"Operator's own invariants held for {stable_s:.1f} s in {looks} checks, but"
            f" other systems still report {', '.join(pending)}."
        )
    if held:
        return f"Every invariant of the ticket held for {stable_s:.1f} s in {looks} checks."
    return f"After {looks} checks the invariants of the ticket are {health}; nothing is proven."
