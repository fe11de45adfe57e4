"""Services and processes of this machine: by argv of `systemctl`, and by signals."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from operator_protocols.domain.action import Action, Argument, Outcome, Result
from operator_protocols.domain.category import FailureCategory
from operator_protocols.domain.observation import Value
from operator_protocols.domain.target import Process, Target
from operator_protocols.domain.tool import Parameter, ParameterType, Prepared, ToolSpec
from operator_protocols.domain.verdict import Risk
from operator_protocols.ports import Job, Tool
from operator_sre.executor.programs import Program, Programs
from operator_sre.executor.tools.parameters import check_arguments
from operator_sre.executor.transports.local import ENVIRONMENT
from operator_sre.processes.identity import alive, process_of, row_of, same

__all__ = ["PID_MIN", "CheckPort", "KillProcess", "ServiceTool", "service_tools", "unit_of"]

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


# Lower pids are kernel threads and processes of the boot.
PID_MIN = 300
PID_MAX = 2**22
POLL_S, TERM_S, SETTLE_S = 0.1, 5.0, 0.5
LOOK_S = 10.0
KEEPERS = b"operator_sre.processes."
SYSTEMD = Path("/run/systemd/system")
ACTIVE, ENDED = "active", ("inactive", "failed")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@:-]{0,199}")
_SERVICE = Parameter("service", "the name of the service, without a path", minimum=1, maximum=200)

_START = ToolSpec(
    name="host_service_start",
    sentence="Starts a service of this machine with systemctl.",
    parameters=(_SERVICE,),
    risk=Risk.MEDIUM,
    changes=True,
    reversible=True,
    idempotent=True,
    undo="host_service_stop",
    expected="systemctl exits with 0 and reports the service as active.",
    verify="systemctl is-active SERVICE prints active.",
)
_STOP = ToolSpec(
    name="host_service_stop",
    sentence="Stops a service of this machine with systemctl.",
    parameters=(_SERVICE,),
    risk=Risk.HIGH,
    changes=True,
    reversible=True,
    idempotent=True,
    undo="host_service_start",
    expected="systemctl exits with 0 and reports the service as inactive.",
    verify="systemctl is-active SERVICE prints inactive.",
)
_RESTART = ToolSpec(
    name="host_service_restart",
    sentence="Restarts a service of this machine with systemctl.",
    parameters=(_SERVICE,),
    risk=Risk.MEDIUM,
    changes=True,
    expected="systemctl exits with 0 and reports the service as active.",
    verify="systemctl is-active SERVICE prints active.",
)


def unit_of(service: str) -> str:
    """The unit of a service; "" for what is no plain name."""
    bare = service.removesuffix(".service")
    return f"{bare}.service" if _NAME.fullmatch(bare) and ".." not in bare else ""


@dataclass(frozen=True, slots=True)
class ServiceTool:
    """One verb of systemctl. `manages` is the policy's word at the moment of the call."""

    spec: ToolSpec
    verb: str
    programs: Programs
    manages: Callable[[str], bool]
    systemctl: str = "systemctl"

    async def call(self, arguments: Mapping[str, Argument], job: Job) -> Result:
        """Do it, then ask whether it is so. Success is both."""
        given = check_arguments(self.spec, arguments)
        if isinstance(given, Result):
            return given
        service = given.text("service")
        unit = unit_of(service)
        if not unit:
            return _refusal(f"{service[:60]!r} is not the name of a service.")
        if not self.manages(service):
            return _refusal(f"The policy does not allow changes to {service!r}: see 'services'.")
        if not self.is_supported:
            why = "unsupported: this machine does not run systemd. Restart the process another way."
            data: dict[str, Value] = {"unsupported": "systemd"}
            kind = FailureCategory.NOT_FOUND
            return Result(Outcome.REFUSED, stderr=why, category=kind, data=data)
        before = await self._state(unit, job, "before")
        done = await self._run(self.verb, unit, job)
        if done.outcome is not Outcome.RAN:
            return done
        after = await self._state(unit, job, "after")
        reached = after in ENDED if self.verb == "stop" else after == ACTIVE
        data = {"service": unit, "verb": self.verb, "was": before, "state": after}
        if not done.ok:
            why = done.stderr or f"systemctl {self.verb} exited with {done.exit_code}."
            return replace(done, stderr=why, data=data)
        if not reached:
            now = after or "in an unknown state"
            why = f"systemctl {self.verb} exited with 0, but {unit} is {now}."
            failed = FailureCategory.RUNTIME
            return replace(done, exit_code=1, stderr=why, category=failed, data=data)
        changed = (before == ACTIVE) is not (after == ACTIVE)
        undo = Action(self.spec.undo, {"service": unit}) if self.spec.undo and changed else None
        sentence = f"{unit} is {after}, and was {before or 'unknown'}."
        return replace(done, stdout=sentence, data=data, undo=undo)

    @property
    def is_supported(self) -> bool:
        """Whether systemd runs here; a path of systemctl names another one."""
        return "/" in self.systemctl or SYSTEMD.is_dir()

    async def _state(self, unit: str, job: Job, when: str) -> str:
        """What systemctl calls it; "" where it cannot say."""
        look = Job(f"{job.id}-{when}" if job.id else "", min(LOOK_S, job.timeout_s))
        seen = await self._run("is-active", unit, look)
        # An inactive unit ends it with 3, so that the word counts and not the exit code.
        return seen.stdout.strip() if seen.outcome is Outcome.RAN else ""

    async def _run(self, verb: str, unit: str, job: Job) -> Result:
        argv = (self.systemctl, verb, "--", unit)
        return await self.programs.run(Program(argv, ENVIRONMENT), job)


