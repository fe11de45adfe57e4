"""The client of a runner: finds or starts it, and waits for the end of a job."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from operator_protocols.domain.target import Process
from operator_protocols.errors import ExecutorError
from operator_sre.processes.files import last_line
from operator_sre.processes.runner.launcher import launch
from operator_sre.processes.runner.line import Line, dial
from operator_sre.processes.runner.output import Follower
from operator_sre.processes.runner.places import LOG
from operator_sre.processes.runner.records import output_folder
from operator_sre.processes.runner.wire import (
    Attach,
    Begin,
    Done,
    End,
    Leave,
    More,
    Order,
    Prepare,
    Started,
    Unknown,
)

__all__ = ["RunnerClient"]

LEAVE_S_MAX = 2.0
LATE_S_MAX = 60.0
TRIES_MAX = 3
Watch = Callable[[int, bytes], None]


class RunnerClient:
    """Speaks to the runner of one folder, over a connection for each job that is under way."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._spare: list[Line] = []

    def prepare(self, order: Order) -> Line | None:
        """Let a runner that is there get ready for a job; the connection on which `run` starts it.

        Nothing starts by this, and closing the connection drops what was prepared.
        """
        line = self._spare.pop() if self._spare else None
        if line is not None and not line.offer(Prepare(order)):
            if line.close.alive:
                self._spare.append(line)
            return None
        return line

    async def get_ready(self) -> None:
        """Have a runner up, so that the first job does not wait until one has started."""
        if not self._spare:
            with contextlib.suppress(ExecutorError):  # the job that needs it says why
                (await self._connect()).close()

    async def run(
        self,
        order: Order,
        *,
        watch: Watch | None = None,
        started: Callable[[Process], None] | None = None,
        prepared: Line | None = None,
    ) -> Done:
        """Run a job and wait for its end. A job that was started before is only waited for.

        Cancelled, it has the job ended and waits for that. ExecutorError when nothing began.
        """
        if watch is not None and not order.follows:
            order = msgspec.structs.replace(order, follows=True)
        answer = await self._answer(order, watch, started, prepared)
        if isinstance(answer, Unknown):
            raise ExecutorError(f"Job {order.id[:12]} can no longer start.")
        return answer

    async def attach(self, job: str, *, watch: Watch | None = None) -> Done | Unknown:
        """Wait for the end of a job of another client; a job that never started never can."""
        return await self._answer(Attach(job, follows=watch is not None), watch, None)

    async def dismiss(self) -> None:
        """Let a runner go that is there, and wait for that if nothing of it runs."""
        self._spare.clear()
        with contextlib.suppress(OSError, TimeoutError):
            line = dial(self._folder)
            await line.send(Leave())
            async with asyncio.timeout(LEAVE_S_MAX):
                await line.end()

    async def _answer(
        self,
        request: Order | Attach,
        watch: Watch | None,
        started: Callable[[Process], None] | None,
        prepared: Line | None = None,
    ) -> Done | Unknown:
        follower = None
        if watch is not None:
            follower = Follower(output_folder(self._folder, request.id), watch)
        for tried in range(TRIES_MAX):
            try:
                # How long an answer may take that is sure to come.
                if isinstance(request, Attach):
                    patience_s = None
                else:
                    patience_s = request.timeout_s + request.grace_s + LATE_S_MAX
                async with asyncio.timeout(patience_s), self._line(prepared) as line:
                    first = request if prepared is None else Begin(request.id)
                    prepared = None
                    answer = await _wait(line, first, follower, started)
            except TimeoutError:
                return Done(request.id, None, error="The runner does not answer.")
            except ConnectionError:
                # It died. The next runner knows the started jobs, and starts none twice.
                continue
            except ExecutorError as error:
                if not tried:
                    raise
                return Done(request.id, None, error=str(error))
            if follower is not None and isinstance(answer, Done):
                await _passed_on(follower, last=True)
            return answer
        return Done(request.id, None, error=f"The runner keeps crashing. {self._look()}")

    @asynccontextmanager
    async def _line(self, line: Line | None) -> AsyncIterator[Line]:
        """A connection for one job; whatever goes wrong, it is not used for another."""
        if line is None:
            line = self._spare.pop() if self._spare else await self._connect()
        try:
            yield line
        except BaseException:
            line.close()
            raise
        self._spare.append(line)

    async def _connect(self) -> Line:
        for _ in range(TRIES_MAX):
            with contextlib.suppress(OSError):
                return dial(self._folder)
            try:
                await asyncio.to_thread(launch, self._folder)
            except (OSError, subprocess.SubprocessError) as problem:
                raise ExecutorError(f"The runner cannot be started: {problem}.") from problem
        raise ExecutorError("The runner does not start.", next_step=self._look())

    def _look(self) -> str:
        line = last_line(self._folder / LOG)
        return (
            f"Its last log line: {line}" if line else f"Check its log {str(self._folder / LOG)!r}."
        )


async def _wait(
    line: Line,
    request: Order | Begin | Attach,
    follower: Follower | None,
    started: Callable[[Process], None] | None,
) -> Done | Unknown:
    await line.send(request)
    try:
        while True:
            match event := await line.next():
                case Started() if started is not None:
                    started(event.process)
                case More() if follower is not None:
                    await _passed_on(follower)
                case Done() | Unknown():
                    return event
    except asyncio.CancelledError:
        if not isinstance(request, Attach):  # attaching alone does not stop the job
            # Have a job ended, and wait until it is, so that nothing of it runs on behind our back.
            with contextlib.suppress(ConnectionError, TimeoutError):
                await line.send(End(request.id))
                while not isinstance(await line.next(), Done | Unknown):
                    pass
        raise


async def _passed_on(follower: Follower, *, last: bool = False) -> None:
    """A slow reader must not block the loop."""
    for _ in follower.advance(last=last):
        await asyncio.sleep(0)
