"""The store as a whole, for people: look it through, save it, bring it back, let old things go."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from operator_protocols.domain.entry import Actor, Entry
from operator_protocols.errors import UsageError
from operator_sre.app.approvals import signed_in
from operator_sre.app.wiring import maintenance_of
from operator_sre.config import Config

if TYPE_CHECKING:
    from operator_sre.app.wiring import (
        Backup,
        CheckReport,
        Difference,
        Migrated,
        PurgePlan,
        Restored,
    )

__all__ = [
    "backup_store",
    "check_store",
    "migrate_store",
    "plan_purge",
    "purge_store",
    "rebuild_store",
    "restore_store",
]

Progress = Callable[[int], None]


def check_store(config: Config, *, progress: Progress) -> CheckReport:
    """Look the store through; nothing is changed."""
    return maintenance_of(config).check(progress=progress)


def rebuild_store(config: Config, *, progress: Progress) -> tuple[Difference, ...]:
    """Make everything anew that follows from the ledger; returns what was different before."""
    return maintenance_of(config).rebuild(progress=progress)


def backup_store(config: Config, path: Path, *, force: bool, progress: Progress) -> Backup:
    """Write the whole store to one file, and read it back."""
    return maintenance_of(config).backup(path, force=force, progress=progress)


def restore_store(config: Config, file: Path, *, force: bool, progress: Progress) -> Restored:
    """Fill an empty or absent store from a backup; `force` saves and replaces what is there."""
    return maintenance_of(config).restore(file, force=force, progress=progress)


def migrate_store(config: Config) -> Migrated:
    """Bring the tables up to this program, with a backup first."""
    return maintenance_of(config).migrate()


def plan_purge(config: Config, before: str) -> PurgePlan:
    """What would be purged: stories that ended before this day or moment."""
    maintenance = maintenance_of(config)
    return maintenance.plan(_moment(before, now=maintenance.rules.clock.now()))


def purge_store(config: Config, plan: PurgePlan, *, progress: Progress) -> Entry:
    """Purge what was planned, in the name of whoever is signed in; returns the record of it."""
    by = Actor(id=signed_in(), type="user")
    return maintenance_of(config).purge(plan, by=by, progress=progress)


def _moment(text: str, *, now: datetime) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise UsageError(
            f"{text!r} is not a date.", next_step="Write it as 2026-03-04 or 2026-03-04T12:00:00Z."
        ) from error
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    if moment > now:
        raise UsageError(f"{text!r} has not come yet.", next_step="Name a date in the past.")
    return moment
