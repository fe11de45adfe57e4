"""The loops that watch and work, the pipeline that they drive, and the queue of trials."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from operator_sre.engine import LocalEngine
from operator_sre.engine.trials import (
    ErrandState,
    TrialErrand,
    TrialQueue,
    TrialTaker,
    trial_queue,
)
from operator_sre.monitor import Monitor, WatchStats
from operator_sre.pipeline import Pipeline
from operator_sre.tickets import Desk
from operator_sre.verify import Verifier

if TYPE_CHECKING:
    from datetime import datetime

    from operator_protocols.domain.action import Action
    from operator_protocols.domain.ticket import Ticket
    from operator_sre.app.wiring.home import App
    from operator_sre.config import Config
    from operator_sre.controls import Controls
    from operator_sre.engine import LocalEngine
    from operator_sre.monitor import WatchStats
    from operator_sre.pipeline import Pipeline
    from operator_sre.tickets import Desk

__all__ = [
    "ErrandState",
    "TrialErrand",
    "TrialQueue",
    "TrialTaker",
    "engine_of",
    "is_gone",
    "trials_of",
]

# The jitter of checks, as a part of the interval, so that many monitors do not check at once.
JITTER = 0.1
# How long an agent that is stopped waits for what it is doing.
GRACE_S = 5.0
# How many of the newest changes of a subject are searched for earlier repairs.
REPAIRS_READ_MAX = 100


def engine_of(app: App, stats: WatchStats | None = None) -> LocalEngine:
    """The loops that watch and work, on this home; `stats` tell how watching goes."""
    from operator_protocols.kit.datafiles import DataFiles

    known: dict[str, Controls] = {}
    DataFiles.keep_in(app.config.home / "data-files")

    def controls(name: str) -> Controls:
        if name not in known:
            known[name] = app.controls(name)
        return known[name]

    return LocalEngine(
        pipeline=_build_pipeline(app, controls),
        leases=app.store.leases,
        clock=app.clock,
        # What follows the colon tells the processes of one agent apart.
        worker=f"{socket.gethostname()}:{os.getpid()}",
        new_id=app.new_id,
        interval_s=app.config.number("interval_s"),
        switch=app.store.switch,
        intervals={name: app.config.interval_of(name) for name in app.subjects()},
        jitter=JITTER,
        watchers=app.store.watchers,
        stats=stats or WatchStats(),
        approvals=app.store.approvals,
        runs_max=int(app.config.number("runs_max")),
        intents=app.store.intents,
        grace_s=GRACE_S,
        knows=lambda: [*app.subjects(), *(trigger.name for trigger in app.config.triggers)],
        is_gone=is_gone,
    )


def is_gone(worker: str) -> bool:
    """Whether a worker was a process of this machine that has ended."""
    host, _, rest = worker.rpartition(":")
    pid = rest.partition("-")[0]
    if host != socket.gethostname() or not pid.isdigit():
        return False
    try:
        os.kill(int(pid), 0)
    except (ProcessLookupError, OverflowError):
        return True
    except PermissionError:  # it is that of another user
        pass
    return False


def desk_of(app: App) -> Desk:
    """Where the tickets of this home are filed and ended."""
    store = app.store
    return Desk(
        tickets=store.tickets,
        leases=store.leases,
        stable_s=app.config.stable_of,
        journal=store.journal,
        moves=store.ticket_moves,
    )


def _build_pipeline(app: App, controls: Callable[[str], Controls]) -> Pipeline:
    from operator_sre.app.models import mind_of, objection_to, summaries_of
    from operator_sre.app.policy import budget_of
    from operator_sre.app.silences import silences_now

    store, config = app.store, app.config
    interval_s = config.number("interval_s")
    return Pipeline(
        monitor=Monitor(
            clock=app.clock,
            conditions=store.conditions,
            observations=store.observations,
            timeout_s=config.check_timeout_s,
            blind_grace_s=2 * interval_s,
            quiet=lambda subject: silences_now(
                app, subject, [tool.spec for tool in controls(subject).executor.tools]
            ),
            blind_graces={name: 2 * config.interval_of(name) for name in app.subjects()},
            gap_of=lambda subject: 2 * config.interval_of(subject) + config.check_timeout_s,
        ),
        desk=desk_of(app),
        model=mind_of(app),
        verifier=Verifier(
            clock=app.clock,
            stable_s=config.stable_of,
            deadline_s=config.number("deadline_s"),
            interval_s=min(1.0, interval_s),
        ),
        journal=store.journal,
        entries=store.entries,
        sealed=store.sealed,
        tickets=store.tickets,
        clock=app.clock,
        budget=budget_of(app.rules()),
        controls=controls,
        summaries=summaries_of(app),
        gone=app.why_gone,
        objection=objection_to,
        repaired=partial(_times_repaired, app),
    )


def _times_repaired(app: App, ticket: Ticket, action: Action) -> list[datetime]:
    """When agents did the same with success in other runs on this subject."""
    recent = app.store.commands.changes(subject=ticket.subject, limit=REPAIRS_READ_MAX)
    return [
        each.at
        for each, _, _ in recent
        if (each.command, each.target) == (action.command, action.target)
        and each.run not in ("", ticket.run)
        and each.succeeded
    ]


def trials_of(
    config: Config, *, executor: str, version: str, name: str = "", at_once: int = 0
) -> TrialQueue:
    """The queue of a leader, or of a worker that takes `at_once` trials; nothing is opened yet.

    Only workers of the same version take trials, because others might break and judge differently.
    """
    return trial_queue(config.store, executor=executor, version=version, name=name, at_once=at_once)
