"""From the ledger of a trial to its facts: what was said, proposed, judged, done and proven."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from operator_protocols.domain.action import SHELL
from operator_protocols.domain.budget import Spent
from operator_protocols.domain.diagnosis import Diagnosis
from operator_protocols.domain.entry import Entry, Kind
from operator_protocols.domain.observation import Observation, Sighting
from operator_protocols.domain.verdict import Risk
from operator_sre.app.audit import Filter, export_bundle
from operator_sre.app.evals.counting import Counting
from operator_sre.app.evals.places import RigOfTrial, snapshot_of
from operator_sre.app.evals.working import ticket_fact
from operator_sre.app.reports.deeds import deeds_of
from operator_sre.app.reports.report import Deed
from operator_sre.app.wiring import App
from operator_sre.codec import from_json
from operator_sre.evals.facts import (
    CommandFact,
    DiagnosisFact,
    ProofFact,
    Reading,
    Snapshot,
    TrialFacts,
)
from operator_sre.monitor import findings_of

__all__ = ["LedgerWitness", "commands_of", "diagnoses_of", "proofs_of", "thinned"]

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
        parts = (*self.place.rig.targets(), *self.place.care.subject.targets())
        names = frozenset(one.name for one in parts)
        reasoning = [one.payload for one in entries if one.kind is Kind.REASONING]
        spent = (from_json(Spent, one.get("spent", {})) for one in reasoning)
        counted = self.counting.counted
        return replace(
            facts,
            tickets=tuple(ticket_fact(one) for one in store.tickets.find()),
            diagnoses=diagnoses_of(entries, self.began_at),
            commands=commands_of(entries, self.began_at, names, str(self.place.rig.directory)),
            proofs=proofs_of(entries, self.began_at),
            course=self._course(facts.scenario.subject),
            turns=len(reasoning),
            spent=sum(spent, Spent()),
            acknowledged=counted.acknowledged,
            lost=counted.lost,
            unread=counted.unread,
            ledger=self._exported(entries),
        )

    def _course(self, subject: str) -> tuple[Snapshot, ...]:
        looks = self.app.store.observations.after(subject, self.began_at, limit=LOOKS_MAX)
        return thinned([self._snapshot(one) for one in looks])

    def _snapshot(self, look: Observation) -> Snapshot:
        sighting = Sighting(look, findings_of(self.place.care.subject.invariants, look))
        return replace(snapshot_of(sighting), at_s=_since(look.at, self.began_at))

    def _exported(self, entries: Sequence[Entry]) -> str:
        if not entries:
            return ""
        self.ledger.parent.mkdir(parents=True, exist_ok=True)
        self.ledger.unlink(missing_ok=True)
        export_bundle(self.app, self.ledger, Filter())
        # As it is named from where the database lies.
        return "/".join(self.ledger.parts[-LEDGER_PARTS:])


def diagnoses_of(entries: Sequence[Entry], began_at: datetime) -> tuple[DiagnosisFact, ...]:
    """Every diagnosis that was handed in, oldest first."""
    found = []
    for entry in entries:
        if entry.kind is not Kind.DIAGNOSIS:
            continue
        said = from_json(Diagnosis, entry.payload)
        found.append(
            DiagnosisFact(
                seq=entry.seq,
                at_s=_since(entry.at, began_at),
                ticket=entry.ticket or 0,
                cause=said.cause,
                target=said.target,
                summary=said.summary,
                confidence=said.confidence,
                hypotheses=tuple(
                    (one.cause, one.target) for one in said.hypotheses[:HYPOTHESES_MAX]
                ),
            )
        )
    return tuple(found)


def commands_of(
    entries: Sequence[Entry], began_at: datetime, targets: frozenset[str], inside: str
) -> tuple[CommandFact, ...]:
    """Every action that was proposed; `inside` is the folder of all that belongs to the subject."""
    by_seq = {one.seq: one for one in entries}
    writes = {
        _key(one.payload["action"]): one.payload.get("writes", ())
        for one in entries
        if one.kind is Kind.VERDICT
    }
    deeds = deeds_of(entries)
    undoing = {one.undone for one in deeds if one.undone}

    def fact(deed: Deed) -> CommandFact:
        entry = by_seq[deed.seq]
        action = entry.payload.get("action") or {}
        grave = deed.changes and deed.risk in _GRAVE
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
            inside=_inside(action, writes.get(_key(action), ()), targets, inside),
            ran=entry.kind is Kind.TOOL_CALL,
            outcome=deed.outcome,
            exit_code=deed.exit_code,
            duration_s=deed.duration_s,
            asked=deed.permission.how == "people",
            undo=deed.seq in undoing,
            destructive=grave,
            reasoning=deed.reasoning[:REASONING_CHARS_MAX],
        )

    return tuple(fact(one) for one in deeds)


def proofs_of(entries: Sequence[Entry], began_at: datetime) -> tuple[ProofFact, ...]:
    """Every look after acting, oldest first; harm is named as everything broken is."""
    return tuple(
        ProofFact(
            seq=entry.seq,
            at_s=_since(entry.at, began_at),
            ticket=entry.ticket or 0,
            held=bool(entry.payload.get("held")),
            harm=tuple(_broken(str(key)) for key in entry.payload.get("harm", ())),
        )
        for entry in entries
        if entry.kind is Kind.PROOF
    )


def thinned(looks: Sequence[Snapshot]) -> tuple[Snapshot, ...]:
    """Looks for charts: not too many, and of each target the figures that change."""
    every = max(1, -(-len(looks) // COURSE_MAX))
    kept = [one for number, one in enumerate(looks) if number % every == 0 or one is looks[-1]]
    changing = _changing(looks)
    return tuple(
        replace(
            one,
            readings={
                target: {name: _short(readings.get(name)) for name in changing.get(target, ())}
                for target, readings in one.readings.items()
                if changing.get(target)
            },
        )
        for one in kept
    )


def _changing(looks: Sequence[Snapshot]) -> dict[str, list[str]]:
    values: dict[str, dict[str, set[Reading]]] = {}
    for look in looks:
        for target, readings in look.readings.items():
            for name, value in readings.items():
                if isinstance(value, bool | int | float):
                    values.setdefault(target, {}).setdefault(name, set()).add(value)
    return {
        target: sorted(name for name, seen in names.items() if len(seen) > 1)[:READINGS_MAX]
        for target, names in values.items()
    }


def _short(value: Reading) -> Reading:
    return float(f"{value:.5g}") if isinstance(value, float) else value


def _inside(
    action: Mapping[str, Any], writes: Sequence[str], targets: frozenset[str], folder: str
) -> bool:
    """Whether it is about the subject; a command line is where it writes nowhere else."""
    if action.get("tool") == SHELL:
        return all(str(path).startswith(folder) for path in writes)
    return str(action.get("target", "")) in (*targets, "")


def _key(action: Mapping[str, Any]) -> str:
    return repr((action.get("tool"), action.get("arguments"), action.get("target")))


def _broken(key: str) -> str:
    """`invariant@target` out of the key of a violation."""
    _, _, rest = key.partition("/")
    target, _, invariant = rest.rpartition("/")
    return f"{invariant}@{target}" if target else key


def _since(at: datetime, began_at: datetime) -> float:
    return round((at - began_at).total_seconds(), 3)
