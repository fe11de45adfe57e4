"""Jobs for tests: each with a name of its own."""

from __future__ import annotations

import secrets

from operator_protocols.domain.action import TIMEOUT_S, Action, Result
from operator_protocols.ports import Job, Shell

__all__ = ["new_job", "run_in"]


def new_job(timeout_s: float = TIMEOUT_S) -> Job:
    """One that nobody has begun."""
    return Job(secrets.token_hex(32), timeout_s)


async def run_in(shell: Shell, action: Action) -> Result:
    """Run an action as a new job, within the time that it says itself."""
    return await shell.run(action, new_job(action.timeout_s))
