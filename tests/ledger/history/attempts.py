"""Attempts to learn from."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta

from operator_protocols.domain.action import digest_of
from operator_protocols.domain.command import Attempt

__all__ = ["attempt", "attempts"]

_NUMBERS = itertools.count(1)
NOON = datetime(2026, 3, 4, 12, 0, 0, tzinfo=UTC)


def attempt(
    command: str,
    *,
    exit_code: int | None = 0,
    outcome: str = "ran",
    tool: str = "shell",
    run: str = "run-1",
    category: str = "",
    duration_s: float = 1.0,
    venv: str = "",
    context: str = "",
    cwd: str = "/",
    level: str = "safe",
) -> Attempt:
    """One command once, newer than all before it."""
    seq = next(_NUMBERS)
    return Attempt(
        seq=seq,
        at=NOON + timedelta(seconds=seq),
        command=command,
        command_hash=digest_of(command),
        tool=tool,
        target="node-1",
        cwd=cwd,
        venv=venv,
        context=context,
        level=level,
        outcome=outcome,
        exit_code=exit_code,
        duration_s=duration_s,
        category=category,
        ticket=1,
        run=run,
    )


def attempts(*commands: str, exit_code: int = 0, run: str = "run-1") -> list[Attempt]:
    """Several, one after another in one run."""
    return [attempt(command, exit_code=exit_code, run=run) for command in commands]
