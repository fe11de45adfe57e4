"""Status: the whole home at a glance."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from operator_protocols.kit.units import format_bytes
from operator_sre.app.status import StatusView
from operator_sre.contract import SCHEMA_VERSION
from operator_sre.drawing import plural
from operator_sre.operations.operation import Operation, Request, Route, View

__all__ = ["OPERATIONS", "StatusDocument"]

HEALTHS = ("broken", "unknown", "healthy")


class ShowStatus(Request, frozen=True):
    """No parameters."""


@dataclass(frozen=True, slots=True)
class StatusDocument:
    """The whole home at a glance."""

    status: StatusView
    schema_version: str = SCHEMA_VERSION


def _lines(found: StatusDocument, now: datetime) -> View:
    view = found.status
    subjects = [f"{view.subjects[name]} {name}" for name in HEALTHS if view.subjects.get(name)]
    tickets = [f"{count} {state}" for state, count in sorted(view.tickets.items())]
    waiting = f"{plural(view.approvals, 'approval')}, {plural(view.confirmations, 'confirmation')}"
    home, free = view.home, format_bytes(view.home.free_bytes)
    rows = [
        ("operator", view.version),
        ("service", view.service),
        *(
            (f"  {part.name}", " ".join(filter(None, (part.state, part.address, part.problem))))
            for part in view.parts
        ),
        ("watching", plural(view.monitors, "monitor")),
        ("working", f"{plural(view.workers, 'agent')}, mode {view.mode}"),
        ("subjects", ", ".join(subjects) or "none"),
        ("tickets", ", ".join(tickets) or "none open"),
        ("pending", waiting),
        ("models", f"{view.spent_usd:.2f} USD today"),
        (
            "home",
            f"{home.path}: {format_bytes(home.size_bytes)}, {free} free",
        ),
        ("store", f"{home.store}: {plural(home.entries, 'entry', 'entries')}"),
    ]
    lines = [f"{name:10} {text}" for name, text in rows]
    return [*lines, *(f"!! {problem}" for problem in view.problems)]


OPERATIONS = (
    Operation(
        name="status",
        help="Show the whole home at a glance: parts, health, tickets, requests.",
        request=ShowStatus,
        result=StatusDocument,
        call="operator_sre.app.status.show_status",
        view=_lines,
        slow=True,
        route=Route("GET", "/v1/status", "show_status"),
    ),
)
