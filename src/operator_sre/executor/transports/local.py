"""Commands on this machine, in a controlled environment."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from operator_protocols.domain.action import Action, Outcome, Result
from operator_protocols.domain.category import FailureCategory
from operator_sre.executor.running import Noted, Running
from operator_sre.executor.spool import Spool, Spooled
from operator_sre.executor.venv import shadowed_by, with_venv
from operator_sre.processes.run import Finished, run

__all__ = ["ENVIRONMENT", "OUTPUT_BYTES_MAX", "SHELL", "LocalShell"]

OUTPUT_BYTES_MAX = 64 * 1024
# What people and minds write is bash; without it, what only bash understands fails.
SHELL = next((path for path in ("/bin/bash", "/usr/bin/bash") if Path(path).exists()), "/bin/sh")
# A repository's own diff.external would be run, and git takes no empty one for none.
_DIFF = 'f() { diff -u --label "a/$1" --label "b/$1" -- "$2" "$5"; [ $? -le 1 ]; }; f'
# What counts over the configuration of a repository, which whoever wrote it may have run code by.
_GIT = {
    "core.fsmonitor": "false",
    "core.hooksPath": "/dev/null",
    "core.pager": "cat",
    "diff.external": _DIFF,
    "gpg.program": "/bin/false",
    "protocol.allow": "never",
}
# No variable of the operator reaches a command, so none of its secrets can; and no file that
# programs read by themselves makes one that only looks run something else.
ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/nonexistent",
    "LANG": "C.UTF-8",
    "PAGER": "cat",
    "TERM": "dumb",
    "NO_COLOR": "1",
    "LESSOPEN": "",
    "PSQLRC": "/dev/null",
    "HGRCPATH": "/dev/null",
    "SYSTEMD_COLORS": "0",
    "SYSTEMD_PAGER": "cat",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_CONFIG_COUNT": str(len(_GIT)),
    **{f"GIT_CONFIG_KEY_{place}": name for place, name in enumerate(_GIT)},
    **{f"GIT_CONFIG_VALUE_{place}": value for place, value in enumerate(_GIT.values())},
}
_BY_EXIT = {
    2: FailureCategory.SYNTAX,
    124: FailureCategory.TIMEOUT,
    126: FailureCategory.PERMISSION,
    127: FailureCategory.NOT_FOUND,
    137: FailureCategory.RESOURCE,
}


class LocalShell:
    """Runs one command line with a shell, bounded in time and output; all of it is spooled.

    What runs is noted in `running`, so that another process can end it.
    """

    def __init__(self, spool: Spool, running: Running | None = None) -> None:
        self._spool = spool
        self._running = running

    async def run(self, action: Action) -> Result:
        """Run it within its limits; never raises for what the command does."""
        if action.venv and (why := shadowed_by(action.venv, ENVIRONMENT["PATH"])):
            return Result(
                Outcome.RAN, exit_code=126, stderr=why, category=FailureCategory.PERMISSION
            )
        spooled = self._spool.begin()
        noted = Noted(self._running)
        try:
            finished = await self._run(action, spooled, noted)
        finally:
            noted.end()
            hashes = spooled.end()
        return _result(finished, hashes)

    async def _run(self, action: Action, spooled: Spooled, noted: Noted) -> Finished:
        venv = action.venv
        return await run(
            [SHELL, "-c", action.command],
            cwd=action.cwd,
            env=with_venv(ENVIRONMENT, venv) if venv else ENVIRONMENT,
            timeout_s=action.timeout_s,
            output_bytes_max=OUTPUT_BYTES_MAX,
            watch=spooled.feed,
            started=noted.begin,
        )


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
