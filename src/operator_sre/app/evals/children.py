"""A process for each trial: started, waited for, ended in any case, and its folder removed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import sys
from pathlib import Path

from operator_protocols.errors import RigError
from operator_sre.app.evals.job import Job
from operator_sre.codec import from_json, to_json
from operator_sre.evals.facts import TrialFacts

__all__ = ["run_in_child"]

# How long a trial has to take itself down after nobody wants it any more.
GRACE_S = 45.0
# What a rig and its end may take beside all that a campaign says.
AROUND_S = 180.0
LOG_CHARS_MAX = 600
MODULE = "operator_sre.app.evals.child"


async def run_in_child(job: Job) -> TrialFacts:
    """The facts of a trial; RigError when its process did not come to an end by itself."""
    folder = _made(job)
    try:
        with _log(job).open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", MODULE),
                stdin=asyncio.subprocess.PIPE,
                stdout=log,
                stderr=log,
                # A key that ends us is not for it: it ends by what it is told.
                start_new_session=True,
                cwd=folder,
            )
        try:
            await _told(process, job)
            await asyncio.wait_for(process.wait(), _seconds_max(job))
        except TimeoutError:
            raise RigError(f"The trial took longer than {_seconds_max(job):g} s.") from None
        finally:
            await asyncio.shield(_ended(process))
        return _facts(job, process.returncode)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _made(job: Job) -> Path:
    folder = Path(job.folder)
    folder.mkdir(mode=0o700, parents=True)
    return folder


def _log(job: Job) -> Path:
    return Path(job.folder) / "trial.log"


async def _told(process: asyncio.subprocess.Process, job: Job) -> None:
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        process.stdin.write(json.dumps(to_json(job)).encode() + b"\n")
        await process.stdin.drain()


async def _ended(process: asyncio.subprocess.Process) -> None:
    """Tell it that nobody waits, and end it if that does not help."""
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
    one = job.campaign
    return one.well_s_max + one.detect_s_max + one.end_s_max + one.control_s + one.hold_s + AROUND_S


def _facts(job: Job, code: int | None) -> TrialFacts:
    try:
        return from_json(TrialFacts, json.loads(job.facts.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        log = _log(job)
        said = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
        last = " ".join(said[-LOG_CHARS_MAX:].split())
        raise RigError(f"The process of the trial ended with {code}: {last or error}") from error
