"""Health: every subject, the worst first."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from operator_protocols.domain.watcher import Watcher
from operator_sre.app.health import HealthView, SubjectHealth
from operator_sre.app.ticket_page import fold_findings, reason_listed
from operator_sre.contract import SCHEMA_VERSION
from operator_sre.drawing import plural
from operator_sre.operations.operation import Operation, Request, Route, View

__all__ = ["OPERATIONS", "HealthDocument", "health_lines"]

TROUBLES_MAX = 12
WATCHED_NAMED_MAX = 5


class ShowHealth(Request, frozen=True):
    """No parameters."""


@dataclass(frozen=True, slots=True)
class HealthDocument:
    """All subjects, the worst first."""

    health: HealthView
    schema_version: str = SCHEMA_VERSION


def health_lines(view: HealthView) -> View:
    """Who watches, then every subject with its findings and tickets, and what is silenced."""
    if not view.subjects:
        start = "Describe one in operator.toml, or start one with: operator lab up SUBJECT"
        return ["No subjects.", start, ""]
    watchers = ", ".join(map(_name_watcher, view.watchers))
    unwatched = "NO MONITOR IS RUNNING: start operator monitor run --all"
    by = f"watched by {watchers}" if watchers else unwatched
    lines = [f"{view.at:%Y-%m-%d %H:%M:%S} UTC  {view.health.upper()}  {by}", ""]
    for subject in view.subjects:
        lines += _describe_subject(subject, view.at)
    if view.silences:
        lines.append(f"{plural(len(view.silences), 'silence')}; see: operator silences list")
    return lines


def _name_watcher(watcher: Watcher) -> str:
    """The process that watches: its pid and host, since when, and the subjects it watches."""
    host, _, rest = watcher.worker.rpartition(":")
    pid = rest.partition("-")[0]
    process = f"process {pid} on {host}" if host and pid.isdigit() else watcher.worker
    own = [watch.subject for watch in watcher.watches if not watch.leader]
    names = ", ".join(own[:WATCHED_NAMED_MAX])
    more = len(own) - WATCHED_NAMED_MAX
    names += f" and {more} more" if more > 0 else ""
    if watcher.watches and not own:
        names = "standby"
    return f"{process} since {watcher.started_at:%m-%d %H:%M}" + (f" ({names})" if names else "")


def _describe_subject(subject: SubjectHealth, now: datetime) -> list[str]:
    last = subject.last_look
    checked = f"checked {_span(last, now)} ago" if last else "never checked"
    well = sum(target.health == "healthy" for target in subject.targets)
    missed = f", {plural(subject.missed, 'check')} missed" if subject.missed else ""
    head = f"{subject.health.upper():8} {subject.subject}: {well}/{len(subject.targets)}"
    lines = [f"{head} targets healthy, {checked}{missed}"]
    if subject.problem:
        lines.append(f"  !! {subject.problem}")
    lines += [f"  note: {note}" for note in subject.notes]
    folded = fold_findings(subject.troubles)
    for trouble in folded.shown[:TROUBLES_MAX]:
        marks = [f"for {_span(trouble.since, now)}"]
        if trouble.ticket is not None:
            marks.append(f"ticket {trouble.ticket}")
        if reason := reason_listed(trouble, subject.tickets):
            marks.append(reason)
        elif trouble.flapping:
            marks.append("flapping")
        if trouble.silenced:
            marks.append(f"silenced: {trouble.silenced}")
        detail = f": {trouble.detail}" if trouble.detail else ""
        name = f"{trouble.health} {trouble.target} {trouble.invariant}"
        lines.append(f"  {name} ({', '.join(marks)}){detail}")
    if len(folded.shown) > TROUBLES_MAX:
        lines.append(f"  and {len(folded.shown) - TROUBLES_MAX} more; see --json")
    lines += [f"  {fold.text}" for fold in folded.folds]
    for ticket in subject.tickets:
        flaps = ", flapping" if ticket.flapping else ""
        lines.append(
            f"  ticket {ticket.id} ({ticket.state}, {ticket.severity}{flaps}),"
            f" opened {_span(ticket.opened_at, now)} ago: {ticket.title}"
        )
    return [*lines, ""]


def _span(at: datetime, now: datetime) -> str:
    seconds = max(0.0, (now - at).total_seconds())
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


# `operator health` follows changes and MCP shows one subject, so each has code of its own.
OPERATIONS = (
    Operation(
        name="health",
        help="The health of every subject, from the last checks.",
        request=ShowHealth,
        result=HealthDocument,
        call="operator_sre.app.health.show_health",
        view=lambda found, now: health_lines(found.health),
        slow=True,
        is_command=False,
        route=Route("GET", "/v1/health", "show_all_health"),
    ),
)
