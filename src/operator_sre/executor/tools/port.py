"""Does a target's port answer?"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence

from operator_protocols.domain.action import Argument, Outcome, Result
from operator_protocols.domain.category import FailureCategory
from operator_protocols.domain.target import Target
from operator_protocols.domain.tool import Parameter, ToolSpec
from operator_protocols.domain.verdict import Risk
from operator_protocols.ports import Job

__all__ = ["CheckPort"]

# Neither a valid HTTP request nor a valid command of a store: a live service complains.
KNOCK = b"PING / HTTP/1.0\r\n\r\n"
WAIT_S = 1.5


class CheckPort:
    """Connects to a target, says something, and waits for any answer."""

    spec = ToolSpec(
        name="check_port",
        sentence="Connects to the port of a target and waits for any answer.",
        parameters=(Parameter("target", "the target's name", infers="target"),),
        risk=Risk.LOW,
        changes=False,
        idempotent=True,
    )

    def __init__(self, targets: Callable[[], Sequence[Target]]) -> None:
        self._targets = targets

    async def call(self, arguments: Mapping[str, Argument], job: Job) -> Result:
        """`port` in the data is answers, silent, refused or unknown."""
        name = arguments.get("target")
        target = next((each for each in self._targets() if each.name == name), None)
        if target is None or target.port is None:
            return Result(
                Outcome.RAN,
                exit_code=1,
                stderr=f"There is no target {name!r} with a port.",
                category=FailureCategory.NOT_FOUND,
            )
        started = time.monotonic()
        state = await _knock(target.host, target.port)
        return Result(
            Outcome.RAN,
            exit_code=0,
            stdout=f"{target.host}:{target.port} {_SENTENCES[state]}",
            duration_s=round(time.monotonic() - started, 4),
            data={"port": state},
        )


_SENTENCES = {
    "answers": "accepts connections and answers",
    "silent": f"accepts connections but sends nothing for {WAIT_S:g} s",
    "refused": "refuses connections",
    "closed": "accepts connections and closes them without an answer",
}


async def _knock(host: str, port: int) -> str:
    try:
        async with asyncio.timeout(WAIT_S):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                writer.write(KNOCK)
                await writer.drain()
                return "answers" if await reader.read(1) else "closed"
            finally:
                writer.close()
    except TimeoutError:
        return "silent"
    except ConnectionResetError:
        return "closed"
    except OSError:
        return "refused"
