"""What every mind can do that touches nothing: wait, and leave a word in the ledger."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping

from operator_protocols.domain.action import Argument, Outcome, Result
from operator_protocols.domain.tool import Parameter, ParameterType, ToolSpec
from operator_protocols.domain.verdict import Risk
from operator_protocols.ports import Clock, Job
from operator_sre.executor.tools.parameters import check_arguments

__all__ = ["LogMessage", "Wait"]

WAIT_S_MIN, WAIT_S_MAX = 1, 300
TEXT_CHARACTERS_MAX = 2000
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
        parameters=(Parameter("text", "the message", minimum=1, maximum=TEXT_CHARACTERS_MAX),),
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
        text = given.text("text")
        log.info("message: %s", " ".join(text.split()))
        return Result(Outcome.RAN, exit_code=0, stdout=text, data={"characters": len(text)})
