"""Silences: what is broken and opens no ticket, for a while."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from operator_protocols.domain.silence import Silence
from operator_protocols.domain.token import Role
from operator_sre.contract import SCHEMA_VERSION
from operator_sre.operations.operation import Effect, Operation, Request, Route, Table, Tool, View

__all__ = ["OPERATIONS", "SUMMARY", "AddSilence", "EndSilence", "ListSilences", "SilenceList"]

SUMMARY = "Suppress tickets for known or planned trouble."
Pattern = Annotated[str, Meta(min_length=1, max_length=200, description="A name or a pattern.")]


class AddSilence(Request, frozen=True):
    """What to silence, for how long, and why. A silence ends by `for` or by `until`."""

    reason: Annotated[
        str, Meta(min_length=1, max_length=200, description="Recorded in the audit log.")
    ]
    subject: Pattern = "*"
    target: Annotated[
        str,
        Meta(min_length=1, max_length=200, description="A name or a pattern, such as 'node-*'."),
    ] = "*"
    invariant: Pattern = "*"
    for_: Annotated[str, Meta(max_length=40, description="Duration: 90s, 30m, 2h, 1d.")] = (
        msgspec.field(name="for", default="")
    )
    until: Annotated[str, Meta(max_length=40, description="End time in UTC: 2030-01-31T06:00.")] = (
        ""
    )


class ListSilences(Request, frozen=True):
    """Which silences."""

    every: Annotated[
        bool, Meta(description="Include silences that ended.", extra={"option": "--all"})
    ] = False


class EndSilence(Request, frozen=True):
    """Which silence to end, and why."""

    silence: Annotated[str, Meta(min_length=1, max_length=100, description="The silence id.")]
    reason: Annotated[str, Meta(max_length=4000, description="Recorded in the audit log.")] = ""


@dataclass(frozen=True, slots=True)
class SilenceList:
    """Silences, and maintenance windows that are open."""

    silences: tuple[Silence, ...]
    schema_version: str = SCHEMA_VERSION


def _table(found: SilenceList, now: datetime) -> View:
    head = ("id", "subject", "target", "invariant", "until (utc)", "by", "ended", "why")
    rows = [
        (
            silence.id,
            silence.subject,
            silence.target,
            silence.invariant,
            f"{silence.until:%Y-%m-%d %H:%M:%S}",
            silence.by,
            f"ended by {silence.ended_by}: {silence.ended_because}" if silence.ended_at else "-",
            silence.reason,
        )
        for silence in found.silences
    ]
    return [Table(head, rows, "Nothing is silenced.")]


OPERATIONS = (
    Operation(
        name="silences add",
        help="Silence matching findings: they open no tickets. Existing tickets stay open.",
        request=AddSilence,
        result=SilenceList,
        call="operator_sre.app.silences.add_silence",
        view=_table,
        effect=Effect.CHANGE,
        role=Role.ADMIN,
        route=Route("POST", "/v1/silences", "add_silence", "AddSilenceRequest"),
        examples=("operator silences add --subject shop --for 2h --reason 'planned upgrade'",),
    ),
    Operation(
        name="silences list",
        help="List active silences and open maintenance windows.",
        request=ListSilences,
        result=SilenceList,
        call="operator_sre.app.silences.list_silences",
        view=_table,
        route=Route("GET", "/v1/silences", "list_silences"),
        tool=Tool("list_silences", "List silences", "Lists silences and open maintenance windows."),
        slow=True,
    ),
    Operation(
        name="silences end",
        help="End a silence early. Findings that remain open a ticket at the next check.",
        request=EndSilence,
        result=SilenceList,
        call="operator_sre.app.silences.end_silence",
        view=_table,
        effect=Effect.CHANGE,
        role=Role.APPROVER,
        arguments=("silence",),
        route=Route(
            "POST", "/v1/silences/{silence}/end", "end_silence", "EndSilenceRequest", (404,)
        ),
    ),
)
