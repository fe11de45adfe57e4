"""What is shown of a database: campaigns, one with all its figures, one trial, and its ledger."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from operator_evals.analysis import Analysis, Scored, analyse, score_trials
from operator_evals.campaign_file import plan_trials
from operator_evals.database import Database, Recorded, open_database
from operator_evals.facts import TrialFacts
from operator_evals.rendering import Shown
from operator_protocols.errors import NotFoundError, OperatorError, UsageError

__all__ = ["LEDGERS", "Bundle", "Gallery", "Measured"]

# The folder beside the database in which the ledgers of trials lie.
LEDGERS = "ledgers"
# The names of bundles: no other file is served.
BUNDLE_STARTS = b"PK\x03\x04"
KEPT_MAX = 8
Version = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Measured:
    """A campaign with all that is computed of it."""

    recorded: Recorded
    analysis: Analysis
    known: tuple[Scored, ...]


@dataclass(frozen=True, slots=True)
class Bundle:
    """The ledger of a trial, open to be read, and how long it is."""

    file: BinaryIO
    size_bytes: int


@dataclass(slots=True)
class Gallery:
    """Reads a database. What was computed is kept until the file changes."""

    path: Path
    _kept: dict[str, tuple[Version, Measured]] = field(default_factory=dict, init=False)

    def campaigns(self) -> list[Shown]:
        """All campaigns, the oldest first, and how far each came."""
        if not self.path.exists():
            return []
        shown = []
        with self._open() as database:
            for recorded in database.campaigns():
                try:
                    wanted = len(plan_trials(recorded.campaign))
                except OperatorError:  # more than are allowed now: it is shown all the same
                    wanted = 0
                count = database.count(recorded.campaign.name)
                shown.append(Shown(recorded, count, wanted))
        return shown

    def campaign(self, name: str) -> Measured:
        """One campaign; NotFoundError where there is none of that name."""
        version: Version = ()  # changes with every write
        for path in (self.path, self.path.with_name(f"{self.path.name}-wal")):
            with suppress(OSError):
                status = path.stat()
                version += (status.st_mtime_ns, status.st_size, status.st_ino)
        known = self._kept.get(name)
        if known is not None and known[0] == version:
            return known[1]
        with self._open() as database:
            recorded = database.campaign(name)
            trials = database.trials(name)
        found = Measured(
            recorded,
            analyse(trials, recorded.campaign),
            tuple(score_trials(trials, recorded.campaign)),
        )
        while len(self._kept) >= KEPT_MAX:
            self._kept.pop(next(iter(self._kept)), None)
        self._kept[name] = (version, found)
        return found

    def trial(self, campaign: str, key: str) -> Scored:
        """One trial; NotFoundError where there is none."""
        with self._open() as database:
            recorded = database.campaign(campaign)
            facts = database.trial(campaign, key)
        (found,) = score_trials([facts], recorded.campaign)
        return found

    def bundle(self, campaign: str, key: str) -> Bundle:
        """The ledger of a trial, for the caller to close; NotFoundError where there is none."""
        found = _open_bundle(self.path.parent, self.trial(campaign, key).facts)
        if found is None:
            raise NotFoundError(
                "The ledger of this trial is not here.",
                next_step=f"It belongs in {LEDGERS!r} beside the database.",
            )
        return found

    @contextmanager
    def _open(self) -> Iterator[Database]:
        if not self.path.is_file():
            raise UsageError(
                f"There is no database {str(self.path)!r}.",
                next_step="Measure something first: operator eval run --help",
            )
        with open_database(self.path) as database:
            yield database


def _open_bundle(folder: Path, facts: TrialFacts) -> Bundle | None:
    """The file below a folder, opened one step after the other: no link is followed on the way."""
    parts = PurePosixPath(facts.ledger).parts
    if parts[:1] != (LEDGERS,) or ".." in parts:
        return None
    try:
        place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        for step in parts[:-1]:
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            inner = os.open(step, flags, dir_fd=place)
            os.close(place)
            place = inner
        # A pipe would keep us waiting for who writes into it.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        handle = os.open(parts[-1], flags, dir_fd=place)
    except (OSError, ValueError):
        return None
    finally:
        os.close(place)
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode):
        os.close(handle)
        return None
    file = os.fdopen(handle, "rb")
    if file.read(len(BUNDLE_STARTS)) != BUNDLE_STARTS:
        file.close()
        return None
    file.seek(0)
    return Bundle(file, status.st_size)
