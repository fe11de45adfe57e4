"""The store as a whole, for people: look it through, save it, bring it back, let old things go."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from operator_protocols.domain.action import digest_of
from operator_protocols.domain.confirmation import Boundary, Confirmation
from operator_protocols.domain.entry import Actor, Draft, Entry, Kind
from operator_protocols.domain.verdict import Risk
from operator_protocols.errors import ConflictError, UsageError
from operator_sre.app.confirmations import Asked, Crossing, get
from operator_sre.app.persons import must_be_a_person, signed_in
from operator_sre.app.wiring import maintenance_of
from operator_sre.config import Config

if TYPE_CHECKING:
    from operator_sre.app.wiring import (
        App,
        Backup,
        CheckReport,
        Difference,
        Migrated,
        PurgePlan,
        Restored,
    )

__all__ = [
    "CROSSING",
    "ON_DISK",
    "backup_store",
    "check_store",
    "migrate_store",
    "plan_purge",
    "purge_asked",
    "purge_recorded",
    "purge_store",
    "rebuild_store",
    "restore_asked",
    "restore_store",
    "tidy_store",
    "watch_purge",
]

ENTRIES_AFTER_MAX = 50
ON_DISK = "Some data is still on disk, because the store is being read. The next write removes it."
# How long a purge may take before other processes count it as interrupted.
PURGE_S_MAX = 3600.0
Progress = Callable[[int], None]
_PROGRESS: ContextVar[Progress] = ContextVar("progress", default=lambda count: None)


def check_store(config: Config, *, progress: Progress) -> CheckReport:
    """Look the store through; nothing is changed."""
    return maintenance_of(config).check(progress=progress)


def rebuild_store(config: Config, *, progress: Progress) -> tuple[Difference, ...]:
    """Rebuild every projection from the ledger; returns the differences."""
    return maintenance_of(config).rebuild(progress=progress)


def backup_store(config: Config, path: Path, *, force: bool, progress: Progress) -> Backup:
    """Write the whole store to one file, and read it back."""
    return maintenance_of(config).backup(path, force=force, progress=progress)


def restore_store(
    config: Config, file: Path, *, force: bool, progress: Progress, reason: str = ""
) -> Restored:
    """Fill an empty or absent store from a backup; `force` saves and replaces what is there.

    Who restored it, why, from which head to which, is the next entry of the store.
    """
    must_be_a_person()
    person = Actor(id=signed_in(), type="user")
    maintenance = maintenance_of(config)
    return maintenance.restore(file, force=force, progress=progress, by=person, reason=reason)


def migrate_store(config: Config) -> Migrated:
    """Bring the tables up to this program, with a backup first."""
    return maintenance_of(config).migrate()


def plan_purge(config: Config, before: str) -> PurgePlan:
    """What would be purged: stories that ended before this day or moment."""
    maintenance = maintenance_of(config)
    try:
        moment = datetime.fromisoformat(before)
    except ValueError as error:
        raise UsageError(
            f"{before!r} is not a date.",
            next_step="Write it as 2026-03-04 or 2026-03-04T12:00:00Z.",
        ) from error
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    if moment > maintenance.rules.clock.now():
        raise UsageError(f"{before!r} is in the future.", next_step="Name a date in the past.")
    return maintenance.plan(moment)


def purge_store(
    config: Config, plan: PurgePlan, *, progress: Progress, by: Actor | None = None
) -> Entry:
    """Execute a planned purge as the signed-in person; returns its record."""
    person = by or Actor(id=signed_in(), type="user")
    return maintenance_of(config).purge(plan, by=person, progress=progress)


def purge_recorded(app: App) -> int | None:
    """The number of the entry that tells of the last purge, right after it."""
    newest = app.store.entries.newest(limit=ENTRIES_AFTER_MAX)
    return next((entry.seq for entry in newest if entry.kind is Kind.PURGED), None)


def tidy_store(config: Config) -> bool:
    """Whether purged data has left the disk; False while a reader holds it."""
    return maintenance_of(config).tidy()


@contextmanager
def watch_purge(progress: Progress) -> Iterator[None]:
    """Report the progress of a confirmed purge for the length of a `with`."""
    before = _PROGRESS.set(progress)
    try:
        yield
    finally:
        _PROGRESS.reset(before)


def purge_asked(plan: PurgePlan) -> Asked:
    """What a person has to say yes to before this is taken away for good."""
    change = {
        "before": plan.before.isoformat(),
        "entries": plan.entries,
        "size_bytes": plan.size_bytes,
        "first": plan.first,
        "last": plan.last,
        "tickets": len(plan.tickets),
    }
    return Asked(
        Boundary.RETENTION_PURGE,
        change,
        Risk.HIGH,
        f"This deletes permanently: {plan.entries} entries of {len(plan.tickets)} tickets,"
        f" {plan.size_bytes} bytes, {plan.first} to {plan.last}.",
        {"plan": _plan_digest(plan)},
    )


def restore_asked(config: Config, file: Path) -> Asked | None:
    """What a person has to say yes to before a store is replaced; None when there is none."""
    if isinstance(config.store, Path) and not config.store.exists():
        return None
    try:
        with file.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise UsageError(
            f"{str(file)!r} cannot be read: {error.strerror}.", next_step="Name a backup."
        ) from error
    return Asked(
        Boundary.DESTRUCTIVE_OPERATION,
        {"deed": "restore", "file": str(file.absolute())},
        Risk.HIGH,
        f"Everything in the store is replaced by {file.name!r}; the current store is saved first.",
        {"file": f"sha256:{digest}"},
    )


def _plan_digest(plan: PurgePlan) -> str:
    return digest_of(
        {
            "before": plan.before.isoformat(),
            "entries": [plan.entries, plan.size_bytes, plan.first, plan.last],
            "tickets": sorted(plan.tickets),
            "runs": sorted(plan.runs),
        }
    )


async def _purge(app: App, confirmation: Confirmation, by: Actor) -> Sequence[Draft]:
    """Purge what was planned; the purge records itself."""
    moment = datetime.fromisoformat(str(confirmation.change["before"]))
    plan = await asyncio.to_thread(maintenance_of(app.config).plan, moment)
    if _plan_digest(plan) != confirmation.bound.get("plan"):
        raise ConflictError(
            "The store has changed since the purge was planned.",
            next_step="Plan the purge again, and confirm it.",
        )
    if not get(app, confirmation.id).open:
        raise ConflictError(
            f"Confirmation {confirmation.id!r} has ended meanwhile; nothing was purged.",
            next_step="Plan the purge again, and confirm it.",
        )
    # It may take minutes, in which others are answered, and the kill switch works.
    await asyncio.to_thread(purge_store, app.config, plan, progress=_PROGRESS.get(), by=by)
    return ()


def _is_purged(app: App, confirmation: Confirmation) -> bool | None:
    """After a crash: nothing is left of what was to be taken, or all of it."""
    plan = maintenance_of(app.config).plan(
        datetime.fromisoformat(str(confirmation.change["before"]))
    )
    if plan.entries == 0:
        return True
    return False if _plan_digest(plan) == confirmation.bound.get("plan") else None


CROSSING = Crossing(
    admin_action=lambda confirmation: "purge the store",
    apply=_purge,
    made=_is_purged,
    patience_s=PURGE_S_MAX,
    left=lambda app, confirmation: "" if tidy_store(app.config) else ON_DISK,
)
