"""Commands on this machine, in a controlled environment."""

from __future__ import annotations

from operator_protocols.domain.action import Action, Outcome, Result
from operator_protocols.domain.category import FailureCategory
from operator_sre.processes.run import Finished, run

__all__ = ["LocalShell"]

OUTPUT_BYTES_MAX = 64 * 1024
# No variable of the operator reaches a command, so none of its secrets can.
ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/nonexistent",
    "LANG": "C.UTF-8",
    "PAGER": "cat",
    "TERM": "dumb",
}
_BY_EXIT = {
    2: FailureCategory.SYNTAX,
    124: FailureCategory.TIMEOUT,
    126: FailureCategory.PERMISSION,
    127: FailureCategory.NOT_FOUND,
    137: FailureCategory.RESOURCE,
}


class LocalShell:
    """Runs one command line with /bin/sh, bounded in time and output."""

    async def run(self, action: Action) -> Result:
        """Run it within its limits; never raises for what the command does."""
        finished = await run(
            ["/bin/sh", "-c", action.command],
            cwd=action.cwd,
            env=ENVIRONMENT,
            timeout_s=action.timeout_s,
            output_bytes_max=OUTPUT_BYTES_MAX,
        )
        return Result(
            outcome=Outcome.TIMED_OUT if finished.timed_out else Outcome.RAN,
            exit_code=124 if finished.timed_out else finished.exit_code,
            stdout=finished.stdout.decode("utf-8", "replace"),
            stderr=finished.stderr.decode("utf-8", "replace"),
            truncated=_truncated(finished),
            duration_s=round(finished.duration_s, 4),
            category=_category(finished),
        )


def _truncated(finished: Finished) -> bool:
    return finished.stdout_bytes > OUTPUT_BYTES_MAX or finished.stderr_bytes > OUTPUT_BYTES_MAX


def _category(finished: Finished) -> FailureCategory | None:
    if finished.timed_out:
        return FailureCategory.TIMEOUT
    if finished.exit_code == 0:
        return None
    return _BY_EXIT.get(finished.exit_code, FailureCategory.RUNTIME)
