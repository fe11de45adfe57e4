"""The services: monitor, agent and worker, each until cancelled."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from operator_protocols.errors import OperatorError, UsageError
from operator_sre.app.approvals import escalate_requests
from operator_sre.app.commands import follow_abandoned
from operator_sre.app.confirmations import follow_confirmations
from operator_sre.app.listeners import introduce_worker, stay_known
from operator_sre.app.notices import send_notices
from operator_sre.app.own_subject import watch_own
from operator_sre.app.policy import follow_policy, policy_in_force, record_overrides
from operator_sre.app.retention import retain_entries
from operator_sre.app.telemetry import Watches, send_heartbeats, send_spans, serve_metrics
from operator_sre.app.wiring import App
from operator_sre.app.workflows import follow_workflows
from operator_sre.config import reread_subjects
from operator_sre.gate import warm

if TYPE_CHECKING:
    from operator_protocols.domain.watcher import Worker
    from operator_protocols.ports import Engine
    from operator_sre.monitor import WatchStats

__all__ = ["agent", "attend", "attend_beside", "monitor", "run_worker", "up", "watch_all"]

# How often it is asked whether there are other subjects than before.
RELOAD_S = 2.0
log = logging.getLogger(__name__)


async def attend(app: App, watches: Watches) -> None:
    """What goes on beside watching, until cancelled: notices, escalated approvals, metrics, the
    heartbeat and traces.

    None of it ever stops the watching.
    """
    async with asyncio.TaskGroup() as group:
        group.create_task(send_notices(app))
        group.create_task(escalate_requests(app))
        group.create_task(serve_metrics(app, watches))
        group.create_task(send_heartbeats(app, watches))
        group.create_task(send_spans(app))


@contextlib.asynccontextmanager
async def attend_beside(app: App, watches: Watches) -> AsyncIterator[None]:
    """The same for the length of an `async with`, whatever becomes of it."""

    def report(beside: asyncio.Future[None]) -> None:
        if not beside.cancelled() and (error := beside.exception()):
            log.error("notifications and metrics have stopped: %r", error)

    beside = asyncio.ensure_future(attend(app, watches))
    beside.add_done_callback(report)
    try:
        yield
    finally:
        beside.cancel()
        await asyncio.wait([beside])


async def monitor(
    app: App, subjects: Sequence[str], *, every: bool = False, stats: WatchStats | None = None
) -> None:
    """Watch these subjects, or the only one there is, until cancelled; people are notified.

    `every` watches all subjects, and follows additions and removals.
    """
    from operator_sre.monitor import WatchStats

    if every and subjects:
        raise UsageError("--all and --subject cannot be used together.")
    known = stats or WatchStats()
    async with attend_beside(app, known.watches):
        sweeping = asyncio.ensure_future(follow_confirmations(app))
        try:
            if every:
                await _watch_every(app, known)
                return
            engine = app.engine(known)
            chosen = app.choose(subjects)
            for subject in chosen:
                # A subject that cannot be had is an error now, not later.
                engine.pipeline.controls(subject)
            await engine.watch(chosen)
        finally:
            sweeping.cancel()
            await asyncio.gather(sweeping, return_exceptions=True)


async def watch_all(app: App) -> None:
    """Watch every subject and Operator itself, and purge by `ledger_days`, until cancelled."""
    async with asyncio.TaskGroup() as group:
        group.create_task(monitor(app, [], every=True))
        group.create_task(watch_own(app))
        group.create_task(retain_entries(app))


async def _watch_every(app: App, stats: WatchStats) -> None:
    """Watch all subjects; restart when they change. Clocks are in the store, so none is lost."""
    while True:
        known, engine = app.subjects(), app.engine(stats)
        able = []
        for name in known:
            try:
                engine.pipeline.controls(name)
                able.append(name)
            except OperatorError as error:  # the others are watched; `operator health` names it
                log.error("%s cannot be watched: %s", name, error)
        if not able:
            log.warning("no subject is configured; waiting for one")
        watching = asyncio.ensure_future(engine.watch(able))
        try:
            app = await _await_change(app, known, watching)
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
        for name in known:
            if why := app.why_gone(name):
                await engine.pipeline.desk.retire(name, why)
        log.info("subjects changed: %s", ", ".join(app.subjects()) or "none")


async def _await_change(app: App, known: Sequence[str], watching: asyncio.Future[None]) -> App:
    """The app as it is when there are other subjects than those known."""
    wrong = ""
    while True:
        done, _ = await asyncio.wait([watching], timeout=RELOAD_S)
        if done:
            watching.result()
        try:
            fresh = replace(app, config=reread_subjects(app.config))
            if fresh.config.subjects != app.config.subjects or fresh.subjects() != known:
                return fresh
            wrong = ""
        except OperatorError as error:  # the file may be incomplete at this moment, or invalid
            if wrong != str(error):
                log.error(
                    "operator.toml is invalid, and the previous settings stay in force: %s", error
                )
            wrong = str(error)


async def agent(app: App, subjects: Sequence[str] = (), *, role: str = "agent") -> None:
    """Work on tickets as they come, until cancelled. On an empty home it waits.

    With `subjects` it leaves the tickets of all others alone. `role` is what it is listed as.
    """
    engine = app.engine()
    me = introduce_worker(app, engine=engine.name, role=role)
    engine = replace(engine, worker=me.id)
    if subjects:
        engine = replace(engine, knows=lambda: subjects)
    await _work(app, engine, me)


async def run_worker(app: App, *, engine: str, name: str = "") -> None:
    """Work on the tickets of this store until cancelled."""
    me = introduce_worker(app, engine=engine, name=name)
    await _work(app, app.engine_named(engine, worker=me.id), me)


async def _work(app: App, engine: Engine, me: Worker) -> None:
    await record_overrides(app)  # before anything is judged by them
    async with asyncio.TaskGroup() as group:
        # The first command of an incident does not wait until the tables of the gate are loaded.
        group.create_task(asyncio.to_thread(warm, policy_in_force(app.config)))
        group.create_task(stay_known(app, me))
        group.create_task(follow_policy(app))
        group.create_task(follow_abandoned(app))
        group.create_task(engine.work())
        group.create_task(follow_workflows(app))


async def up(app: App, subjects: Sequence[str], *, every: bool = False) -> None:
    """Monitor and agent in one process, until cancelled; both about the same subjects."""
    chosen = [] if every else app.choose(subjects)
    about = ", ".join(chosen) or "every subject"
    log.info("watching and working on %s in mode %s", about, app.config.mode)
    async with asyncio.TaskGroup() as group:
        group.create_task(monitor(app, chosen, every=every))
        group.create_task(agent(app, chosen, role="up"))
