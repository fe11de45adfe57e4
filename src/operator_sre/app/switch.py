"""The kill switch: everything stops, here and in every other process of this home."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from operator_protocols.domain.command import CommandFilter
from operator_protocols.domain.switch import SwitchState
from operator_protocols.domain.ticket import TicketState
from operator_sre.app.approvals import signed_in
from operator_sre.app.persons import administrator
from operator_sre.app.wiring import App
from operator_sre.executor.containers import end_containers

__all__ = ["PartlyRun", "Stopped", "switch_off", "switch_on", "switch_state"]

COMMANDS_MAX = 1000
# Shorter than where time is up: whoever turns the switch wants it to be over within two seconds.
GRACE_S = 0.5


@dataclass(frozen=True, slots=True)
class PartlyRun:
    """A command that had begun and not ended when the switch was turned on."""

    seq: int
    command: str
    target: str
    ticket: int | None


@dataclass(frozen=True, slots=True)
class Stopped:
    """What the switch found and stopped.

    `pending_proposals` are requests that nobody can say yes to any more, `processes` pids that
    this command ended itself, `tasks` tickets that somebody was working on.
    """

    switch: SwitchState
    pending_proposals: tuple[str, ...]
    processes: tuple[int, ...]
    docker_containers: tuple[str, ...]
    docker: str
    tasks: tuple[int, ...]
    partly_run: tuple[PartlyRun, ...]
    took_s: float


def switch_state(app: App) -> SwitchState:
    """How the switch stands."""
    return app.store.switch.state()


async def switch_on(app: App, *, reason: str) -> Stopped:
    """Permit nothing from here on and end what runs. Fine when it is on already."""
    begun = app.clock.monotonic()
    cancelled = await app.store.switch.turn_on(by=signed_in(), reason=reason)
    partly_run, tasks = _unfinished(app), _tasks(app)
    processes, containers = await asyncio.gather(
        app.running.end_all(grace_s=GRACE_S), end_containers(app.home_id)
    )
    return Stopped(
        switch=switch_state(app),
        pending_proposals=tuple(cancelled),
        processes=processes,
        docker_containers=containers.ended,
        docker=containers.note,
        tasks=tasks,
        partly_run=partly_run,
        took_s=round(app.clock.monotonic() - begun, 3),
    )


async def switch_off(app: App, *, reason: str) -> SwitchState:
    """Let permits be given again; those from before stay void."""
    await app.store.switch.turn_off(
        by=administrator(app, "turn the kill switch off"), reason=reason
    )
    return switch_state(app)


def _unfinished(app: App) -> tuple[PartlyRun, ...]:
    found: Sequence[PartlyRun] = [
        PartlyRun(one.seq, one.command, one.target, one.ticket)
        for one in app.store.commands.newest(CommandFilter(outcome="running"), limit=COMMANDS_MAX)
    ]
    return tuple(found)


def _tasks(app: App) -> tuple[int, ...]:
    return tuple(one.id for one in app.store.tickets.find(states=[TicketState.CLAIMED]))
