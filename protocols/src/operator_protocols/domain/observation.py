"""Observations of a Subject, and what they mean for its Invariants."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from operator_protocols.domain.change import Change
from operator_protocols.domain.health import Health, Severity, worst

__all__ = [
    "CheckResult",
    "Finding",
    "Observation",
    "Seen",
    "Trouble",
    "Value",
    "Violation",
    "key_of",
]

Value = bool | int | float | str | None
BLIND = "blind_"


class Trouble(StrEnum):
    """What is wrong, for agents that search for the cause.

    NOTHING blames no target, such as an observation that failed on this machine. UNCONFIRMED is an
    alert of another system at a target where Operator's own checks find nothing wrong.
    """

    NOTHING = "nothing"
    UNCONFIRMED = "unconfirmed"
    NO_SPACE = "no_space"
    FILES = "files"
    MEMORY = "memory"
    ADDRESS = "address"
    CREDENTIAL = "credential"
    QUORUM = "quorum"
    DRIFT = "drift"
    OVERLOAD = "overload"
    LOG = "log"
    SLOW = "slow"
    DEPENDENCY = "dependency"
    REFUSED = "refused"
    SILENCE = "silence"


@dataclass(frozen=True, slots=True)
class Seen:
    """The readings of one Target; `problem` says why it could not be observed.

    `trouble` is what the problem means, where that is known. A reading `blind_PART` says why one
    part of it could not be observed.
    """

    target: str
    readings: Mapping[str, Value] = field(default_factory=dict)
    problem: str = ""
    trouble: Trouble | None = None

    @property
    def gaps(self) -> str:
        """Which parts of it could not be observed, and why; "" for none."""
        blind = {name: why for name, why in self.readings.items() if name.startswith(BLIND)}
        return "; ".join(
            f"{name.removeprefix(BLIND)}: {why}" for name, why in sorted(blind.items()) if why
        )


@dataclass(frozen=True, slots=True)
class Observation:
    """One observation of a whole Subject; with a `problem` it has no readings at all.

    `changes` are what became different at its targets within the last hour, also while nothing
    was broken.
    """

    subject: str
    at: datetime
    seen: tuple[Seen, ...] = ()
    problem: str = ""
    changes: tuple[Change, ...] = ()

    def of(self, target: str) -> Seen:
        """The readings of one target; a target that was not observed has a problem."""
        for seen in self.seen:
            if seen.target == target:
                return seen
        return Seen(target, problem=self.problem or "it was not observed")


@dataclass(frozen=True, slots=True)
class Finding:
    """What one Invariant says of one Target after one Observation.

    `own` is Operator's own result where `health` is what another system reports. Without a
    `trouble`, an agent has to read the detail.
    """

    invariant: str
    target: str
    health: Health
    detail: str = ""
    own: Health | None = None
    trouble: Trouble | None = None


def key_of(subject: str, target: str, invariant: str) -> str:
    """Names one invariant at one target; equal for the same break, whenever it is seen."""
    return f"{subject}/{target}/{invariant}"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One Observation with the findings of every Invariant."""

    observation: Observation
    findings: tuple[Finding, ...]

    def health_of(self, keys: Iterable[str]) -> Health:
        """The worst health of these violations; a key without a finding is UNKNOWN."""
        known = self._by_key((finding, finding.health) for finding in self.findings)
        return worst(known.get(key, Health.UNKNOWN) for key in keys)

    def own_health_of(self, keys: Iterable[str]) -> Health:
        """The same by Operator's own check, regardless of what other systems report."""
        known = self._by_key(
            (finding, finding.health if finding.own is None else finding.own)
            for finding in self.findings
        )
        return worst(known.get(key, Health.UNKNOWN) for key in keys)

    def _by_key(self, healths: Iterable[tuple[Finding, Health]]) -> dict[str, Health]:
        known: dict[str, Health] = {}
        for finding, health in healths:
            key = key_of(self.observation.subject, finding.target, finding.invariant)
            known[key] = max(health, known.get(key, health))
        return known

    def broken(self) -> frozenset[str]:
        """The keys of all broken invariants."""
        return frozenset(
            key_of(self.observation.subject, finding.target, finding.invariant)
            for finding in self.findings
            if finding.health is Health.BROKEN
        )


@dataclass(frozen=True, slots=True)
class Violation:
    """An Invariant that has been broken for longer than its grace."""

    subject: str
    invariant: str
    target: str
    severity: Severity
    detail: str
    since: datetime
    trouble: Trouble | None = None

    @property
    def key(self) -> str:
        """Equal for the same break, whenever it is seen."""
        return key_of(self.subject, self.target, self.invariant)
