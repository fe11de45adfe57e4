"""Subjects: what is in our care, and how it is."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from operator_protocols.errors import NotFoundError
from operator_sre.app.health import SubjectHealth, health_of
from operator_sre.app.subjects import SubjectLine
from operator_sre.contract import SCHEMA_VERSION
from operator_sre.operations.operation import Operation, Request, Route, Table, View

if TYPE_CHECKING:
    from operator_sre.app.wiring import App

__all__ = ["OPERATIONS", "SUMMARY", "SubjectDocument", "SubjectPage", "health_of_known"]

SUMMARY = "Inspect the systems that Operator watches."


class ListSubjects(Request, frozen=True):
    """No parameters."""


class ShowSubjectHealth(Request, frozen=True):
    """Which subject."""

    name: Annotated[str, Meta(min_length=1, max_length=200, description="The name of a subject.")]


@dataclass(frozen=True, slots=True)
class SubjectPage:
    """Every subject that is configured or has a rig."""

    subjects: tuple[SubjectLine, ...]
    schema_version: str = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class SubjectDocument:
    """The health of one subject."""

    subject: SubjectHealth
    schema_version: str = SCHEMA_VERSION


def health_of_known(app: App, *, name: str) -> SubjectHealth:
    """The health of one subject. NotFoundError lists those there are."""
    known = app.subjects()
    if name not in known:
        there = ", ".join(known) or "none"
        raise NotFoundError(f"There is no subject {name!r}.", next_step=f"Subjects: {there}.")
    return health_of(app, name)


def _table(found: SubjectPage, now: datetime) -> View:
    rows = [
        (
            subject.name,
            f"{subject.plugin} (rig)" if subject.rig else subject.plugin,
            subject.targets,
            subject.health,
            f"{subject.last_look:%m-%d %H:%M:%S}" if subject.last_look else "never",
            subject.problem or "-",
        )
        for subject in found.subjects
    ]
    start = "Describe one in operator.toml, or start one with: operator lab up SUBJECT"
    head = ("subject", "plugin", "targets", "health", "last check", "problem")
    return [Table(head, rows, f"No subjects.\n{start}")]


OPERATIONS = (
    Operation(
        name="subjects list",
        help="List subjects with their plug-in, targets, health and last check.",
        request=ListSubjects,
        result=SubjectPage,
        call="operator_sre.app.subjects.list_subjects",
        view=_table,
        slow=True,
        route=Route(
            "GET",
            "/v1/subjects",
            "list_all_subjects",
            summary="Every subject that is configured or has a rig.",
        ),
    ),
    Operation(
        name="subjects health",
        help="The health of one subject.",
        request=ShowSubjectHealth,
        result=SubjectDocument,
        call="operator_sre.operations.subjects.health_of_known",
        view=lambda found, now: [],
        slow=True,
        is_command=False,
        route=Route("GET", "/v1/subjects/{name}/health", "show_subject_health", errors=(404,)),
    ),
)
