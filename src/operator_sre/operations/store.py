"""The store as a whole: look for damage, rebuild tables, migrate.

`operator store backup`, `restore` and `purge` are written by hand: they ask for a passphrase, for
the number of entries that go, or for a confirmation that a broken store cannot record.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

from operator_protocols.domain.token import Role
from operator_sre.app.store import Progress, check_store, migrate_store
from operator_sre.app.wiring import CheckReport, Difference
from operator_sre.contract import SCHEMA_VERSION
from operator_sre.operations.operation import Effect, Local, Operation, Request, View

if TYPE_CHECKING:
    from operator_sre.config import Config

__all__ = ["OPERATIONS", "SUMMARY", "checked_store", "migrated_store"]

SUMMARY = "Check, back up and migrate the store."


class WholeStore(Request, frozen=True):
    """No parameters."""


@dataclass(frozen=True, slots=True)
class CheckedStore:
    """Whether the store is intact, and what is wrong with it."""

    sound: bool
    report: CheckReport
    schema_version: str = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class RebuiltStore:
    """The tables that differed from the ledger."""

    differences: tuple[Difference, ...]
    schema_version: str = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class MigratedStore:
    """The versions of the schema, and where the store was saved first."""

    before: int
    after: int
    backup: str | None
    steps: tuple[str, ...]
    schema_version: str = SCHEMA_VERSION


def checked_store(config: Config, *, progress: Progress) -> CheckedStore:
    """The problems of the store."""
    report = check_store(config, progress=progress)
    return CheckedStore(report.sound, report)


def migrated_store(config: Config) -> MigratedStore:
    """What it took to bring the store to this version."""
    done = migrate_store(config)
    saved = str(done.backup) if done.backup else None
    return MigratedStore(done.before, done.after, saved, tuple(done.steps))


def _check_view(found: CheckedStore, now: datetime) -> View:
    report = found.report
    if found.sound:
        return [f"The store is intact: {report.entries} entries, {report.purged} purged."]
    lines = [f"WRONG: {problem}." for problem in report.problems]
    lines += _describe(report.differences)
    if report.differences:
        lines += ["Rebuild the tables with: operator store rebuild"]
    return lines


def _migrate_view(found: MigratedStore, now: datetime) -> View:
    if found.backup:
        return [
            f"From schema {found.before} to {found.after}: {'; '.join(found.steps)}.",
            f"The previous store is in {found.backup}.",
        ]
    state = f"the store has schema {found.after}" if found.after else "there is no store yet"
    return [f"Nothing to do: {state}."]


def _describe(differences: Iterable[Difference]) -> list[str]:
    return [
        f"DIFFERENT: {table.table}: {table.missing} rows missing, {table.extra} too many,"
        f" {table.changed} changed."
        for table in differences
    ]


_local_operation = partial(Operation, local=Local.STORE, opens="settings", request=WholeStore)
OPERATIONS = (
    _local_operation(
        name="store check",
        help="Check the store for damage. Exit 1 if any. For the chain, use:"
        " operator audit verify.",
        result=CheckedStore,
        call="operator_sre.operations.store.checked_store",
        view=_check_view,
        counted="checked",
        exit_code=lambda found: 0 if found.sound else 1,
    ),
    _local_operation(
        name="store rebuild",
        help="Rebuild all tables derived from the ledger, and report differences.",
        result=RebuiltStore,
        call="operator_sre.app.store.rebuild_store",
        view=lambda found, now: _describe(found.differences) or ["All tables match the ledger."],
        effect=Effect.CHANGE,
        role=Role.ADMIN,
        counted="followed",
    ),
    _local_operation(
        name="store migrate",
        help="Migrate the store to this version. Makes a backup first.",
        result=MigratedStore,
        call="operator_sre.operations.store.migrated_store",
        view=_migrate_view,
        effect=Effect.CHANGE,
        role=Role.ADMIN,
        waiting="migrating",
        unprinted=("steps",),
    ),
)
