"""The facts of campaigns in one database, and as a published file."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from operator_evals.campaign import Campaign
from operator_evals.facts import Snapshot, TrialFacts
from operator_protocols.domain.budget import Spent
from operator_protocols.errors import NotFoundError, StoreError, UsageError
from operator_sre.codec import from_json, to_json

__all__ = [
    "PUBLISHED",
    "Database",
    "Generated",
    "Published",
    "Recorded",
    "must_be_written",
    "open_database",
    "publish_text",
    "read_published",
]

VERSION = 1
BUSY_S = 10.0
_TABLES = """
CREATE TABLE campaigns (
    name TEXT PRIMARY KEY, started_at TEXT NOT NULL, machine TEXT NOT NULL, body TEXT NOT NULL
) STRICT;
CREATE TABLE trials (
    campaign TEXT NOT NULL REFERENCES campaigns (name), key TEXT NOT NULL, state TEXT NOT NULL,
    body TEXT NOT NULL, PRIMARY KEY (campaign, key)
) STRICT;
"""
# The answers of models on trials, word for word. The table is made with the first answer.
_OPINIONS = """
CREATE TABLE IF NOT EXISTS opinions (
    model TEXT NOT NULL, question TEXT NOT NULL, said TEXT NOT NULL, spent TEXT NOT NULL,
    PRIMARY KEY (model, question)
) STRICT
"""

# Trials of generated faults, which belong to no campaign: they add up at one revision of the code.
# The table is made when there is the first of them.
_GENERATED = """
CREATE TABLE IF NOT EXISTS generated (
    subject TEXT NOT NULL, revision TEXT NOT NULL, key TEXT NOT NULL, machine TEXT NOT NULL,
    body TEXT NOT NULL, PRIMARY KEY (subject, revision, key)
) STRICT
"""


@dataclass(frozen=True, slots=True)
class Recorded:
    """A campaign as it was started, with its machine, versions and revision of the code."""

    campaign: Campaign
    started_at: str
    machine: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Generated:
    """A trial of a generated fault, and the machine and revision that it ran on."""

    machine: Mapping[str, str]
    facts: TrialFacts


class Database:
    """The facts of all campaigns of a home."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self.path = path

    def begin(self, recorded: Recorded) -> None:
        """Write a campaign down; one of the same name must be the same campaign."""
        name = recorded.campaign.name
        known = self._connection.execute("SELECT body FROM campaigns WHERE name = ?", (name,))
        body, row = _text(recorded.campaign), known.fetchone()
        if row is not None and row[0] != body:
            raise UsageError(
                f"The campaign {name!r} was started with other scenarios, variants or settings.",
                next_step="Use another name, or restore the original file.",
            )
        if row is None:
            values = (name, recorded.started_at, _text(dict(recorded.machine)), body)
            self._write("INSERT INTO campaigns VALUES (?, ?, ?, ?)", values)

    def keep(self, facts: TrialFacts) -> None:
        """Write one trial down; done again, it replaces the earlier one."""
        values = (facts.campaign, facts.key, facts.state.value, _text(facts))
        self._write("INSERT OR REPLACE INTO trials VALUES (?, ?, ?, ?)", values)

    def campaigns(self) -> list[Recorded]:
        """All campaigns, the oldest first."""
        sql = "SELECT body, started_at, machine FROM campaigns ORDER BY started_at, name"
        return [_read_recorded(row) for row in self._connection.execute(sql)]

    def campaign(self, name: str) -> Recorded:
        """One campaign by its name."""
        sql = "SELECT body, started_at, machine FROM campaigns WHERE name = ?"
        row = self._connection.execute(sql, (name,)).fetchone()
        if row is None:
            known = ", ".join(campaign.campaign.name for campaign in self.campaigns()) or "none yet"
            raise NotFoundError(f"There is no campaign {name!r}.", next_step=f"Known: {known}.")
        return _read_recorded(row)

    def trials(self, campaign: str) -> list[TrialFacts]:
        """All trials of a campaign, in an order that is always the same."""
        sql = "SELECT body FROM trials WHERE campaign = ? ORDER BY key"
        rows = self._connection.execute(sql, (campaign,))
        return [from_json(TrialFacts, json.loads(row[0])) for row in rows]

    def count(self, campaign: str) -> int:
        """How many trials of a campaign there are."""
        sql = "SELECT count(*) FROM trials WHERE campaign = ?"
        (found,) = self._connection.execute(sql, (campaign,)).fetchone()
        return int(found)

    def trial(self, campaign: str, key: str) -> TrialFacts:
        """One trial by its key."""
        sql = "SELECT body FROM trials WHERE campaign = ? AND key = ?"
        row = self._connection.execute(sql, (campaign, key)).fetchone()
        if row is None:
            raise NotFoundError(
                f"The campaign {campaign!r} has no trial {key!r}.",
                next_step=f"See its trials with: operator eval show {campaign}",
            )
        return from_json(TrialFacts, json.loads(row[0]))

    def keep_generated(self, facts: TrialFacts, machine: Mapping[str, str]) -> None:
        """Write one trial of a generated fault down, under the revision of the code."""
        values = (
            *(facts.scenario.subject, machine["revision"], facts.key),
            *(_text(dict(machine)), _text(facts)),
        )
        self._write(_GENERATED, ())
        self._write("INSERT OR REPLACE INTO generated VALUES (?, ?, ?, ?, ?)", values)

    def read_generated(self, subject: str, revision: str | None) -> list[Generated]:
        """The trials of generated faults of a subject, at one revision or the newest there is."""
        made = "SELECT 1 FROM sqlite_master WHERE name = 'generated'"
        if self._connection.execute(made).fetchone() is None:
            return []
        if revision is None:
            sql = "SELECT revision FROM generated WHERE subject = ? ORDER BY rowid DESC LIMIT 1"
            row = self._connection.execute(sql, (subject,)).fetchone()
            revision = row[0] if row else ""
        sql = "SELECT machine, body FROM generated WHERE subject = ? AND revision = ? ORDER BY key"
        rows = self._connection.execute(sql, (subject, revision))
        return [
            Generated(json.loads(machine), from_json(TrialFacts, json.loads(body)))
            for machine, body in rows
        ]

    def find_answer(self, model: str, question: str) -> tuple[str, Spent] | None:
        """The answer of a model to a question, by its digest, and the cost; None: never asked."""
        made = "SELECT 1 FROM sqlite_master WHERE name = 'opinions'"
        if self._connection.execute(made).fetchone() is None:
            return None
        sql = "SELECT said, spent FROM opinions WHERE model = ? AND question = ?"
        row = self._connection.execute(sql, (model, question)).fetchone()
        return None if row is None else (row[0], from_json(Spent, json.loads(row[1])))

    def keep_answer(self, model: str, question: str, answer: str, spent: Spent) -> None:
        """Keep an answer; the first one stays."""
        try:
            self._write(_OPINIONS, ())
            values = (model, question, answer, _text(spent))
            self._write("INSERT OR IGNORE INTO opinions VALUES (?, ?, ?, ?)", values)
        except sqlite3.Error as problem:
            raise StoreError(f"{self.path} cannot keep an opinion: {problem}.") from problem

    def _write(self, sql: str, values: Sequence[object]) -> None:
        with self._connection:
            self._connection.execute(sql, values)


