"""Limits bound the changes to one subject, from all callers; so do its mode and the kill switch."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from operator_protocols.domain.verdict import Mode

__all__ = ["BUSY", "Limits", "SubjectMode", "SwitchState", "TargetChange", "Usage"]


@dataclass(frozen=True, slots=True)
class SwitchState:
    """How the switch stands. Every turn of it is a new generation, which voids older permits."""

    on: bool = False
    generation: int = 0
    by: str = ""
    reason: str = ""
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class SubjectMode:
    """How much of a subject runs without approval, who decided that, when and why."""

    subject: str
    mode: Mode
    by: str
    reason: str
    at: datetime


# Among the data of a refusal: nothing is against it but another change of the subject that runs.
BUSY = "busy"


@dataclass(frozen=True, slots=True)
class TargetChange:
    """One change that went well: at which target, by which tool, when, and by whom.

    `planned` when a person did it, and not an agent.
    """

    target: str
    tool: str
    at: datetime
    by: str
    planned: bool


@dataclass(frozen=True, slots=True)
class Usage:
    """Recent changes to a subject: everything that its Limits depend on.

    `running` are the commands that began and have not ended, `changes` counts the last hour,
    `targets` were touched within `targets_window_s`, `failures` came one after another.
    """

    subject: str
    running: tuple[str, ...] = ()
    changes: int = 0
    targets: frozenset[str] = frozenset()
    failures: int = 0
    failed_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """How much of a subject may be changed, how often, and when it is enough. Pure."""

    changes_per_hour: int = 30
    targets_max: int = 1
    targets_window_s: float = 300.0
    failures_max: int = 3
    pause_s: float = 900.0

    def refusal(self, usage: Usage, now: datetime) -> str:
        """Why no change may begin now, whatever a person says; empty when one may."""
        return self.refusal_in_turn(usage, now) or self.busy(usage)

    def refusal_in_turn(self, usage: Usage, now: datetime) -> str:
        """The limits that still refuse when it is this change's turn: waiting for another change
        does not help.
        """
        return self.broken(usage, now) or self.often(usage)

    def busy(self, usage: Usage) -> str:
        """One change at a time."""
        if not usage.running:
            return ""
        return f"another change of {usage.subject!r} is running: {usage.running[0]}"

    def broken(self, usage: Usage, now: datetime) -> str:
        """A circuit breaker: after so many failures in a row nothing for a while."""
        if usage.failures < self.failures_max or usage.failed_at is None:
            return ""
        until = usage.failed_at + timedelta(seconds=self.pause_s)
        if now >= until:
            return ""
        return (
            f"{usage.failures} changes of {usage.subject!r} failed in a row, so there are none"
            f" before {until:%H:%M:%S} UTC (operator limits reset {usage.subject} --reason WHY)"
        )

    def often(self, usage: Usage) -> str:
        """So many changes in an hour and no more."""
        if usage.changes < self.changes_per_hour:
            return ""
        return f"{usage.subject!r} was changed {usage.changes} times within an hour already"

    def question(self, usage: Usage, target: str) -> str:
        """Why a person must be asked: one more target would be touched than may be."""
        touched = usage.targets | {target}
        if target in usage.targets or len(touched) <= self.targets_max:
            return ""
        minutes = self.targets_window_s / 60
        return (
            f"it would touch {len(touched)} targets of {usage.subject!r} within {minutes:g}"
            f" minutes, and {self.targets_max} may be"
        )
