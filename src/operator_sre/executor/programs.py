"""Programs on this machine: started by the runner of this home, which outlives its operator."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from errno import ENOENT
from functools import lru_cache

from operator_protocols.domain.action import Left, Outcome, Result, Usage
from operator_protocols.domain.category import FailureCategory
from operator_protocols.errors import ExecutorError
from operator_protocols.ports import Job
from operator_sre.executor.categories import category_of
from operator_sre.executor.jobs import RunningJobs, Spool
from operator_sre.processes.identity import boot_time
from operator_sre.processes.run import CANNOT_RUN, NOT_FOUND
from operator_sre.processes.runner.client import RunnerClient
from operator_sre.processes.runner.line import Line
from operator_sre.processes.runner.output import KEPT_BYTES_MAX as OUTPUT_BYTES_MAX
from operator_sre.processes.runner.records import output_folder
from operator_sre.processes.runner.wire import Bounds, Done, Order

__all__ = ["OUTPUT_BYTES_MAX", "PreparedProgram", "Program", "Programs"]

GRACE_S = 2.0
LIMIT_S_MAX = 24 * 3600.0
TIMED_OUT = 124
UNKNOWN = (
    "The outcome is unknown: nothing observed how the command ended. Check its effect before you "
    "repeat it."
)
NEVER = "The command was interrupted before it started. Nothing ran."


@dataclass(frozen=True, slots=True)
class Program:
    """What is started: argv, never a shell of its own. `env` is all the environment it gets.

    `ends_left` ends what it leaves behind when it exits by itself; else that is only reported.
    `ends_alone` ends it when its operator is gone. `bounds` are what the kernel holds it to.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str = "/"
    stdin: bytes = field(default=b"", repr=False)
    grace_s: float = GRACE_S
    ends_left: bool = False
    ends_alone: bool = False
    bounds: Bounds | None = None


class Programs:
    """Runs programs, each once, under the name of its job."""

    def __init__(self, spool: Spool, running: RunningJobs | None = None) -> None:
        folder = running.folder if running is not None else spool.folder.parent / "runner"
        self._spool = spool
        self._folder = folder
        self._runner = RunnerClient(folder)

    def prepare(self, program: Program, job: Job) -> PreparedProgram | None:
        """Get ready for a program where that takes no time; nothing starts by this."""
        with contextlib.suppress(ValueError):
            order = _order_of(program, job)
            if (line := self._runner.prepare(order)) is not None:
                return PreparedProgram(self, order, line)
        return None

    async def get_ready(self) -> None:
        """Have the runner up before the first program is wanted; nothing starts by this."""
        await self._runner.get_ready()

    async def run(self, program: Program, job: Job) -> Result:
        """Run it within its limits; never raises for what it does. Cancelled, it ends it first."""
        try:
            order = _order_of(program, job)
        except ValueError as error:
            why = f"The command cannot be encoded for this machine: {error}."
            return Result(Outcome.RAN, CANNOT_RUN, stderr=why, category=FailureCategory.SYNTAX)
        return await self.run_order(order, job)

    async def run_order(self, order: Order, job: Job, prepared: Line | None = None) -> Result:
        """The same for an order, which may be prepared on a connection."""
        try:
            done = await self._runner.run(
                order, watch=job.watch, started=job.started, prepared=prepared
            )
        except ExecutorError as error:
            return Result(Outcome.REFUSED, stderr=str(error), category=FailureCategory.RESOURCE)
        return self._result(done, os.fsdecode(order.argv[-1]) if order.argv else "")

    async def recover(self, job: Job) -> Result:
        """What became of a job whose operator is gone; waits for it where it still runs."""
        try:
            answer = await self._runner.attach(job.id, watch=job.watch)
        except ExecutorError as error:
            return Result(Outcome.UNKNOWN, stderr=f"{error} {UNKNOWN}")
        if isinstance(answer, Done):
            return self._result(answer)
        if job.started_at is not None and job.started_at.timestamp() > max(
            answer.since, boot_time()
        ):
            return Result(Outcome.CANCELLED, stderr=NEVER)
        return Result(Outcome.UNKNOWN, stderr=UNKNOWN)

    async def dismiss(self) -> None:
        """Nothing more is to be started here for now."""
        await self._runner.dismiss()

    def _result(self, done: Done, command: str = "") -> Result:
        for stream, digest in ((1, done.stdout_sha256), (2, done.stderr_sha256)):
            if digest:
                self._spool.keep(output_folder(self._folder, done.id) / str(stream), digest)
        if done.refused:
            outcome = Outcome.REFUSED
        elif done.timed_out:
            outcome = Outcome.TIMED_OUT
        elif done.cancelled:
            outcome = Outcome.CANCELLED
        else:
            outcome = Outcome.UNKNOWN if done.exit_code is None and not done.errno else Outcome.RAN
        # As in a shell: 124 for a timeout, 128 plus the signal for a death by signal.
        code = done.exit_code
        if done.timed_out:
            code = TIMED_OUT
        elif done.errno:
            code = NOT_FOUND if done.errno == ENOENT else CANNOT_RUN
        elif code is not None and code < 0:
            code = 128 - code
        if outcome is Outcome.UNKNOWN:
            note = f"{done.error} {UNKNOWN}".strip()
        else:
            blocked = "".join(f"blocked: {call}\n" for call in done.blocked)
            note = f"{done.error}\n{blocked}" if done.error else blocked
        stderr = done.stderr.decode("utf-8", "replace") + note
        category = category_of(
            exit_code=code,
            outcome=outcome,
            stderr=stderr,
            start_errno=done.errno,
            command=command,
        )
        return Result(
            outcome=outcome,
            exit_code=code,
            stdout=done.stdout.decode("utf-8", "replace"),
            stderr=stderr,
            truncated=done.truncated,
            duration_s=round(done.duration_s, 4),
            category=category,
            stdout_sha256=done.stdout_sha256,
            stderr_sha256=done.stderr_sha256,
            stdout_bytes=done.stdout_bytes,
            stderr_bytes=done.stderr_bytes,
            process=done.process,
            usage=Usage(done.user_s, done.system_s, done.memory_bytes) if done.process else None,
            blocked=done.blocked,
            left=tuple(Left(each.process, each.name, each.ended) for each in done.left),
        )


@dataclass(frozen=True, slots=True)
class PreparedProgram:
    """A program that the runner is ready to start, once."""

    programs: Programs
    order: Order
    line: Line

    async def run(self, job: Job) -> Result:
        """Start it and wait for its end, as `Programs.run` does."""
        return await self.programs.run_order(self.order, job, self.line)

    def drop(self) -> None:
        """It is not to start."""
        self.line.close()


def _order_of(program: Program, job: Job) -> Order:
    """ValueError when it has text that this machine cannot encode."""
    return Order(
        id=job.id or secrets.token_hex(16),
        argv=tuple(map(os.fsencode, program.argv)),
        env=_encode(tuple(program.env.items())),
        cwd=os.fsencode(program.cwd),
        timeout_s=min(job.timeout_s, LIMIT_S_MAX),
        grace_s=program.grace_s,
        stdin=program.stdin,
        ends_left=program.ends_left,
        ends_alone=program.ends_alone,
        follows=job.watch is not None,
        bounds=program.bounds,
    )


@lru_cache(maxsize=8)
def _encode(pairs: tuple[tuple[str, str], ...]) -> tuple[bytes, ...]:
    """Most commands have the same environment."""
    return tuple(os.fsencode(f"{name}={value}") for name, value in pairs)
