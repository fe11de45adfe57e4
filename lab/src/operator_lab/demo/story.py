"""The events and chapters of the demo, and the report at its end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from importlib.util import find_spec
from typing import Any

from operator_lab.app.rigs import TargetView
from operator_lab.load import LoadStats
from operator_protocols.domain.entry import Kind
from operator_protocols.domain.ticket import Ticket, TicketState
from operator_sre.app.story import Line
from operator_sre.app.wiring import App

__all__ = [
    "CHAPTERS",
    "FAULT",
    "REPORT",
    "WATCH",
    "Begun",
    "Chapter",
    "Count",
    "Ending",
    "Event",
    "Look",
    "Part",
    "Picture",
    "Said",
    "Step",
    "Told",
    "chapter_of",
    "name_chapter",
    "report_text",
    "story_of",
]


class Part(StrEnum):
    """The programs that run beside the rig, each in a process of its own."""

    MONITOR = "monitor"
    AGENT = "agent"


class Look(StrEnum):
    """The state of the cluster in the story."""

    NORMAL = "normal"
    INJECTING = "injecting"
    RECOVERING = "recovering"


@dataclass(frozen=True, slots=True)
class Event:
    """One event for a face to show."""

    line: Line
    seq: int | None = None
    kind: str = ""
    payload: Any = None
    ticket: int | None = None


@dataclass(frozen=True, slots=True)
class Begun:
    """A chapter has started; `ready` when it waits for the viewer to continue."""

    chapter: int
    ready: bool = False


@dataclass(frozen=True, slots=True)
class Count:
    """Seconds left until the fault."""

    left_s: int


@dataclass(frozen=True, slots=True)
class Said:
    """Lines that a program wrote, verbatim: untrusted text."""

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


WATCH = 2
FAULT = 3
DETECTION = 4
REMEDY = 5
PROOF = 6
REPORT = 7


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to watch for; it is done when one of these kinds of event has come."""

    text: str
    kinds: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Chapter:
    """One part of the story."""

    title: str
    text: str
    steps: tuple[Step, ...] = ()


CHAPTERS: tuple[Chapter, ...] = (
    Chapter(
        "A real cluster",
        "The demo starts real servers on private ports of this machine and sends them real"
        " traffic. It removes everything when it ends.",
        (
            Step("every node shows a dot", ("rig_up",)),
            Step("the workload panel shows traffic", ("traffic",)),
        ),
    ),
    Chapter(
        "Monitoring",
        "Monitor and agent start as two separate processes. Every 2 s the monitor checks the"
        " invariants. They are code, not a model, so monitoring costs no tokens.",
        (
            Step("the monitor lists its subjects", ("watching",)),
            Step("every check passes", ("healthy",)),
        ),
    ),
    Chapter(
        "The fault",
        "After a countdown the demo injects the fault into the cluster. Neither monitor nor agent"
        " knows about it. From here on nothing is scripted.",
        (
            Step("3 - 2 - 1", ("counted",)),
            Step("the fault is injected", ("fault",)),
        ),
    ),
    Chapter(
        "Detection",
        "The next check finds a broken invariant. The monitor opens one ticket for the whole"
        " incident.",
        (
            Step("the monitor turns red: DETECTED", (Kind.TICKET_OPENED,)),
            Step("the agent claims the ticket", (Kind.TICKET_CLAIMED,)),
        ),
    ),
    Chapter(
        "AI remediation",
        "The agent weighs hypotheses and collects evidence. The gate judges every command before"
        " it runs, and every result updates the probabilities.",
        (
            Step("hypotheses, most likely first", (Kind.REASONING,)),
            Step("a diagnosis with its evidence", (Kind.DIAGNOSIS,)),
            Step("the gate's verdict on the repair", ("repair_judged",)),
            Step("the repair runs", ("repaired",)),
        ),
    ),
    Chapter(
        "Proof",
        "A claim of success is not evidence. Operator checks the system until every invariant has"
        " held for 5 s. Only then does it resolve the ticket.",
        (
            Step("the invariants held: proof", (Kind.PROOF,)),
            Step("the ticket is resolved", (Kind.TICKET_RESOLVED,)),
        ),
    ),
    Chapter(
        "Incident report",
        "Every step is in the ledger, whose entries are chained and signed. The report is made"
        " from it.",
        (Step("the ledger is intact", ("ended",)),),
    ),
)


def chapter_of(event: Event) -> int | None:
    """The chapter that an event of the ledger opens; None when it opens none."""
    match event.kind:
        case Kind.TICKET_OPENED:
            return DETECTION
        case Kind.REASONING | Kind.DIAGNOSIS | Kind.VERDICT:
            return REMEDY
        case Kind.PROOF | Kind.TICKET_RESOLVED:
            return PROOF
    return None


# Which sentence of a subject's story belongs to which chapter.
STORY_CHAPTERS = ("cluster", "watch", "fault", "detection", "remedy", "proof")


def name_chapter(
    number: int,
    *,
    fault: str = "",
    sentence: str = "",
    action: str = "",
    story: Mapping[str, str] | None = None,
) -> Chapter:
    """A chapter by its number, with the fault and the repair by their names once they are known.

    `story` is what the subject says of each chapter.
    """
    chapter = CHAPTERS[number - 1]
    if more := story_of(number, story or {}):
        chapter = replace(chapter, text=f"{chapter.text} {more}")
    if number == FAULT and fault:
        text = f"{sentence} {chapter.text}".strip()
        return replace(chapter, title=f"{chapter.title}: {fault}", text=text)
    if number == REMEDY and action:
        return replace(chapter, title=f"{chapter.title}: {action}")
    return chapter


def story_of(chapter: int, story: Mapping[str, str]) -> str:
    """What the story of a subject says of a chapter, or nothing."""
    return story.get(STORY_CHAPTERS[chapter - 1], "") if chapter <= len(STORY_CHAPTERS) else ""


def report_text(app: App, ending: Ending) -> str:
    """The report of the incident as Markdown, or its figures where there is no ticket."""
    if ending.ticket is not None and find_spec("operator_sre.app.reports") is not None:
        from operator_sre.app.reports import as_markdown, report_of

        return as_markdown(report_of(app, ending.ticket.id))
    verdict = "resolved with a proof" if ending.proven else "NOT resolved"
    figures = {
        "time to detect": ending.detect_s,
        "time to repair": ending.repair_s,
        "time to proof": ending.proof_s,
    }
    lines = [f"- {name}: {value:.1f} s" for name, value in figures.items() if value is not None]
    summary = "" if ending.ticket is None else f": {ending.ticket.summary}"
    return "\n".join([f"# The incident was {verdict}", "", f"{ending.target}{summary}", "", *lines])
