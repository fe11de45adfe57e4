"""Diagnoses a recorded cluster: every suspicion, the root among them, and an honest unknown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set

from operator_protocols.domain.diagnosis import Alternative, Diagnosis, Evidence, Hypothesis
from operator_protocols.domain.health import Severity
from operator_protocols.domain.system_record import SystemRecord
from operator_sre.subjects.kubernetes.causes import known_causes, name_among
from operator_sre.subjects.kubernetes.containers import (
    find_crashes,
    find_failed_probes,
    find_failed_starts,
)
from operator_sre.subjects.kubernetes.dependencies import callers_below, calls_between
from operator_sre.subjects.kubernetes.nodes import find_node_failures
from operator_sre.subjects.kubernetes.performance import find_slowness
from operator_sre.subjects.kubernetes.placement import find_admission, find_scheduling
from operator_sre.subjects.kubernetes.recorded import read_record
from operator_sre.subjects.kubernetes.routes import (
    find_addresses,
    find_log_causes,
    find_routing,
    find_unreachable,
)
from operator_sre.subjects.kubernetes.snapshot import Snapshot
from operator_sre.subjects.kubernetes.storage import find_storage
from operator_sre.subjects.kubernetes.suspicion import POSSIBLE, Suspicion

__all__ = ["RULES", "RecordReader", "find_suspicions", "rank"]

RULES = (
    find_node_failures,
    find_admission,
    find_scheduling,
    find_storage,
    find_failed_starts,
    find_crashes,
    find_failed_probes,
    find_routing,
    find_unreachable,
    find_addresses,
    find_log_causes,
    find_slowness,
)
# Below this, a suspicion is not reported: healthy clusters have such, too.
NAMED_MIN = 0.5
SHOWN_MAX = 3
# What others depend on is more likely the root; what depends on another suspect, less.
ROOT, ROOT_MAX = 0.01, 5


class RecordReader:
    """Reads records of Kubernetes clusters."""

    def diagnose(self, record: SystemRecord, causes: Sequence[str] = ()) -> Diagnosis | None:
        """The most probable cause and object, or None where nothing explains the record.

        Where `causes` are given, one of them is chosen, and it has that name.
        """
        snapshot = read_record(record)
        ranked = [(each, _name(each.cause, causes)) for each in rank(snapshot)]
        named = [(each, name) for each, name in ranked if name and each.weight >= NAMED_MIN]
        if not named:
            return None
        first, cause = named[0]
        others = [(each, name) for each, name in named[1:] if each.target != first.target]
        total = sum(each.weight for each, _ in named[:SHOWN_MAX])
        sentence = known_causes()[first.cause].sentence
        return Diagnosis(
            cause=cause,
            target=first.target,
            summary=f"{first.target}: {sentence}.",
            severity=Severity.CRITICAL,
            confidence=round(first.weight * first.weight / total, 2),
            timeline=(),
            affected=tuple(sorted(first.explains | {first.target})),
            evidence=tuple(Evidence(line) for line in first.evidence),
            hypotheses=tuple(
                Hypothesis(name, each.target, round(each.weight / total, 2))
                for each, name in named[:SHOWN_MAX]
            ),
            alternatives=(
                *(
                    Alternative(name, each.target, each.evidence, (), "Its evidence is weaker.")
                    for each, name in others[: SHOWN_MAX - 1]
                ),
                *_ruled_out(snapshot, {each.cause for each, _ in named}),
            ),
            options=(),
            choice="",
            why="",
        )


def find_suspicions(snapshot: Snapshot) -> list[Suspicion]:
    """Everything that any rule suspects, once for each cause and object."""
    best: dict[tuple[str, str], Suspicion] = {}
    for rule in RULES:
        for found in rule(snapshot):
            known = best.get((found.cause, found.target))
            if known is None or found.weight > known.weight:
                best[found.cause, found.target] = found
    return list(best.values())


def rank(snapshot: Snapshot) -> list[Suspicion]:
    """The suspicions, the most probable root first."""
    found = find_suspicions(snapshot)
    calls = calls_between(snapshot)
    strong = {each.target for each in found if each.weight >= POSSIBLE}

    def key(each: Suspicion) -> tuple[float, str, str]:
        callers = callers_below(calls, each.target) & strong
        below = {name for name in strong if each.target in callers_below(calls, name)}
        bonus = ROOT * (min(ROOT_MAX, len(callers)) - min(ROOT_MAX, len(below)))
        return (-each.weight - bonus, each.cause, each.target)

    return sorted(found, key=key)


def _ruled_out(snapshot: Snapshot, suspected: Set[str]) -> Iterator[Alternative]:
    """What was checked and holds, so that it cannot be the cause."""
    ready = [n.name for n in snapshot.nodes if n.conditions.get("Ready", ("",))[0] == "True"]
    serving = [pod.name for pod in snapshot.pods if pod.ready]
    rows = (
        ("kubelet_down", f"{len(ready)} of {len(snapshot.nodes)} nodes are ready."),
        ("crash", f"{len(serving)} of {len(snapshot.pods)} pods are ready."),
    )
    for cause, why in rows:
        if cause not in suspected:
            yield Alternative(cause, "", (), (why,), f"No rule found it: {why}")


def _name(cause: str, offered: Sequence[str]) -> str:
    return name_among(cause, offered) if offered else cause
