"""How often commands ran, how often that went well, and what went wrong."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from operator_protocols.domain.category import FailureCategory
from operator_protocols.domain.command import Attempt, Query, Term
from operator_protocols.errors import UsageError
from operator_sre.ledger.history.templates import template_of

__all__ = [
    "FailureGroup",
    "FailurePattern",
    "Tally",
    "category_of",
    "failure_groups",
    "failure_patterns",
    "parse_query",
    "success_patterns",
    "tallies",
]

# A quoted phrase, a word, or a quote that is never closed, which means nothing.
_TERM = re.compile(r'"([^"]*)"(\*?)|([^\s"]+)|"')


def parse_query(text: str) -> Query:
    """Terms that must all be there: words, `"phrases"`, and beginnings with a `*` behind.

    No text is wrong but an empty one; what looks like an operator elsewhere is a word here.
    """
    if not text.strip():
        raise UsageError("The query is empty.", next_step="Name at least one word.")
    terms = []
    for phrase, star, word in _TERM.findall(text):
        if phrase:
            terms.append(Term(phrase.strip(), phrase=True, prefix=bool(star)))
        else:
            terms.append(Term(word.rstrip("*"), prefix=word.endswith("*")))
    return Query(text, tuple(term for term in terms if term.text))


RUNS_MIN = 3
SUCCESS_RATE_MIN = 0.8
FAILURES_MIN = 2
EXAMPLES_MAX = 3


@dataclass(frozen=True, slots=True)
class Tally:
    """One command in figures. `total` counts what ran; `success_rate` is None before an end."""

    command: str
    command_hash: str
    total: int
    successful: int
    failed: int
    refused: int
    success_rate: float | None
    avg_duration_s: float | None
    last: datetime
    last_seq: int


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """Failures of one category, with the newest as examples."""

    category: str
    count: int
    examples: tuple[Attempt, ...]


@dataclass(frozen=True, slots=True)
class FailurePattern:
    """A kind of command that fails again and again in the same way."""

    lines: tuple[str, ...]
    category: str
    failures: int
    runs: int
    failure_rate: float
    last: datetime
    last_seq: int


def tallies(attempts: Iterable[Attempt]) -> list[Tally]:
    """One tally for each command, the most frequent first."""
    groups: dict[str, list[Attempt]] = {}
    for attempt in attempts:
        groups.setdefault(attempt.command_hash, []).append(attempt)
    found = []
    for group in groups.values():
        newest = max(group, key=lambda attempt: attempt.seq)
        refused = sum(attempt.outcome == "refused" for attempt in group)
        ended = [attempt for attempt in group if attempt.succeeded or attempt.failed]
        successful = sum(attempt.succeeded for attempt in ended)
        seconds = sum(attempt.duration_s for attempt in ended)
        found.append(
            Tally(
                command=newest.command,
                command_hash=newest.command_hash,
                total=len(group) - refused,
                successful=successful,
                failed=len(ended) - successful,
                refused=refused,
                success_rate=round(successful / len(ended), 4) if ended else None,
                avg_duration_s=round(seconds / len(ended), 4) if ended else None,
                last=newest.at,
                last_seq=newest.seq,
            )
        )
    return sorted(found, key=lambda tally: (-tally.total, -tally.refused, -tally.last_seq))


def success_patterns(attempts: Iterable[Attempt], *, runs_min: int = RUNS_MIN) -> list[Tally]:
    """Commands that were run at least so often and nearly always went well."""
    return [
        tally
        for tally in tallies(attempts)
        if tally.total >= runs_min and (tally.success_rate or 0.0) >= SUCCESS_RATE_MIN
    ]


def failure_groups(attempts: Iterable[Attempt]) -> list[FailureGroup]:
    """What failed, by category, the most frequent first; attempts come newest first."""
    groups: dict[str, list[Attempt]] = {}
    for attempt in attempts:
        if attempt.failed:
            groups.setdefault(category_of(attempt), []).append(attempt)
    found = [
        FailureGroup(category, len(group), tuple(group[:EXAMPLES_MAX]))
        for category, group in groups.items()
    ]
    return sorted(found, key=lambda group: (-group.count, group.category))


def failure_patterns(
    attempts: Iterable[Attempt], *, failures_min: int = FAILURES_MIN
) -> list[FailurePattern]:
    """Kinds of commands that failed at least so often with one category, the worst first."""
    runs: dict[tuple[str, ...], list[Attempt]] = {}
    for attempt in attempts:
        if attempt.succeeded or attempt.failed:
            runs.setdefault(template_of([attempt]).lines, []).append(attempt)
    found = []
    for lines, group in runs.items():
        for category in {category_of(attempt) for attempt in group if attempt.failed}:
            failed = [
                attempt for attempt in group if attempt.failed and category_of(attempt) == category
            ]
            if len(failed) < failures_min:
                continue
            newest = max(failed, key=lambda attempt: attempt.seq)
            rate = round(len(failed) / len(group), 4)
            figures = (len(failed), len(group), rate, newest.at, newest.seq)
            found.append(FailurePattern(lines, category, *figures))
    return sorted(found, key=lambda pattern: (-pattern.failures, -pattern.last_seq))


def category_of(attempt: Attempt) -> str:
    """Why it failed; a failure without a category is a runtime failure."""
    return attempt.category or FailureCategory.RUNTIME.value
