"""Looking again, with fresh observations, until the invariants have held for a while."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime

from operator_protocols.domain.health import Health
from operator_protocols.domain.observation import Sighting
from operator_protocols.domain.proof import Proof
from operator_protocols.domain.ticket import Ticket
from operator_protocols.ports import Clock

__all__ = ["Verifier"]


class Verifier:
    """Decides whether a ticket's invariants hold for good. A mind saying so is not evidence."""

    def __init__(
        self, *, clock: Clock, stable_s: float, deadline_s: float, interval_s: float
    ) -> None:
        self._clock = clock
        self._stable_s = stable_s
        self._deadline_s = deadline_s
        self._interval_s = interval_s

    async def prove(
        self,
        ticket: Callable[[], Ticket],
        look: Callable[[], Awaitable[Sighting]],
        *,
        before: frozenset[str],
    ) -> Proof:
        """Look until every violation of the ticket has held for the stable period, or time is up.

        The ticket is asked for at every look, because it may grow meanwhile. `before` is what was
        broken before anybody acted: what is broken now and was not, is harm.
        """
        started = self._clock.monotonic()
        healthy_since: float | None = None
        first_healthy_at: datetime | None = None
        looks = 0
        while True:
            sighting = await look()
            looks += 1
            keys = {violation.key for violation in ticket().violations}
            health = sighting.health_of(keys)
            now = self._clock.monotonic()
            if health is not Health.HEALTHY:
                healthy_since = first_healthy_at = None
            elif healthy_since is None:
                healthy_since, first_healthy_at = now, sighting.observation.at
            stable_s = now - healthy_since if healthy_since is not None else 0.0
            held = healthy_since is not None and looks > 1 and stable_s >= self._stable_s
            if held or now - started >= self._deadline_s:
                break
            await self._clock.sleep(self._interval_s)
        harm = tuple(sorted(sighting.broken() - before - keys))
        return Proof(
            held=held and not harm,
            health=health,
            looks=looks,
            since=first_healthy_at or sighting.observation.at,
            until=sighting.observation.at,
            stable_s=round(stable_s, 3),
            detail=_sentence(health, looks, stable_s, harm, held=held),
            harm=harm,
        )


def _sentence(
    health: Health, looks: int, stable_s: float, harm: tuple[str, ...], *, held: bool
) -> str:
    if harm:
        return f"Something else broke meanwhile: {', '.join(harm)}."
    if held:
        return f"Every invariant of the ticket held over {stable_s:.1f} s, seen in {looks} looks."
    return f"After {looks} looks the ticket's invariants are {health}, so nothing is proven."
