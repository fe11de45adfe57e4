"""How much of each subject was changed, and how much may be."""

from __future__ import annotations

from dataclasses import dataclass

from operator_protocols.domain.limits import Limits, Usage
from operator_sre.app.hands import MACHINE
from operator_sre.app.persons import administrator
from operator_sre.app.wiring import App

__all__ = ["LimitsView", "limits_of", "reset_limits", "show_limits"]


@dataclass(frozen=True, slots=True)
class LimitsView:
    """The limits of a subject, what they go by, and why no change may begin now."""

    subject: str
    limits: Limits
    usage: Usage
    refusal: str


def show_limits(app: App) -> list[LimitsView]:
    """Every subject that can be watched from here, and the machine where it was changed."""
    views = [_view(app, name) for name in dict.fromkeys([*app.subjects(), MACHINE])]
    return [one for one in views if one.subject != MACHINE or one.usage != Usage(MACHINE)]


def limits_of(app: App, subject: str) -> LimitsView:
    """The limits of one subject, or of the machine."""
    return _view(app, _chosen(app, subject))


def _chosen(app: App, subject: str) -> str:
    (chosen,) = [MACHINE] if subject == MACHINE else app.choose([subject])
    return chosen


async def reset_limits(app: App, subject: str, *, reason: str) -> LimitsView:
    """Count from here on: changes are allowed again at once."""
    chosen = _chosen(app, subject)
    await app.store.changes.reset(chosen, by=administrator(app, "reset limits"), reason=reason)
    return _view(app, chosen)


def _view(app: App, subject: str) -> LimitsView:
    limits = app.limits_of(len(app.targets_of(subject)), rig=app.is_rig(subject))
    now = app.clock.now()
    usage = app.store.changes.usage(subject, limits, now=now)
    return LimitsView(subject, limits, usage, limits.refusal(usage, now))
