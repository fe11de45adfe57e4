"""Maintenance of a whole store: check, rebuild, backup, restore, migrate and purge."""

from __future__ import annotations

import secrets
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from operator_protocols.domain.entry import Actor, Draft, Entry, Kind
from operator_protocols.errors import NotFoundError, StoreError
from operator_sre.store.backup import Backup, Restored, backup, restore
from operator_sre.store.database import Maintained, explain_failures, sentence
from operator_sre.store.migrations import Migrated, migrate, must_be_current
from operator_sre.store.purge import PurgePlan, plan_purge, purge
from operator_sre.store.rebuild import CheckReport, Difference, Progress, check, rebuild
from operator_sre.store.transaction import Rules, Transaction

__all__ = ["Maintenance"]


@dataclass(frozen=True, slots=True)
class Maintenance:
    """Maintenance of one store. Automatic backups go to `backups`."""

    database: Maintained
    rules: Rules
    backups: Path

    def check(self, *, progress: Progress) -> CheckReport:
        """Check everything; changes nothing."""
        self._must_exist()
        return check(self.database, progress=progress)

    def rebuild(self, *, progress: Progress) -> tuple[Difference, ...]:
        """Rebuild the projections from the ledger, and return how the old ones differed."""
        self._must_exist()
        return rebuild(self.database, progress=progress)

    def backup(self, path: Path, *, force: bool, progress: Progress) -> Backup:
        """Write the whole store to one file."""
        self._must_exist()
        return backup(self.database, path, force=force, progress=progress)

    def restore(
        self,
        file: Path,
        *,
        force: bool,
        progress: Progress,
        by: Actor | None = None,
        reason: str = "",
    ) -> Restored:
        """Fill an empty or absent store; with `force` its contents are saved first.

        The restored store records it, and its head counts from now on.
        """
        # The newest head of the store, or the last head that this home has seen.
        kept: tuple[int, str] = (0, "")
        with suppress(StoreError):
            read = self.rules.head.read() if self.rules.head is not None else None
            kept = (read[0], read[1].hex()) if read else kept
        with suppress(StoreError, *self.database.failures):
            if self.database.version():
                with closing(self.database.reader()) as connection:
                    last = "SELECT seq, hash FROM entries ORDER BY seq DESC LIMIT 1"
                    row = connection.execute(last).fetchone()
                    kept = max(kept, (int(row[0]), bytes(row[1]).hex()) if row else (0, ""))
        done = restore(
            self.database,
            file,
            force=force,
            saved=lambda: self._free_path("restore"),
            progress=progress,
        )
        payload = {
            "file": str(file.absolute()),
            "reason": reason,
            "from": {"seq": kept[0], "hash": kept[1]},
            "to": {"seq": done.seq, "hash": done.head},
            "saved": str(done.saved or ""),
        }
        trouble = "The store was restored, and that could not be recorded"
        with (
            explain_failures(self.database, trouble, OSError),
            closing(self.database.session()) as connection,
        ):
            self.database.begin(connection)
            rules = replace(self.rules, head=None)
            transaction = Transaction(connection, rules)
            entry = transaction.append(Draft(Kind.STORE_RESTORED, payload, actor=by or Actor()))
            transaction.checkpoint(restored=True)
            transaction.flush()
            connection.execute("COMMIT")
            if self.rules.head is not None:
                self.rules.head.write((entry.seq, bytes.fromhex(entry.hash)))
        return done

    def migrate(self) -> Migrated:
        """Migrate the tables to the version of this program, with a backup first."""

        def save() -> Path:
            path = self._free_path("migrate")
            return backup(self.database, path, force=False, progress=lambda seq: None).path

        return migrate(self.database, backup=save)

    def plan(self, before: datetime) -> PurgePlan:
        """The plan of a purge now."""
        self._must_exist()
        with (
            explain_failures(self.database, "The store could not be read"),
            closing(self.database.session()) as connection,
        ):
            self.database.snapshot(connection)
            return plan_purge(connection, before)

    def purge(self, plan: PurgePlan, *, by: Actor, progress: Progress) -> Entry:
        """Purge the entries of the plan, and record it."""
        return purge(self.database, self.rules, plan, by=by, progress=progress)

    def tidy(self) -> bool:
        """Finish an earlier purge; False while purged data may still be on the disk."""
        try:
            return self.database.tidy()
        except self.database.failures:
            return False

    def _must_exist(self) -> None:
        version = self.database.version()
        if version == 0:
            raise NotFoundError(
                f"There is no store at {self.database.place!r}.",
                next_step="Name another with --home DIR or --store.",
            )
        must_be_current(version, self.database.place)

    def _free_path(self, why: str) -> Path:
        """A new path for an automatic backup."""
        try:
            self.backups.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise StoreError(
                f"There is no room for a backup at {str(self.backups)!r}: {sentence(error)}.",
                next_step="Name another directory with --home DIR.",
            ) from error
        at = self.rules.clock.now()
        return self.backups / f"before-{why}-{at:%Y%m%dT%H%M%SZ}-{secrets.token_hex(2)}.db"
