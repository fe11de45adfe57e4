"""The process of one trial, and who starts it: `python -m operator_evals.app.trial_process`."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import sys
import tempfile
import threading
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

from operator_evals.app.generated_trial import GeneratedFault, GeneratedWitness
from operator_evals.app.stage import Staged
from operator_evals.app.trial_agents import ControlOfTrial, Knowing, VariantAtWork
from operator_evals.app.trial_facts import Counting, LedgerWitness, Watched, depot_of
from operator_evals.app.trial_rig import FaultOfTrial, Job, RigOfTrial, config_of_trial
from operator_evals.campaign import Control, Mind
from operator_evals.facts import TrialFacts
from operator_evals.trial import Cast, Hurting, Working, run_trial
from operator_protocols.errors import RigError
from operator_sre.app.wiring import App, open_app
from operator_sre.codec import from_json, to_json

__all__ = ["Child", "Children", "main", "try_out"]

# How long a trial may take to shut down after it is not wanted any more.
GRACE_S = 45.0
# What a rig and its end may take beside all that a campaign says.
AROUND_S = 180.0
# How long a rig that is ready may wait for its place.
STAGE_S_MAX = 900.0
LOG_CHARS_MAX = 600
MODULE = "operator_evals.app.trial_process"


@dataclass(frozen=True, slots=True)
class Child:
    """A process that waits for its trial, and its output so far."""

    process: asyncio.subprocess.Process
    log: Path


class Children:
    """A process for each trial; the next one loads while others work, so that no trial waits."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._spare: asyncio.Task[Child] | None = None

    async def __aenter__(self) -> Children:
        self._spare = asyncio.create_task(_start_child(self._folder))
        return self

    async def __aexit__(self, *problem: object) -> None:
        if self._spare is not None:
            spare, self._spare = await self._spare, None
            await _stop_process(spare.process)
            spare.log.unlink(missing_ok=True)

    async def run(self, job: Job) -> TrialFacts:
        """The facts of a trial; RigError when its process did not come to an end by itself."""
        spare = self._spare
        if spare is not None:
            self._spare = asyncio.create_task(_start_child(self._folder))
        child = await (spare or _start_child(self._folder))
        folder, process = Path(job.folder), child.process
        try:
            try:
                await asyncio.to_thread(folder.mkdir, mode=0o700, parents=True)
                assert process.stdin is not None
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    process.stdin.write(json.dumps(to_json(job)).encode() + b"\n")
                    await process.stdin.drain()
                await asyncio.wait_for(process.wait(), _seconds_max(job))
            except TimeoutError:
                raise RigError(f"The trial took longer than {_seconds_max(job):g} s.") from None
            finally:
                await asyncio.shield(_stop_process(process))
            try:
                return from_json(TrialFacts, json.loads(job.facts.read_text(encoding="utf-8")))
            except (OSError, ValueError) as error:
                output = child.log.read_text(encoding="utf-8", errors="replace")
                last = " ".join(output[-LOG_CHARS_MAX:].split()) or error
                code = child.process.returncode
                raise RigError(f"The process of the trial ended with {code}: {last}") from error
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            child.log.unlink(missing_ok=True)


async def _start_child(folder: Path) -> Child:
    handle, path = tempfile.mkstemp(suffix=".log", dir=folder)
    try:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", MODULE),
            stdin=asyncio.subprocess.PIPE,
            stdout=handle,
            stderr=handle,
            # Ctrl-C in our terminal must not end it: it ends when we tell it to.
            start_new_session=True,
            cwd=folder,
        )
    finally:
        os.close(handle)
    return Child(process, Path(path))


async def _stop_process(process: asyncio.subprocess.Process) -> None:
    """Tell it that it is not wanted any more, and kill it if that does not help."""
    if process.stdin is not None:
        process.stdin.close()
    for end in (None, process.terminate, process.kill):
        if end is not None:
            with contextlib.suppress(ProcessLookupError):
                end()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), GRACE_S)
            return


def _seconds_max(job: Job) -> float:
    campaign = job.campaign
    return (
        campaign.well_s_max
        + campaign.detect_s_max
        + campaign.end_s_max
        + campaign.control_s
        + campaign.hold_s
        + AROUND_S
        + (STAGE_S_MAX if job.staged else 0.0)
    )


STOPPED = 3


async def try_out(job: Job) -> TrialFacts:
    """Do the trial in this process."""
    job.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open_app(config_of_trial(job)) as app:
        scenario = job.planned.scenario
        place = RigOfTrial(app, scenario.subject, lent=job.rig, well_s_max=job.campaign.well_s_max)
        # The wall clock at the moment from which all times are counted.
        began_at = app.clock.now() - timedelta(seconds=app.clock.monotonic() - job.began)
        counting = Counting(lambda: depot_of(app, place, scenario.subject))
        ledger = LedgerWitness(app, place, began_at, Path(job.ledger), counting)
        if job.generates:
            return await _try_generated(app, job, place, ledger)
        noise = tuple(
            fault
            for subject, _, fault in (word.rpartition(":") for word in job.campaign.noise)
            if subject in ("", scenario.subject) and fault != scenario.fault
        )
        variant = VariantAtWork(app, job, place)
        working: Working = variant
        hurting: Hurting
        if scenario.is_control and scenario.fault in list(Control):
            hurting = ControlOfTrial(app, place, variant, job)
        else:
            hurting = fault = FaultOfTrial(place, job.planned, noise)
            if job.variant.mind is Mind.ORACLE and not scenario.is_control:
                working = Knowing(app, variant, fault, scenario)
        cast = Cast(place, hurting, Watched(working, counting), ledger)
        return await run_trial(job.planned, job.campaign, cast, app.clock, began=job.began)


async def _try_generated(
    app: App, job: Job, place: RigOfTrial, ledger: LedgerWitness
) -> TrialFacts:
    """Do a trial whose fault is generated."""
    fault = GeneratedFault(place, job, ledger.counting, app.clock)
    watched = Watched(VariantAtWork(app, job, place), ledger.counting)
    staged = Staged(watched, Path(job.folder), job.campaign.well_s_max, fault.prepare)
    cast = Cast(
        place, fault, staged if job.staged else watched, GeneratedWitness(ledger, fault, app)
    )
    facts = await run_trial(
        *(job.planned, job.campaign, cast, app.clock), began=job.began, follow=fault.follow
    )
    if facts.generated is None:
        return facts
    return replace(facts, generated=replace(facts.generated, waited_s=staged.waited_s))


async def _try_until_left(job: Job) -> TrialFacts:
    """Run the trial, and end it when it is not wanted any more."""
    loop, task = asyncio.get_running_loop(), asyncio.ensure_future(try_out(job))

    def wait_for_the_end() -> None:
        sys.stdin.buffer.read()
        loop.call_soon_threadsafe(task.cancel)

    threading.Thread(target=wait_for_the_end, daemon=True).start()
    loop.add_signal_handler(signal.SIGTERM, task.cancel)
    return await task


def main() -> None:
    """Read what is to be done, do it, and leave the facts in the folder of the trial."""
    line = sys.stdin.buffer.readline()
    if not line:
        return  # there is no trial for this process
    job = from_json(Job, json.loads(line))
    os.chdir(job.folder)
    try:
        facts = asyncio.run(_try_until_left(job))
    except asyncio.CancelledError:
        folder = Path(job.folder)
        shutil.rmtree(folder, ignore_errors=True)
        with contextlib.suppress(OSError):
            folder.parent.rmdir()
            folder.parent.parent.rmdir()
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
