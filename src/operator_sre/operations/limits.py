"""Limits: how much of each subject may be changed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from msgspec import Meta

from operator_protocols.domain.token import Role
from operator_sre.app.restraints import LimitsView
from operator_sre.contract import SCHEMA_VERSION
from operator_sre.operations.operation import Effect, Operation, Request, Table, View

__all__ = ["OPERATIONS", "SUMMARY", "LimitsList"]

SUMMARY = "Show and reset the limits on changes."


class ShowLimits(Request, frozen=True):
    """No parameters."""


class ResetLimits(Request, frozen=True):
    """Of which subject, and why."""

    subject: Annotated[str, Meta(max_length=200, description="The subject name.")]
    reason: Annotated[str, Meta(max_length=4000, description="Recorded in the audit log.")]


@dataclass(frozen=True, slots=True)
class LimitsList:
    """What was changed about each subject, and what holds the next change back."""

    limits: tuple[LimitsView, ...]
    schema_version: str = SCHEMA_VERSION


def _table(found: LimitsList, now: datetime) -> View:
    rows = [
        (
            row.subject,
            f"{row.usage.changes}/{row.limits.changes_per_hour}",
            f"{len(row.usage.targets)}/{row.limits.targets_max}",
            f"{row.usage.failures}/{row.limits.failures_max}",
            row.refusal or "-",
        )
        for row in found.limits
    ]
    head = ("subject", "changes", "targets", "failures", "held back by")
    return [Table(head, rows, "No subjects.")]


OPERATIONS = (
    Operation(
        name="limits show",
        help="Show recent changes of every subject and the limits on the next one.",
        request=ShowLimits,
        result=LimitsList,
        call="operator_sre.app.restraints.show_limits",
        view=_table,
    ),
    Operation(
        name="limits reset",
        help="Reset a subject's change counters, so that changes are allowed again.",
        request=ResetLimits,
        result=LimitsList,
        call="operator_sre.app.restraints.reset_limits",
        confirmation="operator_sre.app.restraints.limits_asked",
        confirmed="operator_sre.app.restraints.limits_of",
        view=_table,
        effect=Effect.CHANGE,
        role=Role.ADMIN,
        arguments=("subject",),
    ),
)
