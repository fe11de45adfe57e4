"""Run one program in a container: bounded, without a terminal, and ended as a tree.

Every program is started with a mark in its environment, which its children inherit. What carries
the mark, shares a session with such a process, or descends from one, is ended by a small script
that needs a shell and `cat` in the container, and is run as the user of the program first.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field

from operator_protocols.domain.action import Outcome, Result
from operator_protocols.domain.category import FailureCategory
from operator_protocols.ports import Job
from operator_sre.executor.categories import category_of
from operator_sre.executor.docker.answers import Created, Exec, Frames
from operator_sre.executor.docker.engine import ANSWER_S, Engine, EngineError
from operator_sre.processes.capture import Capture

__all__ = ["Exec", "Inside", "end_marked", "new_mark", "run_inside"]

MARK = "OPERATOR_SRE_EXEC"
GRACE_S = 1.0
END_S_MAX = 10.0
SAID_BYTES_MAX = 64 * 1024
_LAST = re.compile(r"^left([ 0-9]*);([ 0-9]*)$", re.MULTILINE)

# Arguments: the mark, the tenths of a second after TERM, and sessions that are known already.
_SCRIPT = """
mark=$1 tenths=$2; shift 2; sessions=" $* "
look() {
  pids=
  for folder in /proc/[0-9]*; do
    pid=${folder#/proc/}
    { read -r line <"$folder/stat"; } 2>/dev/null || continue
    set -- ${line##*) }
    [ "$1" = Z ] || [ "$pid" = 1 ] || [ "$4" = $$ ] && continue
    case "$sessions" in
      *" $4 "*) ;;
      *) case "$(cat "$folder/environ" 2>/dev/null)" in
           *"$mark"*) [ "$4" = 0 ] || sessions="$sessions$4 " ;;
           *) case "$pids " in *" $2 "*) ;; *) continue ;; esac ;;
         esac ;;
    esac
    pids="$pids $pid"
  done
}
look; look
[ -z "$pids" ] || kill -TERM $pids 2>/dev/null
count=0
while look; [ -n "$pids" ] && [ $count -lt $tenths ]; do
  sleep 0.1 2>/dev/null || sleep 1; count=$((count + 1))
done
count=0
while look; [ -n "$pids" ] && [ $count -lt 30 ]; do
  kill -KILL $pids 2>/dev/null; sleep 0.02 2>/dev/null || sleep 1; count=$((count + 1))
