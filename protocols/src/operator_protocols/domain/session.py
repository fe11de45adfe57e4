"""A session is the recent activity of one agent, across all of its processes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

__all__ = ["SessionAction", "SessionRecord", "session_of"]


@dataclass(frozen=True, slots=True)
class SessionAction:
    """One action of an agent, with the facts that count for the risk of its session.

    `secret` means that it read sensitive data, `network` that it could reach the network, and
    `blocked` that it tried something that its verdict did not declare.
    """

    at: datetime
    tool: str
    command: str
    level: str
    secret: bool = False
    network: bool = False
    blocked: bool = False


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """Whether an agent is held in observe mode, since when, why, and who released it."""

    agent: str
    held: bool
    score: int
    reason: str
    by: str
    at: datetime


def session_of(worker: str) -> str:
    """The agent behind a worker: the part after the colon names one of its processes."""
    return worker.partition(":")[0]
