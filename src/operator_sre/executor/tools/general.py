"""The tools that every subject has; those of this module touch nothing: wait, log a message."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from operator_protocols.domain.action import Argument, Outcome, Result
from operator_protocols.domain.observation import Value
from operator_protocols.domain.target import Target
from operator_protocols.domain.tool import Parameter, ParameterType, ToolSpec
from operator_protocols.domain.verdict import Risk
from operator_protocols.ports import Clock, Job, Tool
from operator_sre.executor.programs import Programs
from operator_sre.executor.tools.files import (
    ReadFile,
    RedactPart,
    RestoreFile,
    Rights,
    WriteFile,
)
from operator_sre.executor.tools.host import CheckPort, KillProcess, service_tools
from operator_sre.executor.tools.parameters import check_arguments
from operator_sre.executor.tools.replacement import Kept

__all__ = ["LogMessage", "Wait", "standard_tools"]

WAIT_S_MIN, WAIT_S_MAX = 1, 300
TEXT_CHARACTERS_MAX = 2000
LEVELS = {"info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
log = logging.getLogger(__name__)


class Wait:
    """Lets time pass, so that something can settle before the next check."""

    spec = ToolSpec(
        name="wait",
        sentence="Waits a number of seconds. Changes nothing.",
        parameters=(
            Parameter(
                "seconds",
                "the number of seconds to wait",
                ParameterType.NUMBER,
                minimum=WAIT_S_MIN,
                maximum=WAIT_S_MAX,
            ),
        ),
        risk=Risk.LOW,
        changes=False,
        idempotent=True,
        expected="The time has passed.",
        timeout_s=WAIT_S_MAX + 10.0,
    )

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    async def call(self, arguments: Mapping[str, Argument], job: Job) -> Result:
        """Wait; the executor ends it when it is cancelled."""
        given = check_arguments(self.spec, arguments)
        if isinstance(given, Result):
            return given
        seconds, started = given.number("seconds"), time.monotonic()
        await self._clock.sleep(seconds)
        return Result(
            Outcome.RAN,
            exit_code=0,
            stdout=f"Waited {seconds:g} s.",
            duration_s=round(time.monotonic() - started, 4),
            data={"seconds": seconds},
        )


class LogMessage:
    """Leaves a word for people: in the ledger as its result, and in the log of this process."""

    spec = ToolSpec(
        name="log_message",
        sentence="Writes a message to the ledger and the log. Changes nothing else.",
        parameters=(
            Parameter("text", "the message", minimum=1, maximum=TEXT_CHARACTERS_MAX),
            Parameter(
                "level",
                "how much it matters",
                required=False,
                default="info",
                choices=tuple(LEVELS),
            ),
        ),
        risk=Risk.LOW,
        changes=False,
        expected="The message is in the ledger.",
        verify="operator history list shows it.",
    )

    async def call(self, arguments: Mapping[str, Argument], job: Job) -> Result:
        """Write it down."""
        given = check_arguments(self.spec, arguments)
        if isinstance(given, Result):
            return given
        text, level = given.text("text"), given.text("level")
        log.log(LEVELS[level], "message: %s", " ".join(text.split()))
        data: dict[str, Value] = {"characters": len(text), "level": level}
        return Result(Outcome.RAN, exit_code=0, stdout=text, data=data)


def standard_tools(
    *,
    programs: Programs,
    clock: Clock,
    targets: Callable[[], Sequence[Target]],
    manages: Callable[[str], bool],
    rights: Rights,
    redact: RedactPart,
    home: Path,
    systemctl: str = "systemctl",
) -> tuple[Tool, ...]:
    """All of them. What is in `home` is the operator's own, which no tool writes.

    The files of rigs lie there too: their passwords would open the servers of a rig to any program.
    """
    own = f"{os.path.realpath(home)}/"

    def readable(path: str) -> bool:
        logs = {os.path.realpath(target.log) for target in targets() if target.log}
        return not (real := os.path.realpath(path)).startswith(own) or real in logs

    limited = Rights(
        writable=lambda path: not path.startswith(own) and rights.writable(path),
        secret=lambda path: path.startswith(own) or rights.secret(path),
    )
    kept = Kept(home / "replaced")
    return (
        CheckPort(targets),
        *service_tools(programs, manages, systemctl=systemctl),
        KillProcess(),
        ReadFile(redact, readable),
        WriteFile(limited, kept),
        RestoreFile(limited, kept),
        Wait(clock),
        LogMessage(),
    )