done
echo "left$pids;$sessions"
"""


def new_mark() -> str:
    """A mark that no other program has, as a variable of its environment."""
    return f"{MARK}={secrets.token_hex(16)}"


async def end_marked(engine: Engine, container: str, mark: str, *, user: str) -> str:
    """End all that carries the mark; why something may be left, or ""."""
    try:
        async with asyncio.timeout(END_S_MAX):
            output = await _run(engine, container, mark, user, "")
            if output is None:
                return "The container has no shell to stop the command with."
            pids, sessions = output
            if pids:  # it became another user: only root can end that
                output = await _run(engine, container, mark, "0", sessions)
            if output is None or output[0]:
                return f"Processes{pids} in the container could not be killed."
            return ""
    except TimeoutError:
        return f"The command could not be stopped within {END_S_MAX:g} s."
    except EngineError as error:
        return f"The command could not be stopped: {error.message}"


async def _run(
    engine: Engine, container: str, mark: str, user: str, sessions: str
) -> tuple[str, str] | None:
    tenths = str(int(GRACE_S * 10)) if not sessions else "0"
    body = {
        "Cmd": ["/bin/sh", "-c", _SCRIPT, "sh", mark, tenths, *sessions.split()],
        "AttachStdout": True,
        "User": user,
        "WorkingDir": "/",
    }
    made = await engine.ask("POST", f"/containers/{container}/exec", body=body)
    if not made.ok:
        return None
    begin = {"Detach": False, "Tty": False}
    path = f"/exec/{made.read(Created).id}/start"
    output = bytearray()
    frames = Frames(is_plain=False)
    async with engine.stream("POST", path, body=begin, timeout_s=END_S_MAX) as (_, chunks):
        async for chunk in chunks:
            for _, piece in frames.feed(chunk):
                output += piece
            if len(output) > SAID_BYTES_MAX:
                break
    found = _LAST.search(output.decode("ascii", "replace"))
    return (found[1], found[2]) if found else None


OUTPUT_BYTES_MAX = 64 * 1024
# After so long without output, ask the engine whether the program still runs: a child that
# keeps its output open must not keep us.
QUIET_S = 0.5
# How long after its end something may still be on its way: a proxy or a busy machine is slow.
LATE_S = 1.0
EXIT_TIMED_OUT, EXIT_CANNOT_RUN, EXIT_NOT_FOUND = 124, 126, 127
_NOT_FOUND = re.compile(r"executable file not found|no such file or directory|not a directory")
_OCI = re.compile(r"^OCI runtime exec failed: .*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Inside:
    """What is run inside of a container, by its id."""

    container: str
    argv: tuple[str, ...]
    user: str = ""
    workdir: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)


async def run_inside(engine: Engine, inside: Inside, job: Job) -> Result:
    """Run it and say what became of it. Cancelled, it ends it first.

    Raises EngineError only where nothing was started.
    """
    started = time.monotonic()
    mark = new_mark()
    given = [f"{name}={value}" for name, value in inside.environment.items()]
    body = {
        "Cmd": list(inside.argv),
        "AttachStdout": True,
        "AttachStderr": True,
        "Env": [mark, *given],
        "User": inside.user,
        "WorkingDir": inside.workdir,
    }
    made = await engine.ask("POST", f"/containers/{inside.container}/exec", body=body)
    if not made.ok:
        missing = made.status == 404
        return Result(
            Outcome.RAN,
            exit_code=1,
            stderr=f"Docker refused: {made.message}",
            category=FailureCategory.NOT_FOUND if missing else FailureCategory.RUNTIME,
        )
    running = _Running(engine, made.read(Created).id, job)
    try:
        ended = await running.follow(started + job.timeout_s)
    except EngineError as error:
        if not (error.sent or running.is_started):
            raise
        left = await end_marked(engine, inside.container, mark, user=inside.user)
        return running.lost_result(f"{error} {left}".strip(), time.monotonic() - started)
    except asyncio.CancelledError:
        await asyncio.shield(end_marked(engine, inside.container, mark, user=inside.user))
        raise
    if ended is None:
        left = await end_marked(engine, inside.container, mark, user=inside.user)
        return running.result(Outcome.TIMED_OUT, EXIT_TIMED_OUT, time.monotonic() - started, left)
    return running.result(Outcome.RAN, ended, time.monotonic() - started)


class _Running:
    def __init__(self, engine: Engine, exec_id: str, job: Job) -> None:
        self._engine = engine
        self._id = exec_id
        self._watch: Callable[[int, bytes], None] | None = job.watch
        self.is_started = False
        self._kept = {1: Capture(OUTPUT_BYTES_MAX), 2: Capture(OUTPUT_BYTES_MAX)}

    async def follow(self, ends: float) -> int | None:
        """The exit code; None when it takes too long."""
        frames = Frames(is_plain=False)
        path = f"/exec/{self._id}/start"
        begin = {"Detach": False, "Tty": False}
        left_s = max(0.0, ends - time.monotonic()) + ANSWER_S
        async with self._engine.stream("POST", path, body=begin, timeout_s=left_s) as (
            status,
            chunks,
        ):
            if not 200 <= status < 300:
                raise EngineError(f"Docker did not start the command: status {status}.")
            self.is_started = True
            pieces = _Pieces(chunks)
            is_over = False
            try:
                while time.monotonic() < ends:
                    wait_s = min(LATE_S if is_over else QUIET_S, ends - time.monotonic())
                    chunk = await pieces.next(wait_s)
                    if chunk == b"" or (chunk is None and is_over):
                        # The stream may end a moment before the engine knows the exit code.
                        for pause_s in (0.0, 0.02, 0.1, 0.5, 1.0, 2.0):
                            await asyncio.sleep(pause_s)
                            seen = await self._look()
                            if not seen.running and seen.exit_code is not None:
                                return seen.exit_code
                        raise EngineError(
                            "Docker does not know the exit code of the command.", sent=True
                        )
                    is_over = chunk is None and not (await self._look()).running
                    for number, piece in frames.feed(chunk or b""):
                        self._kept[number].feed(piece)
                        if self._watch is not None:
                            self._watch(number, piece)
            finally:
                await pieces.end()
        return None

    async def _look(self) -> Exec:
        return (await self._engine.ask("GET", f"/exec/{self._id}/json")).read(Exec)

    def result(self, outcome: Outcome, exit_code: int, duration_s: float, note: str = "") -> Result:
        """The outcome, with all the output."""
        stdout, stderr = (
            self._kept[number].kept_bytes().decode("utf-8", "replace") for number in (1, 2)
        )
        if exit_code in (EXIT_CANNOT_RUN, EXIT_NOT_FOUND) and (match := _OCI.search(stdout)):
            # The engine reports its own error as output of the program.
            stdout, stderr = _OCI.sub("", stdout).strip(), match[0]
            exit_code = EXIT_NOT_FOUND if _NOT_FOUND.search(stderr) else EXIT_CANNOT_RUN
        stderr = f"{stderr.rstrip()}\n{note}".lstrip() if note else stderr
        return Result(
            outcome=outcome,
            exit_code=exit_code,
            stdout=stdout,
            stderr=stderr,
            truncated=any(each.truncated for each in self._kept.values()),
            duration_s=round(duration_s, 4),
            category=category_of(exit_code=exit_code, outcome=outcome, stderr=stderr),
            data={"ended": not note} if outcome is Outcome.TIMED_OUT else {},
            stdout_bytes=self._kept[1].seen,
            stderr_bytes=self._kept[2].seen,
        )

    def lost_result(self, note: str, duration_s: float) -> Result:
        """The result when the engine went away: the outcome is unknown."""
        stdout, stderr = (
            self._kept[number].kept_bytes().decode("utf-8", "replace") for number in (1, 2)
        )
        return Result(
            Outcome.UNKNOWN,
            stdout=stdout,
            stderr=f"{stderr}{note} It is unknown whether the command still runs.",
            duration_s=round(duration_s, 4),
            category=FailureCategory.NETWORK,
            data={"error_category": EngineError.category.value},
        )


class _Pieces:
    """The pieces of a stream, waited for without giving the stream up when none comes."""

    def __init__(self, chunks: AsyncIterator[bytes]) -> None:
        self._chunks = chunks
        self._pending: asyncio.Task[bytes] | None = None

    async def next(self, wait_s: float) -> bytes | None:
        """The next piece; b"" at the end, None when none came yet."""
        if self._pending is None:
            self._pending = asyncio.ensure_future(self._read())
        await asyncio.wait({self._pending}, timeout=max(0.0, wait_s))
        if not self._pending.done():
            return None
        done, self._pending = self._pending, None
        return done.result()

    async def _read(self) -> bytes:
        return await anext(self._chunks, b"")

    async def end(self) -> None:
        """Stop waiting."""
        if self._pending is not None:
            self._pending.cancel()
            await asyncio.wait({self._pending})
            if not self._pending.cancelled():
                self._pending.exception()
