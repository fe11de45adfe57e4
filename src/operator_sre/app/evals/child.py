"""The process of one trial: `python -m operator_sre.app.evals.child`, told on its standard input.

When that input ends, whoever wanted the trial is gone, and all of it is taken down.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import sys
import threading
from datetime import timedelta
from pathlib import Path

from operator_sre.app.evals.controls import ControlOfTrial
from operator_sre.app.evals.counting import Counting, Watched, depot_of
from operator_sre.app.evals.job import Job, config_of_trial
from operator_sre.app.evals.places import FaultOfTrial, RigOfTrial
from operator_sre.app.evals.witness import LedgerWitness
from operator_sre.app.evals.working import Knowing, VariantAtWork
from operator_sre.app.wiring import App, open_app
from operator_sre.codec import from_json, to_json
from operator_sre.evals.campaign import Mind
from operator_sre.evals.facts import TrialFacts
from operator_sre.evals.trial import Cast, Hurting, Working, run_trial

__all__ = ["main", "try_out"]

STOPPED = 3


async def try_out(job: Job) -> TrialFacts:
    """Do the trial in this process."""
    job.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open_app(config_of_trial(job)) as app:
        cast = _cast(app, job)
        return await run_trial(job.planned, job.campaign, cast, app.clock, began=job.began)


def _cast(app: App, job: Job) -> Cast:
    scenario = job.planned.scenario
    place = RigOfTrial(app, scenario.subject)
    noise = tuple(
        fault
        for subject, _, fault in (word.rpartition(":") for word in job.campaign.noise)
        if subject in ("", scenario.subject) and fault != scenario.fault
    )
    variant = VariantAtWork(app, job, place)
    working: Working = variant
    hurting: Hurting
    if scenario.is_control:
        hurting = ControlOfTrial(app, place, variant, job)
    else:
        hurting = fault = FaultOfTrial(place, job.planned, noise)
        if job.variant.mind is Mind.ORACLE:
            working = Knowing(app, variant, fault, scenario)
    # The wall clock at the moment from which all times are counted.
    began_at = app.clock.now() - timedelta(seconds=app.clock.monotonic() - job.began)
    counting = Counting(lambda: depot_of(app, place, scenario.subject))
    witness = LedgerWitness(app, place, began_at, Path(job.ledger), counting)
    return Cast(place, hurting, Watched(working, counting), witness)


async def _until_left(job: Job) -> TrialFacts:
    """The same, and its end when nobody waits for it any more."""
    loop, task = asyncio.get_running_loop(), asyncio.ensure_future(try_out(job))

    def wait_for_the_end() -> None:
        sys.stdin.buffer.read()
        loop.call_soon_threadsafe(task.cancel)

    threading.Thread(target=wait_for_the_end, daemon=True).start()
    loop.add_signal_handler(signal.SIGTERM, task.cancel)
    return await task


def _cleared(folder: Path) -> None:
    """Whoever would have removed our folder may be gone; what others still use stays."""
    shutil.rmtree(folder, ignore_errors=True)
    with contextlib.suppress(OSError):
        folder.parent.rmdir()
        folder.parent.parent.rmdir()


def main() -> None:
    """Read what is to be done, do it, and leave the facts in the folder of the trial."""
    told = sys.stdin.buffer.readline()
    if not told:
        return  # nobody needed us
    job = from_json(Job, json.loads(told))
    os.chdir(job.folder)
    try:
        facts = asyncio.run(_until_left(job))
    except asyncio.CancelledError:
        _cleared(Path(job.folder))
        code = STOPPED
    else:
        text = json.dumps(to_json(facts))
        whole = job.facts.with_suffix(".part")
        whole.write_text(text, encoding="utf-8")
        whole.replace(job.facts)
        code = 0
    sys.stderr.flush()
    os._exit(code)  # the thread that reads our input is not waited for


if __name__ == "__main__":
    main()
