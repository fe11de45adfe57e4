"""The loops that watch and work, and the pipeline that they drive, put together."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from operator_sre.app.wiring.home import App
    from operator_sre.engine import LocalEngine
    from operator_sre.monitor import WatchStats
    from operator_sre.pipeline import Care, Pipeline
    from operator_sre.tickets import Desk

__all__ = ["engine_of"]

# How late a look may be, as a part of its interval, so that many monitors do not ask at once.
JITTER = 0.1
# How long an agent that is stopped waits for what it is doing.
GRACE_S = 5.0


def engine_of(app: App, stats: WatchStats | None = None) -> LocalEngine:
    """The loops that watch and work, on this home; `stats` tell how watching goes."""
    from operator_sre.engine import LocalEngine
    from operator_sre.monitor import WatchStats

    cares: dict[str, Care] = {}

    def care(name: str) -> Care:
        if name not in cares:
            cares[name] = app.care(name)
        return cares[name]

    return LocalEngine(
        pipeline=_pipeline(app, care),
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
        knows=lambda: [*app.subjects(), *(one.name for one in app.config.triggers)],
    )


def desk_of(app: App) -> Desk:
    """Where the tickets of this home are filed and ended."""
    from operator_sre.tickets import Desk

    store = app.store
    return Desk(
        tickets=store.tickets,
        leases=store.leases,
        stable_s=app.config.stable_of,
        journal=store.journal,
        moves=store.ticket_moves,
    )


def _pipeline(app: App, care: Callable[[str], Care]) -> Pipeline:
    from operator_sre.app.models import mind_of, summaries_of
    from operator_sre.app.policy import budget_of
    from operator_sre.app.silences import silences_now
    from operator_sre.monitor import Monitor
    from operator_sre.pipeline import Pipeline
    from operator_sre.verify import Verifier

    store, config = app.store, app.config
    interval_s = config.number("interval_s")
    return Pipeline(
        monitor=Monitor(
            clock=app.clock,
            conditions=store.conditions,
            observations=store.observations,
            timeout_s=config.look_s,
            blind_grace_s=2 * interval_s,
            quiet=lambda subject: silences_now(
                app, subject, [tool.spec for tool in care(subject).executor.tools]
            ),
            blind_graces={name: 2 * config.interval_of(name) for name in app.subjects()},
            gap_of=lambda subject: 2 * config.interval_of(subject) + config.look_s,
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
        care=care,
        summaries=summaries_of(app),
        gone=app.why_gone,
    )
