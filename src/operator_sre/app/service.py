"""Watching and working until somebody says stop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from operator_protocols.errors import OperatorError, UsageError
from operator_sre.app.confirmations import follow_confirmations
from operator_sre.app.metrics import attended
from operator_sre.app.policy import follow_policy, record_overrides
from operator_sre.app.recovering import follow_abandoned
from operator_sre.app.wiring import App
from operator_sre.app.workers import introduced, stay_known
from operator_sre.app.workflows import follow_workflows
from operator_sre.config import reread_subjects

if TYPE_CHECKING:
    from operator_sre.monitor import WatchStats

__all__ = ["agent", "monitor", "up"]

# How often it is asked whether there are other subjects than before.
RELOAD_S = 2.0
log = logging.getLogger(__name__)


async def monitor(
    app: App, subjects: Sequence[str], *, every: bool = False, stats: WatchStats | None = None
) -> None:
    """Watch these subjects, or the only one there is, until cancelled; people are notified.

    `every` watches all there are, and those that come and go meanwhile.
    """
    from operator_sre.monitor import WatchStats

    known = stats or WatchStats()
    async with attended(app, known.watches):
        sweeping = asyncio.ensure_future(follow_confirmations(app))
        try:
            await _watch(app, subjects, known, every=every)
        finally:
            sweeping.cancel()
            await asyncio.gather(sweeping, return_exceptions=True)


async def _watch(app: App, subjects: Sequence[str], stats: WatchStats, *, every: bool) -> None:
    if every:
        if subjects:
            raise UsageError("--all and --subject contradict each other.")
        await _watch_every(app, stats)
        return
    engine = app.engine(stats)
    chosen = app.choose(subjects)
    for subject in chosen:
        engine.pipeline.care(subject)  # a subject that cannot be had is an error now, not later
    await engine.watch(chosen)


async def _watch_every(app: App, stats: WatchStats | None) -> None:
    """Watch what there is; begin anew when that changes. Clocks are in the store, so none stops."""
    while True:
        known = app.subjects()
        engine = app.engine(stats)
        able = [name for name in known if _can_be_had(engine.pipeline.care, name)]
        if not able:
            log.warning("There is no subject to watch; waiting for one.")
        watching = asyncio.ensure_future(engine.watch(able))
        try:
            app = await _changed(app, known, watching)
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
        for name in known:
            if why := app.why_gone(name):
                await engine.pipeline.desk.retire(name, why)
        log.info("subjects changed: %s", ", ".join(app.subjects()) or "none")


def _can_be_had(care: Callable[[str], object], subject: str) -> bool:
    """One that cannot must not keep the others from being watched; `operator health` names it."""
    try:
        care(subject)
    except OperatorError as error:
        log.error("%s cannot be watched: %s", subject, error)
        return False
    return True


async def _changed(app: App, known: Sequence[str], watching: asyncio.Future[None]) -> App:
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
        except OperatorError as error:  # somebody is writing it this moment, or made a mistake
            if wrong != str(error):
                log.error("operator.toml is as it was before: %s", error)
            wrong = str(error)


async def agent(app: App, subjects: Sequence[str] = (), *, role: str = "agent") -> None:
    """Work on tickets as they come, until cancelled. On an empty home it waits.

    With `subjects` it leaves the tickets of all others alone. `role` is what it is listed as.
    """
    engine = app.engine()
    me = introduced(app, engine=engine.name, role=role)
    engine = replace(engine, worker=me.id)
    if subjects:
        engine = replace(engine, knows=lambda: subjects)
    await record_overrides(app)  # before anything is judged by them
    async with asyncio.TaskGroup() as group:
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
