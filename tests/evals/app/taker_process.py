"""A worker as a process, with small trials: `python -m tests.evals.app.taker_process`.

It reads from its input the address of the store, a folder, its name, how many at once, for how long
a trial of the fault `long` takes, and its version. Each trial is noted in
a file when it begins and ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import signal
import sys
import time
from pathlib import Path

from operator_evals.app.worker import Did, Order, Taker, pack_result
from operator_evals.facts import Moments, TrialFacts, TrialState
from operator_protocols.errors import ConfigError
from operator_sre.clock import SystemClock
from operator_sre.engine.trials import trial_queue

__all__ = ["main"]


class Small:
    """Trials that note who does them and when, and break nothing."""

    def __init__(self, folder: Path, name: str, long_s: float) -> None:
        self._notes = folder / f"{name}.jsonl"
        self._folder, self._name, self._long_s = folder, name, long_s

    def _note(self, what: str, key: str) -> None:
        with self._notes.open("a") as notes:
            notes.write(json.dumps([what, key, time.monotonic()]) + "\n")

    def fit(self, order: Order) -> None:
        """A worker of this name has no rigs at all."""
        if self._name == "unfit":
            raise ConfigError("There can be no rig here.")

    async def run(self, order: Order) -> tuple[TrialFacts, str]:
        """Note it, wait a little, note it again."""
        one = order.planned
        self._note("begun", one.key)
        try:
            await SystemClock().sleep(self._long_s if one.scenario.fault == "long" else 0.05)
        except asyncio.CancelledError:
            self._note("ended", one.key)
            raise
        self._note("done", one.key)
        bundle = self._folder / f"{self._name}.bundle"
        bundle.write_bytes(f"ledger of {one.key} by {self._name}".encode())
        facts = TrialFacts(
            *(order.campaign.name, one.key, one.scenario, one.variant, one.seed, TrialState.DONE),
            hit=self._name,
            moments=Moments(ended=1.0),
            ledger="there is one",
        )
        return facts, pack_result(facts, bundle)


async def _work(url: str, folder: str, name: str, at_once: str, long_s: str, version: str) -> None:
    small = Small(Path(folder), name, float(long_s))
    queue = trial_queue(
        url, executor=f"{name}:{time.monotonic_ns()}", version=version, name=name,
        at_once=int(at_once),
    )  # fmt: skip

    def tell(did: Did) -> None:
        sys.stdout.write(f"{did.state} {did.trial}\n")
        sys.stdout.flush()

    taker = Taker(queue, small.fit, small.run, SystemClock(), int(at_once), tell, beat_s=0.3)
    task = asyncio.ensure_future(taker.work())
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await task


def main() -> None:
    """Work until SIGTERM; an error is one line on standard error."""
    logging.basicConfig(level=logging.ERROR)
    words = json.loads(sys.stdin.readline())
    try:
        asyncio.run(_work(*words))
    except ConfigError as error:
        sys.exit(error.message)


if __name__ == "__main__":
    main()
