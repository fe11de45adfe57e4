"""A session is what one agent has done lately, whichever of its processes did it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

__all__ = ["SessionAction", "SessionRecord", "session_of"]


@dataclass(frozen=True, slots=True)
class SessionAction:
    """One action that an agent began, as far as it weighs on its session.

    `secret` says that it read something sensitive, `network` that it could reach the network,
    `blocked` that it tried what its verdict did not declare.
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
    """Whether an agent is held in observe, since when and why, and who let it go again."""

    agent: str
    held: bool
    score: int
    reason: str
    by: str
    at: datetime


def session_of(worker: str) -> str:
    """The agent behind a worker: what follows a colon tells the processes of one agent apart."""
    return worker.partition(":")[0]
