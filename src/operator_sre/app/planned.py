"""What people did on purpose: it breaks an invariant, and is no incident while it stands."""

from __future__ import annotations

import glob
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from operator_protocols.domain.silence import Silence

if TYPE_CHECKING:
    from operator_protocols.domain.tool import ToolSpec
    from operator_sre.app.wiring import App

__all__ = ["PLANNED", "planned_now"]

# What such a silence is called; it ends when somebody takes back what was done.
PLANNED = "planned"
# It is asked for again at every look, so that its end does not matter.
UNTIL_S = 86_400.0


def planned_now(app: App, subject: str, specs: Iterable[ToolSpec]) -> Sequence[Silence]:
    """What people planned with tools that say what they break.

    What an agent did and left behind is an incident like any other.
    """
    planning = {spec.name: spec for spec in specs if spec.plans}
    if not planning:
        return []
    undoing = {spec.undo for spec in planning.values() if spec.undo}
    until = app.clock.now() + timedelta(seconds=UNTIL_S)
    return [
        Silence(
            id=PLANNED,
            starts_at=change.at,
            until=until,
            by=change.by,
            reason=f"{change.tool} by {change.by}",
            subject=glob.escape(subject),
            target=glob.escape(change.target),
            invariant=glob.escape(invariant),
        )
        for change in app.store.changes.newest(subject, sorted({*planning, *undoing}))
        if change.planned and change.tool in planning
        for invariant in planning[change.tool].plans
    ]
