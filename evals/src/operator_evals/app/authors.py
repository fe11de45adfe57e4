"""Who made the turns of a run, read from its ledger: the model, or the reasoner that took over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from operator_evals.facts import TurnFact
from operator_protocols.domain.entry import Entry, Kind

__all__ = ["find_authors", "model_of_runs", "turns_of"]

MISUSE = "misuse"


def model_of_runs(entries: Sequence[Entry]) -> str:
    """The model that the runs were started with; empty without a run."""
    started = (entry for entry in entries if entry.kind is Kind.RUN_STARTED)
    return next((str(entry.payload.get("model", "")) for entry in started), "")


def find_authors(entries: Sequence[Entry]) -> Mapping[int, str]:
    """The author of each entry of a run, by its seq: who answered the turn that it belongs to."""
    models: dict[str, str] = {}
    author: dict[str, str] = {}
    found: dict[int, str] = {}
    for entry in entries:
        if not entry.run:
            continue
        if entry.kind is Kind.RUN_STARTED:
            models[entry.run] = str(entry.payload.get("model", ""))
        elif entry.kind is Kind.REASONING:
            author[entry.run] = str(entry.payload.get("by") or models.get(entry.run, ""))
        if entry.run in author:
            found[entry.seq] = author[entry.run]
    return found


def turns_of(entries: Sequence[Entry], began_at: datetime) -> tuple[TurnFact, ...]:
    """Every turn of the runs, oldest first."""
    authors = find_authors(entries)
    return tuple(
        TurnFact(
            seq=entry.seq,
            at_s=round((entry.at - began_at).total_seconds(), 3),
            ticket=entry.ticket or 0,
            by=authors[entry.seq],
            calls=sum(call.get("call") != MISUSE for call in entry.payload.get("calls", ())),
        )
        for entry in entries
        if entry.kind is Kind.REASONING and entry.run
    )
