"""Retention: the bodies of old ledger entries go after `ledger_days`; their digests stay."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from typing import TYPE_CHECKING

from operator_protocols.domain.entry import Actor, Entry
from operator_protocols.errors import OperatorError
from operator_sre.app.store import purge_store
from operator_sre.app.wiring import maintenance_of

if TYPE_CHECKING:
    from operator_sre.app.wiring import App

__all__ = ["RETENTION", "purge_old_entries", "retain_entries"]

# Who purges by the setting: a person wrote it into a file that only trusted users can change.
RETENTION = Actor("retention", "system")
FIRST_S, EVERY_S = 60.0, 24 * 3600.0
log = logging.getLogger(__name__)


async def purge_old_entries(app: App) -> Entry | None:
    """Purge entries older than `ledger_days` once; None when there is none, or no such setting."""
    days = app.config.number("ledger_days")
    if not days:
        return None
    before = app.clock.now() - timedelta(days=days)
    plan = await asyncio.to_thread(maintenance_of(app.config).plan, before)
    if not plan.entries:
        return None
    return await asyncio.to_thread(
        purge_store, app.config, plan, progress=lambda count: None, by=RETENTION
    )


async def retain_entries(app: App) -> None:
    """Purge daily until cancelled; returns at once without the setting."""
    if not app.config.number("ledger_days"):
        return
    await app.clock.sleep(FIRST_S)
    while True:
        try:
            if entry := await purge_old_entries(app):
                log.info("purged %d old entries", entry.payload["entries"])
        except OperatorError as error:  # the store changed meanwhile, or is away: tomorrow again
            log.warning("old entries were not purged: %s", error)
        await app.clock.sleep(EVERY_S)
