"""A process that runs one long command through the executor of a home.

`python -m tests.e2e.long_command HOME PIDS` writes the pids of the command to the file PIDS, and
says what became of it.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from operator_protocols.domain.action import Action
from operator_protocols.domain.permit import Permit
from operator_protocols.domain.verdict import Mode, Risk
from operator_sre.app.wiring import App, open_app
from operator_sre.config import load_config
from operator_sre.controls import MACHINE
from operator_sre.gate import Gate, Policy
from tests.contract.samples import violation

__all__ = ["main"]


def main(home: str, pids: str) -> None:
    """Run it to its end."""
    config = load_config(flags={"home": home}, environ={}, cwd=Path(home).parent)
    with open_app(config) as app:
        outcome = asyncio.run(_run(app, f"echo $$ > {pids}; sleep 300 & echo $! >> {pids}; wait"))
    sys.stdout.write(f"{outcome}\n")


async def _run(app: App, command: str) -> str:
    store = app.store
    policy = Policy(mode=Mode.EXECUTE, auto=frozenset(Risk))
    gate = Gate(lambda: policy, store.journal, store.approvals, app.clock, app.new_id)
    await store.tickets.open([violation()])
    ticket = await store.leases.claim("w:1", run="run-1", lease_s=60.0, attempts_max=3)
    assert ticket is not None
    permit = await gate.permit(gate.judge(Action.shell(command)), ticket)
    assert isinstance(permit, Permit), permit
    result, _ = await app.controls(MACHINE).executor.execute(permit)
    return f"{result.outcome}: {result.stderr}"


if __name__ == "__main__":
    main(*sys.argv[1:])
