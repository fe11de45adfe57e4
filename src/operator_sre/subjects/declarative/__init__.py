"""Any system, described in a file: targets, probes, invariants and levers."""

from __future__ import annotations

from operator_protocols.ports import Plugin
from operator_sre.subjects.declarative.subject import (
    KNOWLEDGE,
    DeclarativeSubject,
    causes_of,
    targets_of,
    tools_of,
)

__all__ = ["plugin"]

plugin = Plugin(
    name="declarative",
    sentence="Any system, described in a YAML file; without one, web servers.",
    subject=DeclarativeSubject,
    tools=tools_of,
    targets=targets_of,
    causes_of=causes_of,
    notes=KNOWLEDGE.notes,
)
