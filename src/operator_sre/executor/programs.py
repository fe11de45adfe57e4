"""Programs on this machine: started, bounded, spooled and ended, for whatever acts here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from operator_protocols.domain.action import Outcome, Result
from operator_protocols.domain.category import FailureCategory
from operator_protocols.ports import Job
from operator_sre.executor.running import Noted, Running
from operator_sre.executor.spool import Spool
from operator_sre.processes.run import Finished, run

__all__ = ["OUTPUT_BYTES_MAX", "Program", "Programs"]

OUTPUT_BYTES_MAX = 64 * 1024
GRACE_S = 2.0
_BY_EXIT = {
    2: FailureCategory.SYNTAX,
    124: FailureCategory.TIMEOUT,
    126: FailureCategory.PERMISSION,
    127: FailureCategory.NOT_FOUND,
    137: FailureCategory.RESOURCE,
}


@dataclass(frozen=True, slots=True)
class Program:
    """What is started: argv, never a shell of its own. `env` is all the environment it gets.

    `ends_left` ends what it leaves behind when it exits by itself; else that is only reported.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str = "/"
    stdin: bytes = field(default=b"", repr=False)
    grace_s: float = GRACE_S
    ends_left: bool = False


class Programs:
    """Runs programs, each under the name of its job."""

    def __init__(self, spool: Spool, running: Running | None = None) -> None:
        self._spool = spool
        self._running = running

    async def run(self, program: Program, job: Job) -> Result:
        """Run it within its limits; never raises for what it does. Cancelled, it ends it first."""
        spooled = self._spool.begin()
        noted = Noted(self._running)
        try:
            finished = await run(
                program.argv,
                cwd=program.cwd,
                env=program.env,
                timeout_s=job.timeout_s,
                grace_s=program.grace_s,
                output_bytes_max=OUTPUT_BYTES_MAX,
                stdin=program.stdin,
                watch=spooled.feed,
                started=noted.begin,
            )
        finally:
            noted.end()
            hashes = spooled.end()
        return _result(finished, hashes)

    async def recover(self, job: Job) -> Result:
        """What became of a job whose operator is gone; waits for it where it still runs."""
        return Result(Outcome.UNKNOWN, stderr="Nobody knows what became of it.")


def _result(finished: Finished, hashes: Mapping[int, str]) -> Result:
    return Result(
        outcome=Outcome.TIMED_OUT if finished.timed_out else Outcome.RAN,
        exit_code=_exit_code(finished),
        stdout=finished.stdout.decode("utf-8", "replace"),
        stderr=finished.stderr.decode("utf-8", "replace"),
        truncated=finished.truncated,
        duration_s=round(finished.duration_s, 4),
        category=_category(finished),
        stdout_sha256=hashes.get(1, ""),
        stderr_sha256=hashes.get(2, ""),
    )


def _exit_code(finished: Finished) -> int:
    """As a shell tells it: 124 for a time-out, 128 and the signal for a death by one."""
    if finished.timed_out:
        return 124
    return finished.exit_code if finished.exit_code >= 0 else 128 - finished.exit_code


def _category(finished: Finished) -> FailureCategory | None:
    if finished.timed_out:
        return FailureCategory.TIMEOUT
    if finished.exit_code == 0:
        return None
    return _BY_EXIT.get(_exit_code(finished), FailureCategory.RUNTIME)