@contextmanager
def open_database(path: Path) -> Iterator[Database]:
    """Open the facts at a path, made where there are none yet.

    Those of a published campaign are read into memory, so that what is written there is lost.
    """
    if path.suffix == PUBLISHED:
        with closing(sqlite3.connect(":memory:")) as connection:
            found = read_published(path)
            _prepare(connection, path)
            database = Database(connection, path)
            database.begin(Recorded(found.campaign, found.started_at, found.machine))
            for trial in found.trials:
                database.keep(trial)
            yield database
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        connection = sqlite3.connect(path, timeout=BUSY_S)
    except sqlite3.Error as problem:
        raise StoreError(f"{path} cannot be opened: {problem}.") from problem
    try:
        _prepare(connection, path)
        yield Database(connection, path)
    finally:
        connection.close()


def must_be_written(path: Path) -> None:
    """UsageError for a file to which no trial can be added."""
    if path.suffix == PUBLISHED:
        raise UsageError(
            f"{path} is a published campaign and cannot be changed.",
            next_step="Name another file with --database.",
        )


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    try:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version == 0:
            connection.execute("BEGIN IMMEDIATE")
            with connection:  # it is checked again now that no other process can make them
                (version,) = connection.execute("PRAGMA user_version").fetchone()
                for statement in () if version else filter(str.strip, _TABLES.split(";")):
                    connection.execute(statement)
                if not version:
                    connection.execute(f"PRAGMA user_version = {VERSION}")
            # To change the journal takes the file for oneself, which is not waited for as a lock
            # is. Who does not get it works as well without: readers and writers then wait for each
            # other.
            if not version:
                with suppress(sqlite3.OperationalError):
                    connection.execute("PRAGMA journal_mode = WAL")
    except sqlite3.DatabaseError as problem:
        raise StoreError(f"{path} does not hold trials: {problem}.") from problem
    if version > VERSION:
        raise StoreError(f"{path} was written by a newer version of this program.")


def _read_recorded(row: Sequence[Any]) -> Recorded:
    body, started_at, machine = row
    return Recorded(from_json(Campaign, json.loads(body)), started_at, json.loads(machine))


def _text(body: object) -> str:
    return json.dumps(to_json(body), sort_keys=True, ensure_ascii=False)


# How the name of such a file ends.
PUBLISHED = ".jsonl"
BYTES_MAX = 256 << 20


@dataclass(frozen=True, slots=True)
class Published:
    """What is in such a text."""

    campaign: Campaign
    started_at: str
    machine: dict[str, str]
    trials: tuple[TrialFacts, ...] = ()


def publish_text(found: Published) -> str:
    """The text, the same for the same facts."""
    head = replace(found, trials=())
    lines = [
        head,
        *(
            replace(
                trial,
                before=_bare(trial.before),
                after=_bare(trial.after),
                # The looks that showed something else than the one before.
                course=tuple(
                    replace(next(looks), readings={})
                    for _, looks in groupby(trial.course, key=lambda look: look.broken)
                ),
            )
            for trial in sorted(found.trials, key=lambda trial: trial.key)
        ),
    ]
    return "".join(
        json.dumps(to_json(line), sort_keys=True, ensure_ascii=False) + "\n" for line in lines
    )


def read_published(path: Path) -> Published:
    """What is in a file; StoreError when it is no such text."""
    try:
        if path.stat().st_size > BYTES_MAX:
            raise StoreError(f"{path} is larger than {BYTES_MAX >> 20} MB.")
        first, *others = path.read_text(encoding="utf-8").splitlines()
        head = from_json(Published, json.loads(first))
        trials = tuple(from_json(TrialFacts, json.loads(line)) for line in others)
    except (OSError, ValueError, TypeError, KeyError) as problem:
        raise StoreError(f"{path} does not hold trials: {problem}.") from problem
    return replace(head, trials=trials)


def _bare(look: Snapshot | None) -> Snapshot | None:
    return None if look is None else replace(look, readings={})
