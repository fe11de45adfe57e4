"""Looking again, with fresh observations, until the invariants have held for a while."""

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

# Not seeing a subject is no way in which its faults spread.
OBSERVABLE = "observable"


@dataclass(slots=True)
class _Holding:
    """Since when each of a growing ticket's violations has been seen to hold without a break."""

    begun: dict[str, tuple[float, datetime]] = field(default_factory=dict)

    def note(self, keys: Iterable[str], now: float, at: datetime, *, well: bool) -> float | None:
        """For how long all of these hold by now; None when they do not."""
        known = self.begun if well else {}
        self.begun = {key: known.get(key, (now, at)) for key in keys} if well else {}
        return now - max((since for since, _ in self.begun.values()), default=now) if well else None

    def since(self) -> datetime | None:
        """When the last of them began to hold."""
        return max((at for _, at in self.begun.values()), default=None)


class Verifier:
    """Decides whether a ticket's invariants hold for good. A mind saying so is not evidence."""

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
        """Look until every violation of the ticket has held for the stable period, or time is up.

        The ticket is asked for at every look, because it may grow meanwhile; the period of what
        was added begins when it is seen to hold. `before` is what was
        broken before anybody acted. What broke since is harm, unless it is the fault itself that
        spread along `targets`: then it has to hold as well. What others still report while our own
        look shows nothing is waited for, and is no reason to repair it again. `hasty` ends at the
        first look that shows it broken: what did not recover by itself is not waited for.
        """
        started = self._clock.monotonic()
        asked = self._stable_s
        stable_for_s = asked(ticket().subject) if callable(asked) else asked
        # What is looked at rarely has to hold for long, and gets the time to begin to.
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
            pending = tuple(  # what others report of the ticket, and our own look does not show
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
            # One look at which something else is broken says little: it may be gone at the next.
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
    """What broke since: how the fault itself spreads, and what has nothing to do with it."""
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
