"""Commands somewhere else: at most once, within their limits, and found again after a loss."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from operator_protocols.domain.action import Action, Outcome, Result
from operator_protocols.domain.category import FailureCategory
from operator_protocols.domain.observation import Value
from operator_protocols.errors import OperatorError
from operator_protocols.ports import Job
from operator_sre.executor.categories import category_of
from operator_sre.executor.jobs import Spool
from operator_sre.executor.transports.git import shell_line
from operator_sre.executor.transports.local import ENVIRONMENT, Gives, given_nothing
from operator_sre.executor.transports.script import (
    GRACE_S,
    Called,
    Ear,
    Hear,
    Order,
    Told,
    Wire,
    new_token,
    script_of,
)
from operator_sre.processes.runner.output import Output

__all__ = ["RemoteShell"]

# How long a place may take to start and to answer, beyond what the command itself may take.
ANSWER_S_MAX = 15.0
# How often what came live and what was kept may not meet before we give up.
CALLS_MAX = 4
# Output that is larger is removed there as soon as it is here.
SWEPT_BYTES_MIN = 1024 * 1024
CANNOT_RUN, TIMED_OUT = 126, 124
LEFT_CHARS_MAX = 500
KEPT_S = 24 * 3600.0

log = logging.getLogger(__name__)


class RemoteShell:
    """Runs commands at the other end of a wire, in the controlled environment.

    `remembers` says that what is written there stays as long as the machine is up, so that no
    trace of a job means that it never started. `gives` tells the variables that a person has bound
    to a command there: they are in the script that is read from a pipe, and in no list of
    processes.
    """

    def __init__(
        self,
        wire: Wire,
        name: str,
        spool: Spool,
        *,
        remembers: bool = False,
        gives: Gives = given_nothing,
    ) -> None:
        self._wire = wire
        self._name = name
        self._spool = spool
        self._remembers = remembers
        self._gives = gives
        self._ending: set[asyncio.Task[None]] = set()

    async def run(self, action: Action, job: Job) -> Result:
        """Run it within its limits; never raises for what the command does."""
        if why := _why_not(action):
            return Result(
                Outcome.RAN,
                exit_code=CANNOT_RUN,
                stderr=f"{why}\n",
                category=FailureCategory.PERMISSION,
            )
        reached = await self._wire.reach()
        if reached.trouble:
            return Result(Outcome.REFUSED, stderr=reached.trouble, category=reached.category)
        job = job if job.id else replace(job, id=uuid.uuid4().hex)
        try:
            given = self._gives(action)
        except OperatorError as error:  # a secret that it should be given cannot be had
            why = str(error)
            return Result(Outcome.REFUSED, stderr=why, category=FailureCategory.PERMISSION)
        order = _order("run", action, job)
        order = replace(order, environment={**order.environment, **given})
        try:
            return await self._carry(order, job)
        except asyncio.CancelledError:
            # Stop it there, or prevent its start; this continues even if the caller is gone.

            async def stop() -> None:
                stopping = replace(order, mode="stop", argv=(), command="", timeout_s=0.0)
                stopping = replace(stopping, environment=ENVIRONMENT)
                called = await self._call(stopping, _Heard())
                if called.trouble:
                    log.warning("cannot end a command at %s: %s", self._name, called.trouble)

            task = asyncio.ensure_future(stop())
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)
            await asyncio.shield(task)
            raise

    async def recover(self, action: Action, job: Job) -> Result:
        """What became of a job; waits for it where it still runs, and starts nothing."""
        if not job.id:
            return Result(Outcome.UNKNOWN, stderr="The command cannot be found without its job id.")
        return await self._carry(_order("recover", action, job), job)

    async def identify(self) -> str:
        """What a permit is bound to."""
        return await self._wire.identify()

    async def aclose(self) -> None:
        """Wait for what is being ended, then let go of the place."""
        if self._ending:
            await asyncio.gather(*self._ending, return_exceptions=True)
        await self._wire.aclose()

    async def _carry(self, order: Order, job: Job) -> Result:
        started = time.monotonic()
        parent = self._spool.folder.parent / "remote"
        parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Remove what an operator that was killed left behind.
        oldest = time.time() - KEPT_S
        for path in parent.iterdir():
            with contextlib.suppress(FileNotFoundError):  # another process tidies up as well
                if path.stat().st_mtime < oldest:
                    shutil.rmtree(path, ignore_errors=True)
        with tempfile.TemporaryDirectory(dir=parent) as folder:
            output = Output(Path(folder))
            try:
                heard = _Heard(output, job.watch)
                # Call until all of the output is here.
                for _ in range(CALLS_MAX):
                    called = await self._call(order, heard)
                    ears = heard.ears
                    if called.trouble or not any(ear.has_gap for ear in ears):
                        break
                    start = (ears[0].position, ears[1].position)
                    # What looks for it again needs nothing that it was given.
                    order = replace(order, mode="recover", environment=ENVIRONMENT, start=start)
                if not called.trouble and heard.bytes_kept > SWEPT_BYTES_MIN:
                    await self._call(
                        replace(order, mode="sweep", environment=ENVIRONMENT), _Heard()
                    )
            finally:
                output.close()
            report, told_err = (ear.told for ear in heard.ears)
            if not called.sent:
                # After a gap the order is to recover: the first call has run the command.
                outcome = Outcome.REFUSED if order.mode == "run" else Outcome.UNKNOWN
                result = Result(outcome, stderr=called.trouble, category=called.category)
            elif report is None or told_err is None or not report.words or called.trouble:
                why = called.trouble or f"{self._name} sent an answer that is not a valid report."
                # It may still run: only a later look can tell.
                result = heard.result(
                    Outcome.UNKNOWN,
                    None,
                    f"{why} Its outcome is unknown until it is recovered.",
                )
            else:
                result = self._result_of(order, job, heard, report)
            if not result.duration_s:
                result = replace(result, duration_s=round(time.monotonic() - started, 4))
            # The whole output goes into the spool, named by its hash.
            kept_in = Path(folder)
            for number, stream in output.streams.items():
                if stream.sha256:
                    self._spool.keep(kept_in / str(number), stream.sha256)
            hashes = (output.streams[1].sha256, output.streams[2].sha256)
            return replace(result, stdout_sha256=hashes[0], stderr_sha256=hashes[1])

    async def _call(self, order: Order, heard: _Heard) -> Called:
        token = new_token()
        hear = heard.listen(token, order.start)
        return await self._wire.call(
            script_of(order, token), hear, within_s=order.timeout_s + GRACE_S + ANSWER_S_MAX
        )

    def _result_of(self, order: Order, job: Job, heard: _Heard, report: Told) -> Result:
        state, *words = report.words
        name = self._name
        match state:
            case "ran" if words and words[0].isdigit():
                return heard.result(Outcome.RAN, int(words[0]), "", words, order.command)
            case "timed_out":
                return heard.result(Outcome.TIMED_OUT, TIMED_OUT, "", words)
            case "cancelled":
                return heard.result(Outcome.CANCELLED, None, "", words)
            case "never":
                return Result(
                    Outcome.CANCELLED,
                    stderr=f"The command did not start at {name}, and cannot start there any more.",
                )
            case "untraced" if self._remembers and _is_younger(job.started_at, words):
                return Result(
                    Outcome.CANCELLED,
                    stderr=f"The command did not start at {name}, and cannot start there any more.",
                )
            case "untraced":
                why = (
                    f"There is no record of the command at {name}. It cannot start there any more."
                )
                return Result(Outcome.UNKNOWN, stderr=why)
            case "nowhere":
                # Only a first call has certainly run nothing.
                outcome = Outcome.REFUSED if order.mode == "run" else Outcome.UNKNOWN
                why = f"There is no folder at {name} to record a command in."
                return Result(outcome, stderr=why, category=FailureCategory.RESOURCE)
            case _:
                why = (
                    f"The process that supervised the command at {name} was killed, so its "
                    "outcome is unknown."
                )
                return heard.result(Outcome.UNKNOWN, None, why, words)


class _Heard:
    """Both streams of a job, over all calls that it took; without an output nothing is kept."""

    def __init__(self, output: Output | None = None, watch: Hear | None = None) -> None:
        self._output = output
        self._watch = watch
        self.ears: tuple[Ear, ...] = ()

    def listen(self, token: str, start: tuple[int, int]) -> Hear:
        """What takes the streams of the next call apart."""
        self.ears = tuple(Ear(stream, token, start[stream - 1], self._pass_on) for stream in (1, 2))
        return lambda stream, data: self.ears[stream - 1].feed(data)

    @property
    def bytes_kept(self) -> int:
        """How much lies there because of it."""
        return sum(ear.told.size for ear in self.ears if ear.told is not None)

    def result(
        self,
        outcome: Outcome,
        exit_code: int | None,
        why: str = "",
        words: Sequence[str] = (),
        command: str = "",
    ) -> Result:
        """What was heard as a Result; `words` are the exit code, begin, end and what was left."""
        if self._output is None:
            return Result(outcome, exit_code, stderr=why)
        out, err = (self._output.streams[stream].capture for stream in (1, 2))
        sizes = [self._size(stream) for stream in (1, 2)]
        truncated = out.seen < sizes[0] or err.seen < sizes[1] or out.truncated or err.truncated
        out.seen, err.seen = max(out.seen, sizes[0]), max(err.seen, sizes[1])
        text = err.kept_bytes().decode("utf-8", "replace")
        stderr = f"{text.rstrip()}\n{why}".lstrip() if why else text
        left = " ".join(words[3:])[:LEFT_CHARS_MAX]
        data: dict[str, Value] = {"left": left} if left else {}
        return Result(
            outcome=outcome,
            exit_code=exit_code,
            stdout=out.kept_bytes().decode("utf-8", "replace"),
            stderr=stderr,
            truncated=truncated,
            duration_s=_duration_s(words),
            category=category_of(
                exit_code=exit_code, outcome=outcome, stderr=stderr, command=command
            ),
            data=data,
            stdout_bytes=sizes[0],
            stderr_bytes=sizes[1],
        )

    def _size(self, stream: int) -> int:
        """The size of the whole output, including bytes that were not kept."""
        ear = self.ears[stream - 1]
        return ear.told.size + ear.told.more if ear.told is not None else ear.position

    def _pass_on(self, stream: int, data: bytes) -> None:
        if self._output is not None:
            self._output.feed(stream, data)
        if self._watch is not None:
            self._watch(stream, data)


def _order(mode: str, action: Action, job: Job) -> Order:
    environment = {
        **ENVIRONMENT,
        **{name: os.environ[name] for name in action.passes if name in os.environ},
    }
    return Order(
        mode=mode,
        job=job.id,
        environment=environment,
        argv=action.argv,
        command=shell_line(action.command),
        cwd=action.cwd,
        timeout_s=job.timeout_s,
    )


def _why_not(action: Action) -> str:
    """Why it cannot even be sent; nothing when it can."""
    if action.venv:
        return "Virtual environments work only on this machine."
    if not action.cwd.startswith("/"):
        return f"The folder {action.cwd!r} is not absolute."
    texts = (
        action.command,
        action.cwd,
        *action.argv,
        *(os.environ.get(n, "") for n in action.passes),
    )
    if any("\0" in text for text in texts):
        return "A command must not contain a NUL byte."
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        return "A command must be text."
    return ""


def _duration_s(words: Sequence[str]) -> float:
    """By the clock of the place, which also covers times without a connection."""
    try:
        started, ended = float(words[1]), float(words[2])
    except (IndexError, ValueError):
        return 0.0
    return round(max(0.0, ended - started), 4) if math.isfinite(ended - started) else 0.0


def _is_younger(started: datetime | None, words: Sequence[str]) -> bool:
    """Whether a job was started after the place booted, by durations, not by two clocks."""
    try:
        up_s = float(words[2])
    except (IndexError, ValueError):
        return False
    return started is not None and (datetime.now(UTC) - started).total_seconds() < up_s
