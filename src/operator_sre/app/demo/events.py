"""What a demo tells a face while it is played."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from operator_protocols.domain.ticket import Ticket, TicketState
from operator_sre.app.lab import TargetView
from operator_sre.app.story import Line
from operator_sre.lab.load_stats import LoadStats

__all__ = [
    "Begun",
    "Count",
    "Ending",
    "Event",
    "Look",
    "Part",
    "Picture",
    "Said",
    "Told",
]


class Part(StrEnum):
    """The programs that run beside the rig, each in a process of its own."""

    MONITOR = "monitor"
    AGENT = "agent"


class Look(StrEnum):
    """How the cluster stands, as the play knows it."""

    NORMAL = "normal"
    INJECTING = "injecting"
    RECOVERING = "recovering"


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened, for a face to show."""

    line: Line
    seq: int | None = None
    kind: str = ""
    payload: Any = None
    ticket: int | None = None


@dataclass(frozen=True, slots=True)
class Begun:
    """A chapter can be shown from now on; `ready` when it waits for its viewer to go on."""

    chapter: int
    ready: bool = False


@dataclass(frozen=True, slots=True)
class Count:
    """So many seconds are left until the fault."""

    left_s: int


@dataclass(frozen=True, slots=True)
class Said:
    """Lines that a program wrote, as they came: nothing in them is to be trusted."""

    part: Part
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Picture:
    """The cluster and its traffic at this moment; `broken` are invariants by target."""

    look: Look
    targets: tuple[TargetView, ...]
    load: LoadStats | None
    broken: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ending:
    """How the demo ended, in figures."""

    ticket: Ticket | None
    target: str
    detect_s: float | None
    repair_s: float | None
    proof_s: float | None
    entries: int
    chain_whole: bool
    load: LoadStats | None = field(default=None)

    @property
    def proven(self) -> bool:
        """True only if the ticket was resolved; RESOLVED needs a proof."""
        return self.ticket is not None and self.ticket.state is TicketState.RESOLVED


Told = Event | Begun | Count | Said | Picture | Ending
