"""The client side of a supervisor: launch it, ask it, and reap what it left when it was killed."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from operator_protocols.domain.target import Process
from operator_protocols.errors import RigError
from operator_sre.processes.files import last_line
from operator_sre.processes.identity import alive, rows
from operator_sre.processes.nursery import PREPARE_S_MAX
from operator_sre.processes.server import Reply, Request, forget_socket
from operator_sre.processes.supervision import LOG_FILE, Supervision, read_state
from operator_sre.processes.tree import Tree, send

__all__ = ["Control", "Launched", "base_environment", "launch", "reap"]

LAUNCH_S_MAX = 15.0
LET_GO_S_MAX = 10.0
ANSWER_S_MAX = 15.0
START_S_MAX = PREPARE_S_MAX + ANSWER_S_MAX
DOWN_S_MAX = 10.0
REAP_GRACE_S = 1.0
POLL_S = 0.01
REPLY_BYTES_MAX = 1 << 20

# What a process needs to find programs and libraries; nothing that could hold a secret.
_PASSED_ON = (
    "HOME",
    "LANG",
    "LC_ALL",
    "LD_LIBRARY_PATH",
    "LOGNAME",
    "PATH",
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONPYCACHEPREFIX",
    "TMPDIR",
    "TZ",
    "USER",
    "VIRTUAL_ENV",
)


@dataclass(frozen=True, slots=True)
class Launched:
    """A supervisor that answers; `held` is its process when we own it."""

    supervisor: Process
    held: subprocess.Popen[bytes] | None = None

    async def wait_until_gone(self, seconds: float) -> None:
        """Let an owned supervisor go and collect it, so that no zombie of it stays."""
        if self.held is not None:
            await _wait_until_gone(self.held, seconds)


@dataclass(frozen=True, slots=True)
class Control:
    """Speaks to the supervisor of one directory. RigError when it is dead or refuses."""

    directory: Path

    async def status(self) -> Supervision:
        """What is so now."""
        return await self._ask(Request("status"))

    async def start(self, name: str) -> Supervision:
        """Start a process that does not run; the first time it is prepared before."""
        return await self._ask(Request("start", name), seconds=START_S_MAX)

    async def stop(self, name: str) -> Supervision:
        """End a process with all that came out of it."""
        return await self._ask(Request("stop", name))

    async def restart(self, name: str) -> Supervision:
        """Stop, then start."""
        return await self._ask(Request("restart", name), seconds=START_S_MAX)

    async def check(self, name: str) -> str:
        """Why a process is not ready, by the command that tells so; "" when it is."""
        return (await self._exchange(Request("check", name), ANSWER_S_MAX)).error

    async def signal(self, name: str, which: str) -> Supervision:
        """Send KILL, STOP, CONT or TERM to a running process."""
        return await self._ask(Request("signal", name, which))

    async def down(self) -> None:
        """End everything, the supervisor last."""
        state = await self._ask(Request("down"))
        ends = time.monotonic() + DOWN_S_MAX
        while alive(state.supervisor):
            if time.monotonic() > ends:
                raise RigError(
                    "The supervisor does not stop.", next_step="Take the rig down again."
                )
            await asyncio.sleep(POLL_S)

    async def _ask(self, request: Request, *, seconds: float | None = None) -> Supervision:
        reply = await self._exchange(request, seconds or ANSWER_S_MAX)
        if reply.error:
            raise RigError(reply.error)
        return Supervision.from_json(reply.state)

    async def _exchange(self, request: Request, seconds: float) -> Reply:
        state = read_state(self.directory)
        if state is None:
            raise RigError(f"No supervisor has ever run in {str(self.directory)!r}.")
        try:
            async with asyncio.timeout(seconds):
                return Reply.from_line(await _exchange(state.socket, request))
        except (OSError, TimeoutError, ValueError) as problem:
            why = str(problem) or "no answer in time"
            raise RigError(
                f"The supervisor of {str(self.directory)!r} does not answer: {why}."
            ) from problem


async def _exchange(path: str, request: Request) -> bytes:
    reader, writer = await asyncio.open_unix_connection(path, limit=REPLY_BYTES_MAX)
    try:
        writer.write(request.to_line())
        await writer.drain()
        return await reader.readline()
    finally:
        writer.close()


async def launch(
    directory: Path, *, owned: bool, passing: Sequence[str] = (), holding: Sequence[int] = ()
) -> Launched:
    """Start the supervisor of a directory whose orders are written, and wait until it answers.

    `passing` names variables of ours that it gets too, for processes that inherit them. `holding`
    are open files of ours that it keeps open as long as it lives; its processes do not get them.
    """
    popen = _popen(directory, owned=owned, passing=passing, holding=holding)
    try:
        supervisor = await _answering(directory, popen, owned=owned)
    except (RigError, asyncio.CancelledError):
        # End a supervisor that did not answer in time, which may have started something by now. An
        # owned supervisor cleans up by itself when its input ends, even if we are killed at
        # this moment; it is killed only if it does not end, and then leaves the rest to us.
        try:
            if popen.stdin is not None:
                await _wait_until_gone(popen, LET_GO_S_MAX)
        finally:
            popen.kill()
        # Leaving the context closes its pipe and collects it.
        with popen:
            raise
    return Launched(supervisor, popen if owned else None)


async def _wait_until_gone(popen: subprocess.Popen[bytes], seconds: float) -> None:
    """Return when a supervisor whose input has ended is gone, or the time is up."""
    if popen.stdin is not None:
        popen.stdin.close()
    ends = time.monotonic() + seconds
    while popen.poll() is None:
        if time.monotonic() > ends:
            return
        await asyncio.sleep(POLL_S)


def _popen(
    directory: Path, *, owned: bool, passing: Sequence[str], holding: Sequence[int]
) -> subprocess.Popen[bytes]:
    passed = {name: os.environ[name] for name in passing if name in os.environ}
    # -P, because whatever lies in the current directory is not to be imported.
    argv = [sys.executable, "-P", "-m", "operator_sre.processes.supervisor", str(directory)]
    with (directory / LOG_FILE).open("ab") as output:
        return subprocess.Popen(
            [*argv, "--owned"] if owned else argv,
            cwd="/",
            env={**passed, **base_environment(os.environ)},
            stdin=subprocess.PIPE if owned else subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=holding,
        )


async def _answering(directory: Path, popen: subprocess.Popen[bytes], *, owned: bool) -> Process:
    ends = time.monotonic() + LAUNCH_S_MAX
    while time.monotonic() < ends:
        code = popen.poll()
        if code is not None and (owned or code != 0):
            break
        state = read_state(directory)
        # A detached supervisor is ours only when its first process has stepped aside.
        ours = state is not None and (state.supervisor.pid == popen.pid if owned else code == 0)
        if state is not None and ours and alive(state.supervisor):
            # It answers when it has started all its processes.
            return (await Control(directory).status()).supervisor
        await asyncio.sleep(POLL_S)
    reason = last_line(directory / LOG_FILE)
    raise RigError(
        f"The supervisor of {str(directory)!r} did not start: {reason or 'its log is empty'}"
    )


async def reap(directory: Path, *, grace_s: float = REAP_GRACE_S) -> None:
    """End all that a supervisor left behind, and the supervisor too if it hangs; never a stranger.

    Its children are known by pid and start time, and by the mark that is in their environment.
    """
    state = read_state(directory)
    if state is None:
        return
    send(state.supervisor, signal.SIGKILL)
    known = [child.process for child in state.children if child.process is not None]
    # The supervisor has to go first: it would record, or start, something meanwhile.
    trees = [Tree(process, mark="") for process in known]
    trees.append(Tree(None, mark=f"{state.mark}.", known=known))
    await asyncio.gather(*(tree.end(grace_s=grace_s) for tree in trees))
    forget_socket(state.socket)
    if not await _all_killed(trees, state.supervisor):
        raise RigError(
            f"Some processes of {str(directory)!r} do not stop, not even after SIGKILL.",
            next_step="Wait a moment and take the rig down again.",
        )


async def _all_killed(trees: Sequence[Tree], supervisor: Process) -> bool:
    """A busy machine may take long to release even a killed process."""
    ends = time.monotonic() + DOWN_S_MAX
    while time.monotonic() <= ends:
        table = rows()
        left = [tree for tree in trees if tree.members(table) and not tree.kill()]
        if not left and not alive(supervisor):
            return True
        await asyncio.sleep(POLL_S)
    return False


def base_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The few variables that a process of ours inherits; secrets stay behind."""
    kept = {name: environ[name] for name in _PASSED_ON if name in environ}
    if environ.get("PYTHONPATH"):
        # Relative entries would mean something else in another directory.
        parts = environ["PYTHONPATH"].split(os.pathsep)
        kept["PYTHONPATH"] = os.pathsep.join(str(Path(part).absolute()) for part in parts)
    return kept
