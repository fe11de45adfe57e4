"""A process for each trial: started, waited for, ended in any case, and its folder removed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from operator_protocols.errors import RigError
from operator_sre.app.evals.job import Job
from operator_sre.codec import from_json, to_json
from operator_sre.evals.facts import TrialFacts

__all__ = ["Child", "Children"]

# How long a trial has to take itself down after nobody wants it any more.
GRACE_S = 45.0
# What a rig and its end may take beside all that a campaign says.
AROUND_S = 180.0
LOG_CHARS_MAX = 600
MODULE = "operator_sre.app.evals.child"


@dataclass(frozen=True, slots=True)
class Child:
    """A process that waits to be told its trial, and what it has said meanwhile."""

    process: asyncio.subprocess.Process
    log: Path


class Children:
    """A process for each trial; the next one loads while others work, so that no trial waits."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._spare: asyncio.Task[Child] | None = None

    async def __aenter__(self) -> Children:
        self._spare = asyncio.create_task(_born(self._folder))
        return self

    async def __aexit__(self, *problem: object) -> None:
        if self._spare is not None:
            spare, self._spare = await self._spare, None
            await _ended(spare.process)
            spare.log.unlink(missing_ok=True)

    async def run(self, job: Job) -> TrialFacts:
        """The facts of a trial; RigError when its process did not come to an end by itself."""
        spare = self._spare
        if spare is not None:
            self._spare = asyncio.create_task(_born(self._folder))
        return await _trial(job, await (spare or _born(self._folder)))


async def _born(folder: Path) -> Child:
    handle, path = tempfile.mkstemp(suffix=".log", dir=folder)
    try:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", MODULE),
            stdin=asyncio.subprocess.PIPE,
            stdout=handle,
            stderr=handle,
            # A key that ends us is not for it: it ends by what it is told.
            start_new_session=True,
            cwd=folder,
        )
    finally:
        os.close(handle)
    return Child(process, Path(path))


async def _trial(job: Job, child: Child) -> TrialFacts:
    folder, process = _made(job), child.process
    try:
        try:
            await _told(process, job)
            await asyncio.wait_for(process.wait(), _seconds_max(job))
        except TimeoutError:
            raise RigError(f"The trial took longer than {_seconds_max(job):g} s.") from None
        finally:
            await asyncio.shield(_ended(process))
        return _facts(job, child)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        child.log.unlink(missing_ok=True)


def _made(job: Job) -> Path:
    folder = Path(job.folder)
    folder.mkdir(mode=0o700, parents=True)
    return folder


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


def _facts(job: Job, child: Child) -> TrialFacts:
    try:
        return from_json(TrialFacts, json.loads(job.facts.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        said = child.log.read_text(encoding="utf-8", errors="replace")
        last = " ".join(said[-LOG_CHARS_MAX:].split()) or error
        code = child.process.returncode
        raise RigError(f"The process of the trial ended with {code}: {last}") from error
