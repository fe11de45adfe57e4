"""The status: the whole home at a glance, read from the store without a new check."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from operator_protocols.domain.ticket import TicketState
from operator_sre.app.approvals import list_approvals
from operator_sre.app.confirmations import find as find_confirmations
from operator_sre.app.health import show_health
from operator_sre.app.listeners import list_workers
from operator_sre.app.notices import notify_status
from operator_sre.app.parts import Part, PartState, read_record
from operator_sre.release import describe_version

if TYPE_CHECKING:
    from operator_sre.app.wiring import App

__all__ = ["HomeStatus", "StatusView", "show_status"]


@dataclass(frozen=True, slots=True)
class HomeStatus:
    """The home and its store: where it is, how large, and how much space is left."""

    path: str
    store: str
    size_bytes: int
    free_bytes: int
    entries: int


@dataclass(frozen=True, slots=True)
class StatusView:
    """Everything at a glance; `problems` are what people should check.

    `subjects` and `tickets` count by health and by state. `spent_usd` is what models cost today.
    """

    at: datetime
    version: str
    fine: bool
    problems: tuple[str, ...]
    service: str
    parts: tuple[Part, ...]
    monitors: int
    workers: int
    subjects: Mapping[str, int]
    tickets: Mapping[str, int]
    approvals: int
    confirmations: int
    kill_switch: bool
    mode: str
    spent_usd: float
    home: HomeStatus


def show_status(app: App) -> StatusView:
    """The status now."""
    store, config = app.store, app.config
    health = show_health(app)
    record = read_record(config.home)
    running = record is not None and record.running
    parts = record.parts if record is not None and running else ()
    workers = sum(view.speaks for view in list_workers(app))
    live = store.tickets.find(states=tuple(state for state in TicketState if state.live))
    switch = store.switch.state()
    approvals = len(list_approvals(app, pending_only=True))
    confirmations = len(find_confirmations(app, pending_only=True))
    problems = [
        f"{part.name} has failed: {part.problem}"
        for part in parts
        if part.state is PartState.FAILED or part.problem
    ]
    if not health.watchers:
        problems.append("no monitor is running")
    if not workers:
        problems.append("no agent is running")
    if switch.on:
        problems.append(f"the kill switch is on: {switch.reason or 'no reason given'}")
    loud = [subject for subject in health.subjects if not subject.fine]
    problems += [f"{subject.subject} is {subject.health}" for subject in loud]
    problems += [
        f"notifications to {channel.name} fail: {channel.problem}"
        for channel in notify_status(app)
        if channel.problem
    ]
    newest = store.entries.newest(limit=1)
    state = f"running since {record.started_at}" if record is not None and running else ""
    # The size of what lies directly in the home, and the space that is left for it.
    entries = newest[0].seq if newest else 0
    place = next(folder for folder in (config.home, *config.home.parents) if folder.is_dir())
    size = 0
    try:
        with os.scandir(place if place == config.home else os.devnull) as files:
            size = sum(file.stat().st_size for file in files if file.is_file())
    except OSError:
        size = 0
    where = "PostgreSQL" if isinstance(config.store, str) else str(config.store)
    return StatusView(
        at=app.clock.now(),
        version=describe_version(),
        fine=not problems,
        problems=tuple(problems),
        service=state or ("not running" if record is None else "stopped"),
        parts=parts,
        monitors=len(health.watchers),
        workers=workers,
        subjects=Counter(subject.health.value for subject in health.subjects),
        tickets=Counter(ticket.state.value for ticket in live),
        approvals=approvals,
        confirmations=confirmations,
        kill_switch=switch.on,
        mode=config.mode.value,
        spent_usd=sum(spent.usd for spent in store.spending.on(app.clock.now()).values()),
        home=HomeStatus(str(config.home), where, size, shutil.disk_usage(place).free, entries),
    )
