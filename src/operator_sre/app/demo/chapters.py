"""The chapters of the demo: what each is called, what it says, and what to watch for."""

from __future__ import annotations

from dataclasses import dataclass, replace

from operator_protocols.domain.entry import Kind
from operator_sre.app.demo.events import Event

__all__ = ["CHAPTERS", "FAULT", "REPORT", "WATCH", "Chapter", "Step", "chapter_of", "named"]

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


def named(number: int, *, fault: str = "", sentence: str = "", action: str = "") -> Chapter:
    """A chapter by its number, with the fault and the repair by their names once they are known."""
    chapter = CHAPTERS[number - 1]
    if number == FAULT and fault:
        text = f"{sentence} {chapter.text}".strip()
        return replace(chapter, title=f"{chapter.title}: {fault}", text=text)
    if number == REMEDY and action:
        return replace(chapter, title=f"{chapter.title}: {action}")
    return chapter
