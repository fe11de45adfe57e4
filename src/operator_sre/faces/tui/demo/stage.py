"""What the demo's panels show, kept apart from how: every event changes it, nothing else does."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from operator_sre.app.demo import (
    CHAPTERS,
    Begun,
    Chapter,
    Count,
    Ending,
    Event,
    Look,
    Picture,
    Told,
    named,
)
from operator_sre.app.lab import TargetView
from operator_sre.app.story import brief_of, command_of

__all__ = ["Alarm", "Asked", "Hypothesis", "Judged", "Stage", "Traffic"]

SAMPLES_MAX = 30
BASELINE_SAMPLES = 5
DEGRADED_SHARE = 0.5
VERDICTS_MAX = 50
HYPOTHESES_MAX = 8
# How the built-in mind writes a row: with what it thought before, or without.
_ROW = re.compile(r"(\S+) at (\S+)\s+(?:[\d.]+%\s+->\s+)?([\d.]+)%")


class Alarm(StrEnum):
    """How the monitor stands to what it sees."""

    CALM = "watching"
    WARY = "something has changed"
    DETECTED = "DETECTED"


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """One explanation, and how likely it is."""

    cause: str
    target: str
    percent: float


@dataclass(frozen=True, slots=True)
class Judged:
    """What the gate said about an action, and what became of it."""

    level: str
    risk: str
    command: str
    outcome: str = ""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that waits for the viewer."""

    id: str
    command: str
    cwd: str
    target: str
    risk: str
    why: str
    expected: str


class Traffic:
    """Requests a second: the last samples, and the mean of the first as what is usual."""

    def __init__(self) -> None:
        self.samples: deque[float] = deque(maxlen=SAMPLES_MAX)
        self._first: list[float] = []
        self._last_at = 0.0

    def take(self, samples: Sequence[tuple[float, float]]) -> None:
        """Those that are newer than what is known."""
        for at, value in samples:
            if at <= self._last_at:
                continue
            self._last_at = at
            self.samples.append(value)
            if len(self._first) < BASELINE_SAMPLES:
                self._first.append(value)

    @property
    def baseline(self) -> float | None:
        """The mean of the first samples, once there are enough of them."""
        if len(self._first) < BASELINE_SAMPLES:
            return None
        return sum(self._first) / len(self._first)

    def is_low(self, value: float) -> bool:
        """Less than half of what is usual."""
        usual = self.baseline
        return usual is not None and value < DEGRADED_SHARE * usual

    @property
    def is_degraded(self) -> bool:
        """Whether the newest sample is low."""
        return bool(self.samples) and self.is_low(self.samples[-1])


@dataclass(slots=True)
class Stage:
    """Everything that is known of the play."""

    fault: str = ""
    sentence: str = ""
    look: Look = Look.NORMAL
    alarm: Alarm = Alarm.CALM
    targets: tuple[TargetView, ...] = ()
    broken: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    traffic: Traffic = field(default_factory=Traffic)
    answered: tuple[int, int] = (0, 0)
    hypotheses: tuple[Hypothesis, ...] = ()
    verdicts: deque[Judged] = field(default_factory=lambda: deque(maxlen=VERDICTS_MAX))
    diagnosis: str = ""
    action: str = ""
    asked: Asked | None = None
    reached: int = 1
    ready: int = 0
    shown: int = 1
    count: int | None = None
    done: set[str] = field(default_factory=set)
    ending: Ending | None = None

    def take(self, told: Told) -> None:
        """One thing happened."""
        match told:
            case Begun():
                self.reached = max(self.reached, told.chapter)
                if told.ready:
                    self.ready = max(self.ready, told.chapter)
            case Count():
                self.count = told.left_s or None
                if not told.left_s:
                    self.done.add("counted")
            case Picture():
                self._picture(told)
            case Event():
                self._event(told)
            case Ending():
                self.ending = told
                self.asked = None
                self.done.add("ended")
            case _:
                return

    @property
    def chapter(self) -> Chapter:
        """The chapter that is shown, with names as far as they are known."""
        return named(self.shown, fault=self.fault, sentence=self.sentence, action=self.action)

    @property
    def place(self) -> str:
        """Where in the story we are."""
        return f"[{self.shown}/{len(CHAPTERS)}]"

    @property
    def waits_for_viewer(self) -> bool:
        """The play goes on when its viewer says so."""
        return self.ready == self.reached == self.shown

    def _picture(self, told: Picture) -> None:
        self.look, self.targets, self.broken = told.look, told.targets, told.broken
        if told.look is Look.INJECTING and self.alarm is Alarm.CALM:
            self.alarm = Alarm.WARY
        if told.load is not None:
            self.traffic.take([(one.at, float(one.ok)) for one in told.load.samples])
            self.answered = (told.load.ok, told.load.total)
            self.done.add("traffic")

    def _event(self, event: Event) -> None:
        self.done.add(event.kind or event.line.step)
        payload: Mapping[str, Any] = event.payload if isinstance(event.payload, Mapping) else {}
        match event.kind:
            case "healthy":
                self.done.add("watching")
            case "ticket_opened":
                self.alarm = Alarm.DETECTED
            case "ticket_resolved":
                self.alarm = Alarm.CALM
            case "reasoning":
                self._weighed(str(payload.get("reasoning", "")))
            case "diagnosis":
                self.diagnosis = event.line.text
            case "verdict":
                self._judged(payload)
            case "approval_requested":
                self.asked = _asked(payload)
            case "approval_decided":
                self.asked = None
                self._became(str(payload.get("answer") or payload.get("state") or ""))
            case "tool_result" | "refused":
                self._ran(payload)

    def _weighed(self, text: str) -> None:
        rows = [Hypothesis(cause, target, float(odds)) for cause, target, odds in _rows(text)]
        if rows:
            self.hypotheses = tuple(rows[:HYPOTHESES_MAX])

    def _judged(self, payload: Mapping[str, Any]) -> None:
        level, action = str(payload.get("level", "")), payload.get("action")
        command = brief_of(action) if isinstance(action, Mapping) else ""
        self.verdicts.append(Judged(level.upper(), str(payload.get("risk", "")), command))
        if level != "safe":
            self.action = command
            self.done.add("repair_judged")

    def _ran(self, payload: Mapping[str, Any]) -> None:
        result = payload.get("result")
        if not isinstance(result, Mapping):
            return
        ran = result.get("outcome") == "ran"
        self._became(f"exit {result.get('exit_code')}" if ran else str(result.get("outcome")))
        if self.verdicts and self.verdicts[-1].level != "SAFE":
            self.done.add("repaired")

    def _became(self, outcome: str) -> None:
        if self.verdicts:
            last = self.verdicts[-1]
            self.verdicts[-1] = Judged(last.level, last.risk, last.command, outcome)


def _rows(text: str) -> list[tuple[str, str, str]]:
    return _ROW.findall(text) if "Hypotheses" in text else []


def _asked(payload: Mapping[str, Any]) -> Asked | None:
    approval = payload.get("approval")
    if not isinstance(approval, Mapping):
        return None
    action = approval.get("action")
    told: Mapping[str, Any] = action if isinstance(action, Mapping) else {}
    return Asked(
        id=str(approval.get("id", "")),
        command=command_of(told) if told else "",
        cwd=str(told.get("cwd", "")),
        target=str(told.get("target", "")),
        risk=str(approval.get("risk", "")),
        why=str(told.get("reasoning", "")),
        expected=str(told.get("expected", "")),
    )
