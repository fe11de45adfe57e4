"""Commands on this machine, in a controlled environment."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from operator_protocols.domain.action import Action, Outcome, Result
from operator_protocols.domain.category import FailureCategory
from operator_protocols.errors import OperatorError
from operator_protocols.ports import Job
from operator_sre.enforcement import why_not_confined
from operator_sre.executor.box import TEMPORARY, box_words
from operator_sre.executor.hidden import Hidden, bounds_of
from operator_sre.executor.programs import PreparedProgram, Program, Programs
from operator_sre.executor.transports import git
from operator_sre.venv import not_ours, shadowed_by, with_venv

__all__ = ["ENVIRONMENT", "SHELL", "Gives", "LocalShell", "given_nothing"]

# People and agents write bash; without it, commands that need bash fail.
SHELL = next((path for path in ("/bin/bash", "/usr/bin/bash") if Path(path).exists()), "/bin/sh")
# No variable of the operator reaches a command, so none of its secrets can; and no settings
# file of a program makes a read-only command run another one.
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
    "GOTOOLCHAIN": "local",
    "HGRCSKIPREPO": "1",
    **git.ENVIRONMENT,
}


# Variables by which a client finds its server.
_SERVERS = (
    "DOCKER_HOST",
    "ETCDCTL_ENDPOINTS",
    "KUBECONFIG",
    "MYSQL_HOST",
    "PGHOST",
    "REDISCLI_HOST",
)


def given_nothing(action: Action) -> Mapping[str, str]:
    """No variables are bound to the command."""
    return {}


Gives = Callable[[Action], Mapping[str, str]]


class LocalShell:
    """Runs one command line with a shell, or one program without, on this machine.

    `gives` tells the variables that a person has bound to a command, `hidden` the files that no
    confined command may read.
    """

    def __init__(
        self,
        programs: Programs,
        gives: Gives = given_nothing,
        hidden: Hidden | None = None,
    ) -> None:
        self._programs = programs
        self._gives = gives
        self._hidden = hidden or Hidden((), tuple)

    def prepare(self, action: Action, job: Job) -> PreparedProgram | None:
        """Get ready for a confined command, unless it is given secrets: they wait for its start."""
        with contextlib.suppress(OperatorError, OSError, ValueError):  # `run` says why
            if job.confinement is None or (given := self._find_variables(action, job)):
                return None
            program = self._program_of(action, job, given)
            if isinstance(program, Program) and program.bounds is not None:
                return self._programs.prepare(program, job)
        return None

    async def run(self, action: Action, job: Job) -> Result:
        """Run it within its limits; never raises for what the command does."""
        try:
            given = self._find_variables(action, job)
        except OperatorError as error:  # a secret that it should be given cannot be had
            why = str(error)
            return Result(Outcome.REFUSED, stderr=why, category=FailureCategory.PERMISSION)
        program = self._program_of(action, job, given)
        return program if isinstance(program, Result) else await self._programs.run(program, job)

    def _find_variables(self, action: Action, job: Job) -> Mapping[str, str]:
        """The variables of a command; none in the boundary of a rig, where it runs unapproved."""
        is_free = job.confinement is not None and bool(job.confinement.inside)
        return {} if is_free else self._gives(action)

    def _program_of(self, action: Action, job: Job, given: Mapping[str, str]) -> Program | Result:
        """What is started, or why nothing is."""
        if action.venv and (
            why := (shadowed_by(action.venv, ENVIRONMENT["PATH"]) or not_ours(action.venv))
        ):
            return Result(Outcome.REFUSED, stderr=why, category=FailureCategory.PERMISSION)
        env = with_venv(ENVIRONMENT, action.venv) if action.venv else dict(ENVIRONMENT)
        env |= {name: os.environ[name] for name in action.passes if name in os.environ}
        env |= given
        argv = action.argv or (SHELL, "-c", git.shell_line(action.command))
        bounds = None
        if job.confinement is not None:
            bounds = bounds_of(job.confinement, self._hidden)
            if any(name in env for name in _SERVERS):  # its own settings say whom it reaches
                bounds = msgspec.structs.replace(bounds, hosts=None)
        only_reads = bounds is not None and bounds.writable == ()
        if bounds is not None and bounds.writable is not None and why_not_confined():
            argv, bounds = (*box_words(bounds, action.cwd), *argv), None
            env["TMPDIR"] = TEMPORARY
        return Program(argv, env, cwd=action.cwd, ends_left=only_reads, bounds=bounds)

    async def recover(self, action: Action, job: Job) -> Result:
        """What became of a job whose operator is gone."""
        return await self._programs.recover(job)