def service_tools(
    programs: Programs, manages: Callable[[str], bool], *, systemctl: str = "systemctl"
) -> tuple[Tool, ...]:
    """Start, stop and restart."""
    return tuple(
        ServiceTool(spec, spec.name.rpartition("_")[2], programs, manages, systemctl)
        for spec in (_START, _STOP, _RESTART)
    )


class KillProcess:
    """Kills one process, and never another process with the same pid."""

    spec = ToolSpec(
        name="kill_process",
        sentence="Kills one process of this machine: SIGTERM, then SIGKILL after five seconds.",
        parameters=(
            Parameter(
                "pid", "the process", ParameterType.INTEGER, minimum=PID_MIN, maximum=PID_MAX
            ),
            Parameter(
                "signal", "TERM or KILL", required=False, default="TERM", choices=("TERM", "KILL")
            ),
            Parameter(
                "started",
                "the start time of the process, in seconds since 1970; looked up if the process "
                "exists",
                ParameterType.NUMBER,
            ),
        ),
        risk=Risk.HIGH,
        changes=True,
        expected="The process is gone.",
        verify="ps -p PID shows nothing, or a process with another start time.",
        timeout_s=30.0,
    )

    async def prepare(self, arguments: Mapping[str, Argument]) -> Prepared:
        """Which process has the number now, so that no later one can be meant."""
        pid = arguments.get("pid")
        if not isinstance(pid, int) or isinstance(pid, bool) or not PID_MIN <= pid <= PID_MAX:
            return Prepared()
        process = process_of(pid)
        return Prepared({"started": process.started}) if process else Prepared()

    async def call(self, arguments: Mapping[str, Argument], job: Job) -> Result:
        """End it. `escalated` in the data is True only if KILL was sent after TERM."""
        given = check_arguments(self.spec, arguments)
        if isinstance(given, Result):
            return given
        started = time.monotonic()
        process = Process(given.integer("pid"), given.number("started"))
        with _Handle(process.pid) as handle:
            pid = process.pid
            now = process_of(pid)
            problem: Result | None
            if now is None:
                problem = _failure(f"There is no process {pid}.", FailureCategory.NOT_FOUND)
            elif not same(now, process):
                problem = _failure(f"{pid} is another process by now.", FailureCategory.NOT_FOUND)
            elif pid in _ancestry() or _is_ours(pid):
                problem = _refusal(f"{pid} is Operator itself, or a process that it depends on.")
            else:
                problem = handle.send(0)
            if problem is not None:
                return replace(problem, duration_s=round(time.monotonic() - started, 4))
            wanted = given.text("signal")
            handle.send(signal.SIGTERM if wanted == "TERM" else signal.SIGKILL)
            gone = await _wait_until_gone(process, TERM_S if wanted == "TERM" else SETTLE_S)
            escalated = not gone and wanted == "TERM" and handle.send(signal.SIGKILL) is None
            if escalated:
                gone = await _wait_until_gone(process, SETTLE_S)
            gone = gone or not alive(process)
            how = "KILL after TERM" if escalated else wanted
            sentence = (
                f"{process.pid} was sent {how} and {'is gone' if gone else 'is still there'}."
            )
            return Result(
                Outcome.RAN,
                exit_code=0 if gone else 1,
                stdout=sentence if gone else "",
                stderr="" if gone else sentence,
                duration_s=round(time.monotonic() - started, 4),
                category=None if gone else FailureCategory.RUNTIME,
                data={"pid": process.pid, "signal": wanted, "escalated": escalated, "gone": gone},
            )


class _Handle:
    """A process that cannot turn into another one while it is held, where the kernel has that."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._fd = -1

    def __enter__(self) -> _Handle:
        if hasattr(os, "pidfd_open"):
            try:
                self._fd = os.pidfd_open(self._pid)
            except OSError:  # it is gone, which the check below reports; or an old kernel
                self._fd = -1
        return self

    def __exit__(self, *_: object) -> None:
        if self._fd >= 0:
            os.close(self._fd)

    def send(self, number: int) -> Result | None:
        """Signal it; None when that was possible."""
        try:
            if self._fd >= 0:
                signal.pidfd_send_signal(self._fd, number)
            else:
                os.kill(self._pid, number)
        except ProcessLookupError:
            return _failure(f"There is no process {self._pid}.", FailureCategory.NOT_FOUND)
        except PermissionError:
            why = f"{self._pid} belongs to another user and cannot be signalled."
            return _failure(why, FailureCategory.PERMISSION)
        return None


async def _wait_until_gone(process: Process, seconds: float) -> bool:
    """Look every tenth of a second; True as soon as it is not there any more."""
    deadline = time.monotonic() + seconds
    while alive(process):
        if time.monotonic() >= deadline:
            return False
        await asyncio.sleep(POLL_S)
    return True


def _ancestry() -> set[int]:
    """This process and all that it came from."""
    found: set[int] = set()
    pid = os.getpid()
    while pid > 0 and pid not in found:
        found.add(pid)
        row = row_of(pid)
        pid = row.parent if row else 0
    return found


def _is_ours(pid: int) -> bool:
    """True for what starts and ends processes for an operator, and outlives it."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return any(word.startswith(KEEPERS) for word in words)


def _failure(why: str, category: FailureCategory) -> Result:
    return Result(Outcome.RAN, exit_code=1, stderr=why, category=category)


def _refusal(why: str) -> Result:
    return _failure(why, FailureCategory.PERMISSION)
