"""The invariants of a live cluster: one for each row of invariants.toml. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from operator_protocols.domain.cause import Cause, Remedy
from operator_protocols.domain.health import Health, Severity
from operator_protocols.domain.observation import Finding, Observation
from operator_sre.subjects.kubernetes.analysis import InvariantSpec, invariant_specs
from operator_sre.subjects.kubernetes.causes import known_causes

__all__ = ["CLUSTER", "PROBLEM", "KindInvariant", "invariants", "shown_causes"]

CLUSTER = "cluster"
# A reading with this ending says why an invariant is broken at its target.
PROBLEM = "_problem"
_OWNERS = frozenset({"deployment", "statefulset", "daemonset", "job", "cronjob"})
_PODS = _OWNERS | {"pod", "replicaset"}
# The kinds of targets of which each invariant speaks.
_KINDS = {
    "rollouts_complete": frozenset({"deployment"}),
    "jobs_succeed": frozenset({"job", "cronjob"}),
    "services_backed": frozenset({"service"}),
    "volumes_bound": frozenset({"persistentvolumeclaim"}),
    "nodes_ready": frozenset({"node"}),
    "control_plane_works": frozenset({CLUSTER}),
    "autoscaling_works": frozenset({"horizontalpodautoscaler"}),
    "objects_deleted": _PODS | {"namespace", "persistentvolumeclaim"},
}
PRIOR = 0.05
# What else breaks wherever a workload does not run: its rollout, its callers, its service.
_FOLLOWS = ("rollouts_complete", "pods_ready", "services_backed")


@dataclass(frozen=True, slots=True)
class KindInvariant:
    """An invariant of every target of some kinds: it is broken where a symptom was read."""

    spec: InvariantSpec
    kinds: frozenset[str]

    @property
    def name(self) -> str:
        """Its name in tickets and policies."""
        return self.spec.name

    @property
    def sentence(self) -> str:
        """What must hold."""
        return self.spec.sentence

    @property
    def severity(self) -> Severity:
        """How urgent a break is."""
        return self.spec.severity

    @property
    def grace_s(self) -> float:
        """How long it must be broken before a ticket opens."""
        return self.spec.grace_s

    def check(self, observation: Observation) -> Iterable[Finding]:
        """One finding for every target that it speaks of; UNKNOWN where it was not observed."""
        reading = f"{self.spec.name}{PROBLEM}"
        for seen in observation.seen:
            if seen.readings.get("kind") not in self.kinds:
                continue
            if seen.problem:
                yield Finding(self.name, seen.target, Health.UNKNOWN, seen.problem)
                continue
            problem = seen.readings.get(reading)
            health = Health.HEALTHY if problem is None else Health.BROKEN
            yield Finding(self.name, seen.target, health, "" if problem is None else str(problem))


def invariants() -> tuple[KindInvariant, ...]:
    """All of them."""
    return tuple(KindInvariant(spec, _KINDS.get(spec.name, _PODS)) for spec in invariant_specs())


def shown_causes(remedies: Mapping[str, tuple[Remedy, ...]]) -> tuple[Cause, ...]:
    """Every known cause with its remedies; the reading `cause` of a target shows it."""
    breaks: dict[str, list[str]] = {}
    for spec in invariant_specs():
        for name in spec.causes:
            breaks.setdefault(name, []).append(spec.name)
    return tuple(
        Cause(
            known.name,
            known.sentence,
            PRIOR,
            breaks=tuple(dict.fromkeys((*_breaks_of(breaks.get(known.name, [])), *_FOLLOWS))),
            shows={"cause": known.name},
            remedies=remedies.get(known.name, ()),
        )
        for known in known_causes().values()
    )


def _breaks_of(own: list[str]) -> list[str]:
    """The invariants that list a cause; of a cause that stops a node, all that pods have on it."""
    if "nodes_ready" not in own:
        return own
    return [*own, *(spec.name for spec in invariant_specs() if spec.name not in _KINDS)]
