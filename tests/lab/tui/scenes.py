"""A play that is told by a test, event by event, and the app that shows it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from operator_lab.app.rigs import TargetView
from operator_lab.demo import Begun, Ending, Event, Look, Part, Picture, Said, Told
from operator_lab.load import LoadStats, Sample
from operator_lab.tui.app import Cues, DemoApp, Script
from operator_protocols.domain.diagnosis import RankedHypothesis
from operator_protocols.domain.health import Severity
from operator_protocols.domain.ticket import Ticket, TicketState
from operator_sre.app.story import Line
from operator_sre.codec import to_json

__all__ = ["HOSTILE", "Play", "approval", "ending", "entry", "picture", "said", "story", "verdict"]

NODES = ("store", "replica", "node-1", "node-2", "node-3")
# What a program, a node or a mind could write to get out of its panel.
HOSTILE = (
    "\x1b[2J\x1b[H\x1b[31mall is well\x1b[0m",
    "\x1b]52;c;ZWNobyBoaQ==\x07",
    "\x1b]0;another title\x07",
    "[/x] [bold red]markup[/] [@click=app.quit]press[/]",
    "\u202eleft to right\u202c",
    "x" * 1_000_000,
    b"\xff\xfe not text \xc3".decode(errors="replace"),
    "\x9b31m C1 \x07\x08\x7f",
)


@dataclass
class Play:
    """Tells what it is given to whoever listens, and notes what the viewer did."""

    auto: bool = False
    said_yes: list[tuple[str, bool]] = field(default_factory=list)
    stopped: int = 0
    noted: list[Event] = field(default_factory=list)
    cues: Cues = field(default_factory=Cues)

    def __post_init__(self) -> None:
        self._told: asyncio.Queue[Told] = asyncio.Queue()

    def tell(self, *told: Told) -> None:
        """These happen now, one after the other."""
        for one in told:
            self._told.put_nowait(one)

    async def _feed(self) -> AsyncIterator[Told]:
        while True:
            yield await self._told.get()

    async def _answer(self, approval: str, yes: bool) -> str:
        self.said_yes.append((approval, yes))
        return ""

    def _stop(self) -> None:
        self.stopped += 1

    def app(self) -> DemoApp:
        """The app as a viewer meets it."""
        return DemoApp(
            Script(
                subject="ratelimiter",
                fault="node_kill",
                sentence="One node is killed.",
                feed=self._feed(),
                cues=self.cues,
                answer=self._answer,
                report=lambda ending: f"# Report of {ending.target}\n\n- proven: {ending.proven}",
                stop=self._stop,
                note=self.noted.append,
                auto=self.auto,
            )
        )


def picture(
    look: Look = Look.NORMAL,
    *,
    down: tuple[str, ...] = (),
    broken: dict[str, tuple[str, ...]] | None = None,
    ops: tuple[int, ...] = (),
    began: float = 1.0,
) -> Picture:
    """The cluster with these nodes down, after these samples of traffic."""
    targets = tuple(
        TargetView(
            name=name,
            kind="node",
            state="exited" if name in down else "running",
            pid=100 + at,
            host="127.0.0.1",
            port=20000 + at,
            log="",
            data_dir="",
        )
        for at, name in enumerate(NODES)
    )
    samples = tuple(Sample(began + at, ok, 0) for at, ok in enumerate(ops))
    load = LoadStats(began, sum(ops), sum(ops), 0, ops[-1], samples) if ops else None
    return Picture(look, targets, load, broken or {})


def said(part: Part, *lines: str) -> Said:
    """A program wrote these lines."""
    return Said(part, lines)


def entry(kind: str, text: str = "", step: str = "think", **payload: Any) -> Event:
    """An entry of the ledger."""
    return Event(Line(step, text or kind), 1, kind, payload, 1)


def verdict(level: str = "review", tool: str = "restart_node", risk: str = "medium") -> Event:
    """The gate judged an action."""
    action = {"tool": tool, "arguments": {"target": "node-2"}}
    return entry("verdict", step="decide", level=level, risk=risk, action=action)


def approval(command: str = "restart_node") -> Event:
    """The agent asks its viewer."""
    action = {
        "tool": command,
        "arguments": {"target": "node-2"},
        "cwd": "/",
        "target": "node-2",
        "reasoning": "its process is gone",
        "expected": "it answers again",
    }
    asked = {"id": "approval-1", "risk": "medium", "action": action}
    return entry("approval_requested", step="decide", approval=asked)


def ending(*, proven: bool = True) -> Ending:
    """How it ended."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    state = TicketState.RESOLVED if proven else TicketState.ESCALATED
    ticket = Ticket(
        id=1,
        subject="ratelimiter",
        target="node-2",
        summary="node-2: node_down",
        severity=Severity.CRITICAL,
        state=state,
        violations=(),
        opened_at=now,
        changed_at=now,
    )
    return Ending(ticket, "node-2", 1.5, 3.0, 9.0, 39, chain_whole=True)


def story() -> list[Told]:
    """From the fault to the proof."""
    learned = "node-2: there is no such process any more."
    rows = (("process_dead", 0.899, 0.422), ("port_occupied", 0.048, 0.022))
    ranked = [RankedHypothesis(cause, "node-2", now, was) for cause, now, was in rows]
    return [
        picture(Look.INJECTING, down=("node-2",)),
        Event(Line("fault", "node_kill: injected into node-2", "bad")),
        Begun(4),
        entry("ticket_opened", "ticket opened: node-2: node_down", step="file"),
        entry("ticket_claimed", "the agent takes it"),
        Begun(5),
        entry("reasoning", reasoning=learned, hypotheses=to_json(ranked)),
        verdict("safe", "check_port", "low"),
        entry("tool_result", step="act", result={"outcome": "ran", "exit_code": 0}),
        entry("diagnosis", "diagnosis, 99.1% sure: its process is gone."),
        verdict(),
        entry("tool_result", step="act", result={"outcome": "ran", "exit_code": 0}),
        Begun(6),
        entry("proof", "Every invariant held.", step="prove"),
        entry("ticket_resolved", "RESOLVED", step="close"),
        picture(Look.NORMAL, ops=(30,) * 12),
    ]
