"""Subjects, for people and programs: what there is, what it is made of, how it looks now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from operator_protocols.domain.health import Health, Severity
from operator_protocols.domain.observation import Observation, Sighting
from operator_protocols.domain.target import Target
from operator_protocols.domain.tool import ToolSource
from operator_protocols.domain.verdict import Risk
from operator_protocols.ports import Subject
from operator_sre.app.health import SubjectHealth, health_of
from operator_sre.app.wiring import App, notes_of

__all__ = [
    "SubjectLine",
    "SubjectView",
    "check_subject",
    "list_subjects",
    "observe_subject",
    "show_subject",
    "subject_of",
]


@dataclass(frozen=True, slots=True)
class SubjectLine:
    """A subject on one line; `problem` says why it cannot be had."""

    name: str
    plugin: str
    targets: int
    health: Health
    last_look: datetime | None
    rig: bool
    problem: str = ""


@dataclass(frozen=True, slots=True)
class InvariantView:
    """What must hold, how urgent a break is, and how long it may last before a ticket opens."""

    name: str
    severity: Severity
    grace_s: float
    sentence: str


@dataclass(frozen=True, slots=True)
class ToolView:
    """What can be done about it."""

    name: str
    sentence: str
    risk: Risk
    changes: bool


@dataclass(frozen=True, slots=True)
class FaultLine:
    """How the lab can break it."""

    name: str
    sentence: str
    breaks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SubjectView:
    """Everything that is known of a subject without looking at it."""

    name: str
    plugin: str
    sentence: str
    rig: bool
    interval_s: float
    targets: tuple[Target, ...]
    invariants: tuple[InvariantView, ...]
    tools: tuple[ToolView, ...]
    faults: tuple[FaultLine, ...]
    causes: tuple[str, ...]
    notes: str
    state: SubjectHealth


def list_subjects(app: App) -> Sequence[SubjectLine]:
    """Every subject that is configured or has a rig."""
    plugins = {one.name: one.plugin for one in app.config.subjects}
    return [
        SubjectLine(
            name=one.subject,
            plugin=plugins.get(one.subject, one.subject),
            targets=len(one.targets),
            health=one.health,
            last_look=one.last_look,
            rig=app.is_rig(one.subject),
            problem=one.problem,
        )
        for one in (health_of(app, name) for name in app.subjects())
    ]


def show_subject(app: App, name: str) -> SubjectView:
    """What it is made of. NotFoundError lists the subjects there are."""
    (chosen,) = app.choose([name])
    plugin, subject = app.plugin_of(chosen), subject_of(app, chosen)
    specs = [tool.spec for tool in app.hands(chosen).executor.tools]
    return SubjectView(
        name=chosen,
        plugin=plugin.name,
        sentence=plugin.sentence,
        rig=app.is_rig(chosen),
        interval_s=app.config.interval_of(chosen),
        targets=tuple(subject.targets()),
        invariants=tuple(
            InvariantView(one.name, one.severity, one.grace_s, _sentence(one))
            for one in subject.invariants
        ),
        # Those that every subject has are listed by `operator tools list`.
        tools=tuple(
            ToolView(one.name, one.sentence, one.risk, one.changes)
            for one in specs
            if one.source is ToolSource.SUBJECT
        ),
        faults=tuple(FaultLine(one.name, one.sentence, one.breaks) for one in plugin.faults),
        causes=tuple(one.name for one in plugin.causes),
        notes=notes_of(plugin, subject),
        state=health_of(app, chosen),
    )


def _sentence(invariant: object) -> str:
    own = getattr(invariant, "sentence", "")
    documented = (type(invariant).__doc__ or "").strip().splitlines()
    return str(own) or (documented[0] if documented else "")


def subject_of(app: App, name: str) -> Subject:
    """The subject itself, as its plug-in makes it."""
    return app.plugin_of(name).subject(app.hands(name).settings)


async def observe_subject(app: App, names: Sequence[str]) -> Sequence[Observation]:
    """Look once at these, or at the only one there is; nothing is remembered."""
    return [one.observation for one in await check_subject(app, names)]


async def check_subject(app: App, names: Sequence[str]) -> Sequence[Sighting]:
    """Look once and check every invariant; nothing is remembered."""
    from operator_sre.monitor import sight

    timeout_s = app.config.look_s
    found = []
    for name in app.choose(names):
        sighting, _ = await sight(subject_of(app, name), app.clock, timeout_s=timeout_s)
        found.append(sighting)
    return found
