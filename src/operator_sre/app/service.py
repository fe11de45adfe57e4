"""Watching and working until somebody says stop."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from operator_sre.app.policy import follow_policy, record_overrides
from operator_sre.app.recovering import follow_abandoned
from operator_sre.app.wiring import App
from operator_sre.app.workflows import follow_workflows

__all__ = ["agent", "monitor", "up"]


async def monitor(app: App, subjects: Sequence[str]) -> None:
    """Watch these subjects, or the only one there is, until cancelled."""
    engine = app.engine()
    chosen = app.choose(subjects)
    for subject in chosen:
        engine.pipeline.care(subject)  # a subject that cannot be had is an error now, not later
    await engine.watch(chosen)


async def agent(app: App) -> None:
    """Work on tickets as they come, until cancelled. On an empty home it waits."""
    await record_overrides(app)  # before anything is judged by them
    async with asyncio.TaskGroup() as group:
        group.create_task(follow_policy(app))
        group.create_task(follow_abandoned(app))
        group.create_task(app.engine().work())
        group.create_task(follow_workflows(app))


async def up(app: App, subjects: Sequence[str]) -> None:
    """Monitor and agent in one process, until cancelled."""
    async with asyncio.TaskGroup() as group:
        group.create_task(monitor(app, subjects))
        group.create_task(agent(app))
