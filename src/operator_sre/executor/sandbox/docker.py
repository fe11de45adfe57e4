"""Boxes made by a Docker engine of this machine, where bubblewrap cannot be used."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import secrets
import tempfile
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from operator_protocols.domain.action import Outcome, Result
from operator_protocols.domain.category import FailureCategory
from operator_protocols.ports import Job
from operator_sre.executor.categories import category_of
from operator_sre.executor.containers import LABEL
from operator_sre.executor.docker.answers import Container, Created, Frames
from operator_sre.executor.docker.engine import ANSWER_S, Engine, EngineError
from operator_sre.executor.sandbox.box import Language, Limits, Script, network_told, refusal
from operator_sre.executor.sandbox.egress import Egress
from operator_sre.executor.sandbox.place import FILES, Place, place, sweep
from operator_sre.processes.capture import Capture

__all__ = ["IMAGES", "DockerBox"]

IMAGES: Mapping[Language, str] = {
    Language.PYTHON: "python:3.11-slim",
    Language.BASH: "bash:5.2-alpine",
}
OUTPUT_BYTES_MAX = 64 * 1024
NOBODY = "65534:65534"
EXIT_TIMED_OUT, EXIT_NOT_STARTED = 124, 125
NOT_FOUND = 404
# The engine ends a box by itself this much later, should the operator be gone by then.
_LATER_S = 15
_PROGRAMS = {Language.PYTHON: ("python3", "-I", "-B"), Language.BASH: ("bash",)}
_PROXY = "http://127.0.0.1:3128"


class _Waited(msgspec.Struct, rename="pascal"):
    status_code: int


@dataclass(frozen=True, slots=True)
class _Run:
    """One container that was made, with what was made for it."""

    container: str
    script: Script
    limits: Limits
    job: Job
    egress: Egress
    kept: Mapping[int, Capture]
    started: float


class DockerBox:
    """Runs each script in a container of its own; nothing is ever pulled.

    `home` is the value of the label by which all containers of this operator are found.
    """

    name = "docker"

    def __init__(
        self,
        engine: Engine,
        *,
        home: str,
        images: Mapping[Language, str] = IMAGES,
        folder: Path | None = None,
    ) -> None:
        self._engine = engine
        self._home = home
        self._images = images
        self._folder = Path(tempfile.gettempdir()) if folder is None else folder

    async def run(self, script: Script, limits: Limits, job: Job) -> Result:
        """Run it boxed and leave nothing behind; REFUSED, and not run, where no box can be made."""
        if why := script.problem():
            return refusal(why)
        if script.hosts and script.language is not Language.PYTHON:
            return refusal("In Docker only Python scripts reach hosts; use bubblewrap for bash.")
        sweep(self._folder)
        try:
            async with AsyncExitStack() as stack:
                name = job.id[:32] or secrets.token_hex(8)
                made = place(self._folder, name, script, bwrap="", drops=False)
                where = stack.enter_context(made)
                egress = Egress(script.hosts)
                if script.hosts:
                    await stack.enter_async_context(egress.serve(where.socket))
                    where.socket.chmod(0o666)  # for the container; the folder is private
                return await self._run_contained(script, limits, job, where, egress)
        except OSError as error:
            return refusal(f"Cannot create a sandbox: {error}.")
        except EngineError as error:
            return refusal(f"Cannot create a sandbox: {error}")

    async def recover(self, job: Job) -> Result:
        """What became of a script whose operator is gone; what still runs of it is ended."""
        try:
            found = await self._engine.ask("GET", f"/containers/{_name(job)}/json")
            if found.status == NOT_FOUND:
                return Result(Outcome.UNKNOWN, stderr="Its sandbox no longer exists.")
            state = found.read(Container).state
            await self._remove(_name(job))
        except EngineError as error:
            return Result(Outcome.UNKNOWN, stderr=str(error))
        if state.running:
            return Result(
                Outcome.CANCELLED, stderr="Its sandbox was still running and was removed."
            )
        return Result(
            Outcome.RAN,
            exit_code=state.exit_code,
            stderr="Its output is lost.",
            category=category_of(exit_code=state.exit_code, outcome=Outcome.RAN, stderr=""),
        )

    async def _run_contained(
        self, script: Script, limits: Limits, job: Job, where: Place, egress: Egress
    ) -> Result:
        started = time.monotonic()
        ends = str(int(limits.seconds(job)) + _LATER_S)
        words = [*_PROGRAMS[script.language], f"/script/{FILES[script.language]}"]
        binds = [f"{where.folder}/{name}:/{name}:ro" for name in ("script", "inputs")]
        given = {"LANG": "C.UTF-8", "INPUTS": "/inputs", "PYTHONUNBUFFERED": "1"}
        given["HOME"] = "/tmp"  # noqa: S108 - that of the box
        if script.hosts:
            words = ["python3", "-I", "-B", "-S", "/script/forward.py", *words]
            binds.append(f"{where.socket}:/run/egress")
            given |= {"http_proxy": _PROXY, "https_proxy": _PROXY}
        body = {
            "Image": self._images[script.language],
            "Entrypoint": [],
            "Cmd": ["timeout", "-s", "KILL", ends, *words],
            "Env": [f"{name}={value}" for name, value in given.items()],
            "User": NOBODY,
            "WorkingDir": "/tmp",  # noqa: S108 - that of the box
            "Hostname": "box",
            "Labels": {LABEL: self._home},
            "NetworkDisabled": True,
            "HostConfig": _host(limits, job, binds),
        }
        made = await self._engine.ask(
            "POST", "/containers/create", parameters={"name": _name(job)}, body=body
        )
        image = self._images[script.language]
        if made.status == NOT_FOUND:
            return refusal(
                f"The image {image!r} is not present, and Operator pulls no images."
                f" Pull it with: docker pull {image}"
            )
        if not made.ok:
            return refusal(f"Docker refused: {made.message}.")
        kept = {1: Capture(OUTPUT_BYTES_MAX), 2: Capture(OUTPUT_BYTES_MAX)}
        run = _Run(made.read(Created).id, script, limits, job, egress, kept, started)
        try:
            seconds = run.limits.seconds(run.job)
            try:
                async with asyncio.timeout(seconds):
                    problem = await self._read_output(run, seconds)
                if problem:
                    return refusal(f"Docker did not start the command: {problem}.")
                waited = await self._engine.ask("POST", f"/containers/{run.container}/wait")
                seen = await self._engine.ask("GET", f"/containers/{run.container}/json")
                used_up = seen.read(Container).state.oom_killed
                return _result(run, Outcome.RAN, waited.read(_Waited).status_code, used_up=used_up)
            except TimeoutError:
                return _result(run, Outcome.TIMED_OUT, EXIT_TIMED_OUT)
            except EngineError as error:
                # The script may have run, so that a refusal, after which it may be proposed
                # again, would be wrong.
                lost = _result(run, Outcome.UNKNOWN, None)
                return replace(lost, stderr=f"{lost.stderr}{error} Its outcome is unknown.")
        finally:
            await asyncio.shield(self._remove(run.container))

    async def _read_output(self, run: _Run, seconds: float) -> str:
        """Start it and take in all that it says; returns why it did not start, or ""."""
        path = f"/containers/{run.container}"
        parameters = {"stream": "1", "stdout": "1", "stderr": "1"}
        frames = Frames(is_plain=False)
        async with self._engine.stream(
            "POST", f"{path}/attach", parameters=parameters, timeout_s=seconds + ANSWER_S
        ) as (_, chunks):
            started = await self._engine.ask("POST", f"{path}/start")
            if not started.ok:
                return started.message
            async for chunk in chunks:
                for number, piece in frames.feed(chunk):
                    run.kept[number].feed(piece)
                    if run.job.watch is not None:
                        run.job.watch(number, piece)
        return ""

    async def _remove(self, container: str) -> None:
        """End it and remove it; an engine that is gone has no containers that run."""
        with contextlib.suppress(EngineError):
            parameters = {"force": "true", "v": "true"}
            await self._engine.ask("DELETE", f"/containers/{container}", parameters=parameters)


def _host(limits: Limits, job: Job, binds: list[str]) -> dict[str, object]:
    """How the container is given to the machine: nothing of it, and little of everything."""
    size = limits.temporary_bytes
    each = {
        "core": 0,
        "fsize": limits.file_bytes,
        "nofile": limits.open_files,
        "cpu": limits.cpu_seconds(job),
    }
    return {
        "Binds": binds,
        "NetworkMode": "none",
        "Memory": limits.memory_bytes,
        "MemorySwap": limits.memory_bytes,
        "NanoCpus": 1_000_000_000,
        "PidsLimit": limits.processes,
        "ReadonlyRootfs": True,
        "Tmpfs": {"/tmp": f"rw,nosuid,nodev,size={size},nr_inodes=16k,mode=1777"},  # noqa: S108
        "ShmSize": size,
        "CapDrop": ["ALL"],
        "SecurityOpt": ["no-new-privileges"],
        "Privileged": False,
        "RestartPolicy": {"Name": "no"},
        "LogConfig": {"Type": "none", "Config": {}},
        "Ulimits": [{"Name": name, "Soft": most, "Hard": most} for name, most in each.items()],
    }


def _result(run: _Run, outcome: Outcome, code: int | None, *, used_up: bool = False) -> Result:
    stdout, stderr = (run.kept[number].kept_bytes().decode("utf-8", "replace") for number in (1, 2))
    if used_up:
        stderr += f"The script used up its {run.limits.memory_bytes // 1024**2} MB of memory.\n"
    result = Result(
        outcome,
        exit_code=code,
        stdout=stdout,
        stderr=stderr,
        truncated=any(each.truncated for each in run.kept.values()),
        duration_s=round(time.monotonic() - run.started, 4),
        category=category_of(exit_code=code, outcome=outcome, stderr=stderr),
        stdout_bytes=run.kept[1].seen,
        stderr_bytes=run.kept[2].seen,
    )
    data = {"sandbox": DockerBox.name, **network_told(result, run.egress.refused)}
    category = result.category
    if "error_category" in data and not result.ok:
        category = FailureCategory.NETWORK
    if used_up:
        data["used_up"] = "memory"
        category = FailureCategory.RESOURCE
    return replace(result, data=data, category=category)


def _name(job: Job) -> str:
    """The name of the container, derived from the job, so that it can be found again."""
    return f"operator-box-{hashlib.sha256(job.id.encode()).hexdigest()[:32]}"
