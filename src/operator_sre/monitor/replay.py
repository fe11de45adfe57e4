"""Today's invariants over what was recorded: when each would have been broken. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from operator_protocols.domain.health import Health
from operator_protocols.domain.observation import Observation, Sighting, key_of
from operator_protocols.ports import Condition, Invariant
from operator_sre.monitor.conditions import advance, violations_of
from operator_sre.monitor.look import findings_of

__all__ = ["Spell", "replay"]


@dataclass(frozen=True, slots=True)
class Spell:
    """One invariant that was broken at one target for a while; `until` is None while it lasts.

    `ticket` is when it had outlasted its grace; None when it never did.
    """

    invariant: str
    target: str
    since: datetime
    until: datetime | None = None
    ticket: datetime | None = None
    detail: str = ""


def replay(
    looks: Iterable[Observation], invariants: Sequence[Invariant], *, blind_grace_s: float
) -> list[Spell]:
    """Every break in these looks, oldest first, as it would be told today."""
    graces = {one.name: one for one in invariants}
    conditions: tuple[Condition, ...] = ()
    live: dict[str, Spell] = {}
    over: list[Spell] = []
    for look in looks:
        conditions = advance(conditions, Sighting(look, findings_of(invariants, look)))
        for one in conditions:
            key = key_of(one.subject, one.target, one.invariant)
            if one.health is Health.BROKEN and one.broken_since is not None:
                begun = Spell(one.invariant, one.target, one.broken_since)
                live[key] = replace(live.get(key, begun), detail=one.detail)
            elif one.health is Health.HEALTHY and key in live:
                over.append(replace(live.pop(key), until=one.since))
        filed = violations_of(
            conditions, now=look.at, invariants=graces, blind_grace_s=blind_grace_s
        )
        for violation in filed:
            spell = live[violation.key]
            live[violation.key] = replace(spell, ticket=spell.ticket or look.at)
    return sorted([*over, *live.values()], key=lambda one: (one.since, one.target, one.invariant))
