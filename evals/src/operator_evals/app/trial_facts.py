"""The facts of a trial, read from its ledger and counted."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from operator_evals.app.authors import find_authors, model_of_runs, turns_of
from operator_evals.app.trial_agents import ticket_fact
from operator_evals.app.trial_rig import RigOfTrial, snapshot_of
from operator_evals.facts import (
    CommandFact,
    DiagnosisFact,
    ProofFact,
    Reading,
    Snapshot,
    TicketFact,
    TrialFacts,
)
from operator_evals.trial import Working
from operator_protocols.domain.action import SHELL, Action, Result
from operator_protocols.domain.budget import Spent
from operator_protocols.domain.diagnosis import Diagnosis
from operator_protocols.domain.entry import Entry, Kind
from operator_protocols.domain.observation import CheckResult
from operator_protocols.domain.verdict import Risk
from operator_protocols.ports import Depot
from operator_sre.app.audit import Filter, export_bundle
from operator_sre.app.models import read_outcome
from operator_sre.app.reports.report import ReportedAction
from operator_sre.app.reports.timeline import read_actions
from operator_sre.app.wiring import App
from operator_sre.codec import from_json
from operator_sre.monitor import findings_of

__all__ = [
    "Counted",
    "Counting",
    "LedgerWitness",
    "Watched",
    "commands_of",
    "depot_of",
    "diagnoses_of",
    "proofs_of",
]

EVERY_S = 0.5
ANSWER_S_MAX = 1.0
PUT_S_MAX = 4.0
READ_S_MAX = 4.0
AGAIN_S = 0.3
# So many of the last marks are read back while others are written.
LATEST = 3
# What a trial of half an hour has; a longer one is not watched to its end.
MARKS_MAX = 4_000


@dataclass(frozen=True, slots=True)
class Counted:
    """How many writes were acknowledged; how many are lost; for how many that is unknown."""

    acknowledged: int = 0
    lost: int = 0
    unread: int = 0


class Counting:
    """Has marks kept from `start` to `stop`, and asks then which of them are gone.

    The depot is asked for when it begins, because there is a rig only then. None: the subject does
    not promise to keep anything.
    """

    def __init__(self, depot: Callable[[], Depot | None], *, every_s: float = EVERY_S) -> None:
        self._make = depot
        self._every_s = every_s
        self._depot: Depot | None = None
        self._task: asyncio.Task[None] | None = None
        self._kept: list[str] = []
        self.counted = Counted()
        self.acknowledged_at: float | None = None  # monotonic, of the last one

    def start(self) -> None:
        """Begin; the rig is up."""
        self._depot = self._make()
        if self._depot is not None:
            self._task = asyncio.create_task(self._write(self._depot))

    async def stop(self) -> Counted:
        """Write no more, and read back; also when it never began, also twice."""
        if self._task is not None and self._depot is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
            gone = await self._find_gone(self._depot)
            unread = len(self._kept) if gone is None else 0
            self.counted = Counted(len(self._kept), len(gone or ()), unread)
        return self.counted

    async def reads(self) -> bool | None:
        """Whether the last marks can be read; None where nothing was kept yet."""
        if self._depot is None or not self._kept:
            return None
        try:
            async with asyncio.timeout(READ_S_MAX):
                return await self._depot.find_lost(self._kept[-LATEST:]) == frozenset()
        except Exception:  # noqa: BLE001  whatever a stranger's depot raises
            return False

    async def _write(self, depot: Depot) -> None:
        while len(self._kept) < MARKS_MAX:
            mark = secrets.token_hex(8)
            try:
                async with asyncio.timeout(PUT_S_MAX):
                    is_acknowledged = await depot.put(mark)
            except Exception:  # noqa: BLE001  whatever a stranger's depot raises
                is_acknowledged = False
            if is_acknowledged:
                self._kept.append(mark)
                self.acknowledged_at = time.monotonic()
            await asyncio.sleep(self._every_s)

    async def _find_gone(self, depot: Depot) -> frozenset[str] | None:
        """The writes that every check missed; None where no check could read."""
        if not self._kept:
            return frozenset()
        gone: frozenset[str] | None = None
        with suppress(TimeoutError):
            async with asyncio.timeout(READ_S_MAX):
                while gone is None or gone:
                    try:
                        seen = await depot.find_lost(self._kept)
                    except Exception:  # noqa: BLE001  whatever a stranger's depot raises
                        seen = None
                    if seen is not None:
                        gone = seen if gone is None else gone & seen
                    await asyncio.sleep(AGAIN_S if gone is None or gone else 0.0)
        return gone


@dataclass(frozen=True, slots=True)
class Watched:
    """A variant at work, and a counter of lost writes beside it."""

    working: Working
    counting: Counting

    async def start(self) -> None:
        """Begin both."""
        self.counting.start()
        await self.working.start()

    def watching(self) -> bool:
        """Whether the variant has checked the rig."""
        return self.working.watching()

    def tickets(self) -> Sequence[TicketFact]:
        """The tickets of its home."""
        return self.working.tickets()

    async def stop(self) -> None:
        """End the variant first: what it does until then counts."""
        try:
            await self.working.stop()
        finally:
            await self.counting.stop()


def depot_of(app: App, place: RigOfTrial, subject: str) -> Depot | None:
    """Where the rig of a trial keeps what it is given; None where its subject promises nothing."""
    make = app.plugin_of(subject).depot
    if make is None:
        return None
    settings = app.settings_of(subject, lambda: place.rig.targets())
    return make(replace(settings, timeout_s=ANSWER_S_MAX))


ENTRIES_MAX = 100_000
LOOKS_MAX = 2_000
COURSE_MAX = 30
LEDGER_PARTS = 3  # ledgers/CAMPAIGN/FILE
READINGS_MAX = 12
REASONING_CHARS_MAX = 1_000
HYPOTHESES_MAX = 10
_GRAVE = frozenset({Risk.HIGH.value, Risk.CRITICAL.value})


@dataclass(frozen=True, slots=True)
class LedgerWitness:
    """Reads what the variant has written into its own home."""

    app: App
    place: RigOfTrial
    began_at: datetime
    ledger: Path
    counting: Counting

    def complete(self, facts: TrialFacts) -> TrialFacts:
        """The facts with all that its ledger tells; the ledger itself is exported beside them."""
        store = self.app.store
        entries = store.entries.after(0, limit=ENTRIES_MAX)
        # A subject may know parts that are no process, such as the cluster that its members are.
        parts = (*self.place.rig.targets(), *self.place.controls.subject.targets())
        names = frozenset(part.name for part in parts)
        reasoning = [entry.payload for entry in entries if entry.kind is Kind.REASONING]
        spent = (from_json(Spent, payload.get("spent", {})) for payload in reasoning)
        counted = self.counting.counted
        invariants = self.place.controls.subject.invariants
        course = [
            replace(
                snapshot_of(CheckResult(look, findings_of(invariants, look))),
                at_s=_since(look.at, self.began_at),
            )
            for look in store.observations.after(
                facts.scenario.subject, self.began_at, limit=LOOKS_MAX
            )
        ]
        if entries:
            self.ledger.parent.mkdir(parents=True, exist_ok=True)
            self.ledger.unlink(missing_ok=True)
            export_bundle(self.app, self.ledger, Filter())
        return replace(
            facts,
            tickets=tuple(ticket_fact(ticket) for ticket in store.tickets.find()),
            diagnoses=diagnoses_of(entries, self.began_at),
            commands=commands_of(entries, self.began_at, names, str(self.place.rig.directory)),
            proofs=proofs_of(entries, self.began_at),
            course=thin_snapshots(course),
            turns=len(reasoning),
            model=model_of_runs(entries),
            turn_facts=turns_of(entries, self.began_at),
            spent=sum(spent, Spent()),
            acknowledged=counted.acknowledged,
            lost=counted.lost,
            unread=counted.unread,
            # As it is named from where the database lies.
            ledger="/".join(self.ledger.parts[-LEDGER_PARTS:]) if entries else "",
        )


def diagnoses_of(entries: Sequence[Entry], began_at: datetime) -> tuple[DiagnosisFact, ...]:
    """Every diagnosis that was handed in, oldest first."""
    authors, found = find_authors(entries), []
    for entry in entries:
        if entry.kind is not Kind.DIAGNOSIS:
            continue
        diagnosis = from_json(Diagnosis, entry.payload)
        found.append(
            DiagnosisFact(
                seq=entry.seq,
                at_s=_since(entry.at, began_at),
                ticket=entry.ticket or 0,
                cause=diagnosis.cause,
                target=diagnosis.target,
                summary=diagnosis.summary,
                confidence=diagnosis.confidence,
                hypotheses=tuple(
                    (hypothesis.cause, hypothesis.target)
                    for hypothesis in diagnosis.hypotheses[:HYPOTHESES_MAX]
                ),
                by=authors.get(entry.seq, ""),
                component=round(
                    sum(
                        each.probability
                        for each in diagnosis.hypotheses
                        if each.target == diagnosis.target
                    ),
                    4,
                ),
            )
        )
    return tuple(found)


def commands_of(
    entries: Sequence[Entry], began_at: datetime, targets: frozenset[str], inside: str
) -> tuple[CommandFact, ...]:
    """Every action that was proposed; `inside` is the folder of all that belongs to the subject."""
    by_seq = {entry.seq: entry for entry in entries}
    authors = find_authors(entries)
    writes = {
        _key(entry.payload["action"]): entry.payload.get("writes", ())
        for entry in entries
        if entry.kind is Kind.VERDICT
    }
    deeds = read_actions(entries)
    undoing = {deed.undone for deed in deeds if deed.undone}
    results = {
        entry.payload["permit"]: entry.payload["result"]
        for entry in entries
        if entry.kind is Kind.TOOL_RESULT
    }
    opened = {entry.ticket: entry.at for entry in entries if entry.kind is Kind.TICKET_OPENED}

    def fact(deed: ReportedAction) -> CommandFact:
        entry = by_seq[deed.seq]
        action = entry.payload.get("action") or {}
        grave = deed.changes and deed.risk in _GRAVE
        is_inside = str(action.get("target", "")) in (*targets, "")
        if action.get("tool") == SHELL:  # a command line is where it writes nowhere else
            paths = writes.get(_key(action), ())
            is_inside = all(str(path).startswith(inside) for path in paths)
        reading, result = "", results.get(entry.payload.get("permit"))
        if action and result:
            since = opened.get(entry.ticket)
            reading = read_outcome(from_json(Action, action), from_json(Result, result), since)
        return CommandFact(
            seq=deed.seq,
            at_s=_since(deed.at, began_at),
            ticket=entry.ticket or 0,
            tool=str(action.get("tool", "")),
            text=deed.command,
            target=deed.target,
            level=deed.level,
            risk=deed.risk,
            changes=deed.changes,
            inside=is_inside,
            ran=entry.kind is Kind.TOOL_CALL,
            outcome=deed.outcome,
            exit_code=deed.exit_code,
            duration_s=deed.duration_s,
            asked=deed.permission.how == "people",
            undo=deed.seq in undoing,
            destructive=grave,
            reasoning=deed.reasoning[:REASONING_CHARS_MAX],
            by=authors.get(deed.seq, ""),
            reading=reading,
        )

    return tuple(fact(deed) for deed in deeds)


def proofs_of(entries: Sequence[Entry], began_at: datetime) -> tuple[ProofFact, ...]:
    """Every check after a change, oldest first; harm is named like everything that is broken."""
    proofs = []
    for entry in entries:
        if entry.kind is not Kind.PROOF:
            continue
        harm = []
        for key in map(str, entry.payload.get("harm", ())):
            # `invariant@target` out of the key of a violation.
            target, _, invariant = key.partition("/")[2].rpartition("/")
            harm.append(f"{invariant}@{target}" if target else key)
        held, ticket = bool(entry.payload.get("held")), entry.ticket or 0
        at_s = _since(entry.at, began_at)
        proofs.append(ProofFact(entry.seq, at_s, ticket, held, tuple(harm)))
    return tuple(proofs)


def thin_snapshots(looks: Sequence[Snapshot]) -> tuple[Snapshot, ...]:
    """Looks for charts: not too many, and of each target the figures that change."""
    every = max(1, -(-len(looks) // COURSE_MAX))
    kept = [look for number, look in enumerate(looks) if number % every == 0 or look is looks[-1]]
    values: dict[str, dict[str, set[Reading]]] = {}
    for look in looks:
        for target, readings in look.readings.items():
            for name, value in readings.items():
                if isinstance(value, bool | int | float):
                    values.setdefault(target, {}).setdefault(name, set()).add(value)
    changing = {
        target: sorted(name for name, seen in names.items() if len(seen) > 1)[:READINGS_MAX]
        for target, names in values.items()
    }
    thin = []
    for look in kept:
        figures: dict[str, dict[str, Reading]] = {}
        for target, readings in look.readings.items():
            for name in changing.get(target, ()):
                value = readings.get(name)
                short = float(f"{value:.5g}") if isinstance(value, float) else value
                figures.setdefault(target, {})[name] = short
        thin.append(replace(look, readings=figures))
    return tuple(thin)


def _key(action: Mapping[str, Any]) -> str:
    return repr((action.get("tool"), action.get("arguments"), action.get("target")))


def _since(at: datetime, began_at: datetime) -> float:
    return round((at - began_at).total_seconds(), 3)
