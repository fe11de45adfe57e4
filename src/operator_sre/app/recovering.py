"""What an operator that was killed left open: found out, recorded, never run again."""

from __future__ import annotations

import asyncio

from operator_protocols.domain.action import Action, Result
from operator_protocols.domain.entry import Entry
from operator_protocols.errors import OperatorError
from operator_sre.app.hands import MACHINE
from operator_sre.app.wiring import App
from operator_sre.codec import from_json
from operator_sre.executor import Executor
from operator_sre.executor.recovery import Recovery

__all__ = ["follow_abandoned", "settle_abandoned"]

# How long whoever only passes by waits, and how often an agent looks.
PASSING_S = 0.5
INTERVAL_S = 10.0


async def settle_abandoned(app: App, *, wait_s: float = PASSING_S) -> dict[int, Result | None]:
    """Record what became of each; None for what still runs, within its own limits."""
    return await _recovery(app).settle(wait_s=wait_s)


async def follow_abandoned(app: App) -> None:
    """Look again and again, until cancelled."""
    while True:
        await settle_abandoned(app, wait_s=INTERVAL_S)
        await asyncio.sleep(INTERVAL_S)


def _recovery(app: App) -> Recovery:
    def executor(intent: Entry) -> Executor:
        subject = _subject_of(app, intent)
        try:
            return app.hands(subject).executor
        except OperatorError:  # a rig that is gone: its commands ran on this machine
            return app.hands(MACHINE).executor

    return Recovery(app.store.intents, app.doer, executor)


def _subject_of(app: App, intent: Entry) -> str:
    """Whose targets say where it ran."""
    ticket = app.store.tickets.get(intent.ticket) if intent.ticket is not None else None
    if ticket is not None:
        return ticket.subject
    target = from_json(Action, intent.payload["action"]).target
    for subject in app.config.subjects:
        if target and target in [one.name for one in subject.targets]:
            return subject.name
    return MACHINE
