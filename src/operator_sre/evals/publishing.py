"""A campaign as a text that can be read again: what it was, and a line of facts for each trial.

Readings are left out, which no score is made of: what was broken when stays.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from operator_protocols.errors import StoreError
from operator_sre.codec import from_json, to_json
from operator_sre.evals.campaign import Campaign
from operator_sre.evals.facts import Snapshot, TrialFacts

__all__ = ["PUBLISHED", "Published", "published", "read_published"]

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


def published(found: Published) -> str:
    """The text, the same for the same facts."""
    head = replace(found, trials=())
    lines = [head, *(_thin(one) for one in sorted(found.trials, key=lambda one: one.key))]
    return "".join(
        json.dumps(to_json(one), sort_keys=True, ensure_ascii=False) + "\n" for one in lines
    )


def read_published(path: Path) -> Published:
    """What is in a file; StoreError when it is no such text."""
    try:
        if path.stat().st_size > BYTES_MAX:
            raise StoreError(f"{path} is larger than {BYTES_MAX >> 20} MB.")
        first, *others = path.read_text(encoding="utf-8").splitlines()
        head = from_json(Published, json.loads(first))
        trials = tuple(from_json(TrialFacts, json.loads(one)) for one in others)
    except (OSError, ValueError, TypeError, KeyError) as problem:
        raise StoreError(f"{path} does not hold trials: {problem}.") from problem
    return replace(head, trials=trials)


def _thin(trial: TrialFacts) -> TrialFacts:
    return replace(
        trial,
        before=_bare(trial.before),
        after=_bare(trial.after),
        course=tuple(_changes(trial.course)),
    )


def _bare(look: Snapshot | None) -> Snapshot | None:
    return None if look is None else replace(look, readings={})


def _changes(course: Sequence[Snapshot]) -> Iterable[Snapshot]:
    """The looks that showed something else than the one before."""
    last: tuple[str, ...] | None = None
    for look in course:
        if look.broken != last:
            last = look.broken
            yield replace(look, readings={})
