"""What a demo tells: its events, its chapters, and what is left to read when it is over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from importlib.util import find_spec
from typing import Any

from operator_lab.app.rigs import TargetView
from operator_lab.load_stats import LoadStats
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
        "These are real servers on private ports of this machine, with real traffic. They are"
        " started for you, and nothing of them is left afterwards.",
        (
            Step("every node gets its dot", ("rig_up",)),
            Step("traffic draws its bars", ("traffic",)),
        ),
    ),
    Chapter(
        "The watch",
        "Monitor and agent are started as two processes of their own. The monitor looks every 2 s"
        " and checks invariants: code, not a model, so that watching costs nothing.",
        (
            Step("the monitor says what it watches", ("watching",)),
            Step("look after look, all of it holds", ("healthy",)),
        ),
    ),
    Chapter(
        "The fault",
        "A countdown, then the fault is done to the cluster for real. Neither monitor nor agent is"
        " told. From here on nothing is scripted.",
        (
            Step("3 - 2 - 1", ("counted",)),
            Step("the fault strikes: injecting", ("fault",)),
        ),
    ),
    Chapter(
        "Detection",
        "The next look of the monitor meets a broken invariant. It opens one ticket for all that"
        " belongs to the incident.",
        (
            Step("the monitor turns red: DETECTED", (Kind.TICKET_OPENED,)),
            Step("the agent takes the ticket", (Kind.TICKET_CLAIMED,)),
        ),
    ),
    Chapter(
        "AI remediation",
        "The mind weighs hypotheses and asks for evidence; every command is judged by the gate"
        " before it runs, and every answer moves the odds.",
        (
            Step("hypotheses with their odds", (Kind.REASONING,)),
            Step("a diagnosis with its evidence", (Kind.DIAGNOSIS,)),
            Step("the gate's verdict on the repair", ("repair_judged",)),
            Step("the repair runs", ("repaired",)),
        ),
    ),
    Chapter(
        "Proof",
        "Saying 'done' is not evidence. The system is looked at again until every invariant has"
        " held for 5 s; only then the ticket is resolved.",
        (
            Step("it held: the proof", (Kind.PROOF,)),
            Step("the ticket is resolved: normal", (Kind.TICKET_RESOLVED,)),
        ),
    ),
    Chapter(
        "Incident report",
        "All of it is in a ledger whose entries are chained and signed. This is the report that"
        " was made from it.",
        (Step("the chain of the ledger is whole", ("ended",)),),
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


def name_chapter(number: int, *, fault: str = "", sentence: str = "", action: str = "") -> Chapter:
    """A chapter by its number, with the fault and the repair by their names once they are known."""
    chapter = CHAPTERS[number - 1]
    if number == FAULT and fault:
        text = f"{sentence} {chapter.text}".strip()
        return replace(chapter, title=f"{chapter.title}: {fault}", text=text)
    if number == REMEDY and action:
        return replace(chapter, title=f"{chapter.title}: {action}")
    return chapter


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
