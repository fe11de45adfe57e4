"""Health: every subject, the worst first."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from operator_sre.app.health import HealthView, SubjectHealth, Trouble
from operator_sre.contract import SCHEMA_VERSION
from operator_sre.operations.operation import Operation, Request, Route, View

__all__ = ["OPERATIONS", "HealthDocument", "health_lines"]

TROUBLES_MAX = 12


class ShowHealth(Request, frozen=True):
    """No parameters."""


@dataclass(frozen=True, slots=True)
class HealthDocument:
    """All subjects, the worst first."""

    health: HealthView
    schema_version: str = SCHEMA_VERSION


def health_lines(view: HealthView) -> View:
    """Who watches, every subject with its troubles and tickets, and what is kept quiet."""
    if not view.subjects:
        start = "Describe one in operator.toml, or start one with: operator lab up SUBJECT"
        head = ["There is no subject here.", start]
    else:
        who = ", ".join(one.worker for one in view.watchers)
        unwatched = "NOBODY IS WATCHING: start operator monitor run --all"
        by = f"watched by {who}" if who else unwatched
        head = [f"{view.at:%Y-%m-%d %H:%M:%S} UTC  {view.health.upper()}  {by}"]
    lines = [*head, "", *(line for one in view.subjects for line in _subject(one, view.at))]
    if view.silences:
        lines.append(f"{len(view.silences)} silenced pattern(s); see: operator silences list")
    return lines


def _subject(one: SubjectHealth, now: datetime) -> list[str]:
    looked = f"looked at {_ago(one.last_look, now)}" if one.last_look else "never looked at"
    well = sum(target.health == "healthy" for target in one.targets)
    missed = f", {one.missed} looks missed" if one.missed else ""
    head = f"{one.health.upper():8} {one.subject}: {well}/{len(one.targets)} targets healthy"
    lines = [f"{head}, {looked}{missed}"]
    if one.problem:
        lines.append(f"  !! {one.problem}")
    lines += [_trouble(trouble, now) for trouble in one.troubles[:TROUBLES_MAX]]
    if len(one.troubles) > TROUBLES_MAX:
        lines.append(f"  and {len(one.troubles) - TROUBLES_MAX} more; see --json")
    for ticket in one.tickets:
        flaps = ", flapping" if ticket.flapping else ""
        lines.append(
            f"  ticket {ticket.id} ({ticket.state}, {ticket.severity}{flaps})"
            f" since {_ago(ticket.opened_at, now)}: {ticket.summary}"
        )
    return [*lines, ""]


def _trouble(one: Trouble, now: datetime) -> str:
    marks = [f"since {_ago(one.since, now)}"]
    if one.ticket is not None:
        marks.append(f"ticket {one.ticket}")
    if one.flapping:
        marks.append("flapping")
    if one.silenced:
        marks.append(f"silenced: {one.silenced}")
    detail = f": {one.detail}" if one.detail else ""
    return f"  {one.health} {one.target} {one.invariant} ({', '.join(marks)}){detail}"


def _ago(at: datetime, now: datetime) -> str:
    seconds = max(0.0, (now - at).total_seconds())
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit} ago"
    return f"{seconds:.0f} s ago"


# The command follows it as it changes, and a model is told of one subject.
OPERATIONS = (
    Operation(
        name="health",
        help="How everything is, by what the store knows; nobody looks at it now.",
        request=ShowHealth,
        result=HealthDocument,
        call="operator_sre.app.health.show_health",
        view=lambda found, now: health_lines(found.health),
        slow=True,
        is_command=False,
        route=Route("GET", "/v1/health", "show_all_health"),
    ),
)
