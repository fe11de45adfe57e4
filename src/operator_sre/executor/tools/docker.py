"""Start, stop and restart a container, and run a program in it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace

import msgspec

from operator_protocols.domain.action import Action, Result
from operator_protocols.domain.category import FailureCategory
from operator_protocols.domain.observation import Value
from operator_protocols.domain.tool import Parameter, ParameterType, ToolSpec
from operator_protocols.domain.verdict import Risk
from operator_protocols.ports import Job, Tool
from operator_sre.executor.docker.answers import Container, State, Waited
from operator_sre.executor.docker.engine import ANSWER_S, NOT_MODIFIED, Engine, EngineError
from operator_sre.executor.docker.execs import Inside, run_inside
from operator_sre.executor.tools.docker_networks import NetworkConnect, NetworkDisconnect
from operator_sre.executor.tools.docker_state import DockerInspect, DockerLogs
from operator_sre.executor.tools.docker_tool import (
    CONTAINER,
    ID,
    DockerTool,
    Locks,
    Refusal,
    did,
    failed_by,
    failure,
    find,
)
from operator_sre.executor.tools.parameters import Validated

__all__ = ["DockerExec", "DockerRestart", "DockerStart", "DockerStop", "docker_tools"]

GRACE_S = 10
SETTLE_S = 0.5
KILLED = 137
ARGV_BYTES_MAX = 128 * 1024
_GRACE = Parameter(
    "grace_s",
    "the seconds between TERM and KILL",
    ParameterType.INTEGER,
    required=False,
    default=GRACE_S,
    minimum=1,
    maximum=120,
)
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,63})?")


def docker_tools(engine: Callable[[], Engine] = Engine) -> tuple[Tool, ...]:
    """Every Docker tool, over the engine that is asked for at each call."""
    locks = Locks()
    return (
        DockerInspect(engine, locks),
        DockerLogs(engine, locks),
        DockerStart(engine, locks),
        NetworkConnect(engine, locks),
        NetworkDisconnect(engine, locks),
        DockerStop(engine, locks),
        DockerRestart(engine, locks),
        DockerExec(engine, locks),
    )


class DockerStart(DockerTool):
    """Starts a container, unless it runs."""

    spec = ToolSpec(
        name="docker_start",
        sentence="Starts a stopped container.",
        parameters=(CONTAINER, ID),
        risk=Risk.MEDIUM,
        changes=True,
        reversible=True,
        idempotent=True,
        undo="docker_stop",
        expected="The container is running.",
        verify="docker_inspect shows the state running.",
        timeout_s=60.0,
    )

    async def act(self, engine: Engine, container: Container, given: Validated, job: Job) -> Result:
        """Start it; `changed` in the data is False when it ran already."""
        if container.state.running and not container.state.paused:
            return _as_it_was(container, "runs already")
        answer = await engine.ask(
            "POST", f"/containers/{container.id}/start", timeout_s=_within(job, 0)
        )
        if not answer.ok:
            return failed_by(answer)
        if answer.status == NOT_MODIFIED:
            return _as_it_was(container, "runs already")
        now = await _wait_for_state(engine, container)
        data: dict[str, Value] = {"id": container.id, "changed": True, "status": now.status}
        if trouble := _ended_at_once(container, now, data, "started"):
            return trouble
        result = did(f"{container.label} was started.", data)
        return _undone_by(result, "docker_stop", container) if now.running else result


class DockerStop(DockerTool):
    """Stops a container: TERM, and KILL when it has not ended in time."""

    spec = ToolSpec(
        name="docker_stop",
        sentence="Stops a container: SIGTERM, then SIGKILL after ten seconds.",
        parameters=(CONTAINER, _GRACE, ID),
        risk=Risk.HIGH,
        changes=True,
        reversible=True,
        idempotent=True,
        undo="docker_start",
        expected="The container is stopped: exit code 143 after SIGTERM, 137 after SIGKILL.",
        verify="docker_inspect shows the state exited.",
        timeout_s=180.0,
    )

    async def act(self, engine: Engine, container: Container, given: Validated, job: Job) -> Result:
        """Stop it; `changed` in the data is False when it did not run, `killed` tells how."""
        grace_s = given.integer("grace_s")
        if not container.state.running and not container.state.restarting:
            return _as_it_was(container, "does not run")
        answer = await engine.ask(
            "POST",
            f"/containers/{container.id}/stop",
            parameters={"t": str(grace_s)},
            timeout_s=_within(job, grace_s),
        )
        if not answer.ok:
            return failed_by(answer)
        if answer.status == NOT_MODIFIED:
            return _as_it_was(container, "does not run")
        # How it ended, unless the container removed itself.
        data: dict[str, Value] = {"id": container.id, "changed": True}
        try:
            now = (await find(engine, container.id, after=True)).state
        except Refusal:
            return did(f"{container.label} was stopped and removed itself.", data)
        if now.running:
            return failure(
                f"{container.label} was stopped and runs again: something else restarts it.",
                FailureCategory.RUNTIME,
                {**data, "status": now.status},
            )
        is_killed = now.exit_code == KILLED
        how = "it ignored SIGTERM and was killed" if is_killed else "it exited on SIGTERM"
        result = did(
            f"{container.label} was stopped: {how} (exit {now.exit_code}).",
            {**data, "status": now.status, "exit_code": now.exit_code, "killed": is_killed},
        )
        return _undone_by(result, "docker_start", container)


class DockerRestart(DockerTool):
    """Stops a container, where it runs, and starts it again."""

    spec = ToolSpec(
        name="docker_restart",
        sentence="Stops a container (SIGTERM, then SIGKILL after ten seconds) and starts it again.",
        parameters=(CONTAINER, _GRACE, ID),
        risk=Risk.HIGH,
        changes=True,
        expected="The container is running, with a new start time.",
        verify="docker_inspect shows the state running and the new start time.",
        timeout_s=180.0,
    )

    async def act(self, engine: Engine, container: Container, given: Validated, job: Job) -> Result:
        """Restart it."""
        grace_s = given.integer("grace_s")
        answer = await engine.ask(
            "POST",
            f"/containers/{container.id}/restart",
            parameters={"t": str(grace_s)},
            timeout_s=_within(job, grace_s),
        )
        if not answer.ok:
            return failed_by(answer)
        now = await _wait_for_state(engine, container)
        data: dict[str, Value] = {
            "id": container.id,
            "changed": True,
            "status": now.status,
            "started_at": now.started_at,
        }
        result = did(f"{container.label} was restarted.", data)
        return _ended_at_once(container, now, data, "restarted") or result


class DockerExec(DockerTool):
    """Runs a program in a container, without a shell and without a terminal."""

    spec = ToolSpec(
        name="docker_exec",
        sentence="Runs one program inside a running container, without a terminal.",
        parameters=(
            CONTAINER,
            Parameter("argv", "the program and its arguments", ParameterType.LIST, minimum=1),
            Parameter("user", "the user to run it as", required=False, default="", maximum=129),
            Parameter("workdir", "its working directory", required=False, default="", maximum=4096),
            ID,
        ),
        risk=Risk.HIGH,
        changes=True,
        expected="The program exits with 0.",
        verify="Check its exit code and its output.",
        timeout_s=120.0,
    )

    is_exclusive = False  # a container can be stopped while a program runs in it

    async def act(self, engine: Engine, container: Container, given: Validated, job: Job) -> Result:
        """Run it; the exit code is that of the program."""
        inside = Inside(
            container.id, given.words("argv"), given.text("user"), given.text("workdir")
        )
        if not inside.argv[0] or any("\0" in word for word in (*inside.argv, inside.workdir)):
            mistake = "'argv' must start with a program and must not contain NUL."
        elif sum(len(word.encode("utf-8", "replace")) + 1 for word in inside.argv) > ARGV_BYTES_MAX:
            mistake = f"'argv' must fit into {ARGV_BYTES_MAX} bytes."
        elif inside.user and _USER.fullmatch(inside.user) is None:
            mistake = "'user' must be a user, or user:group, by name or number."
        elif inside.workdir and not inside.workdir.startswith("/"):
            mistake = "'workdir' must be an absolute path."
        else:
            mistake = ""
        if mistake:
            return failure(mistake, FailureCategory.SYNTAX)
        result = await run_inside(engine, inside, job)
        return replace(result, data={"id": container.id, **result.data})


async def _wait_for_state(engine: Engine, container: Container) -> State:
    """The state a moment after the start: some containers exit at once.

    A container in a restart loop shows the exit code of its first end.
    """
    ended = None
    try:
        answer = await engine.ask("POST", f"/containers/{container.id}/wait", timeout_s=SETTLE_S)
        ended = answer.read(Waited).status_code if answer.ok else None
    except EngineError as error:
        if error.failure is not FailureCategory.TIMEOUT:
            error.sent = True
            raise
    try:
        now = await find(engine, container.id, after=True)
    except Refusal:  # it ended and removed itself, and took its exit code along
        return State(status="removed", exit_code=1 if ended is None else ended)
    if ended is not None:
        return msgspec.structs.replace(now.state, running=False, exit_code=ended)
    return now.state


def _ended_at_once(
    container: Container, now: State, data: Mapping[str, Value], deed: str
) -> Result | None:
    """A failure, unless it still runs or ended well."""
    if (now.running and not now.restarting) or (not now.restarting and not now.exit_code):
        return None
    return failure(
        f"{container.label} was {deed} and exited at once with code {now.exit_code}."
        " Check its logs.",
        FailureCategory.RUNTIME,
        {**data, "exit_code": now.exit_code},
    )


def _as_it_was(container: Container, how: str) -> Result:
    state = container.state
    data: dict[str, Value] = {"id": container.id, "changed": False, "status": state.status}
    return did(f"{container.label} {how}: there was nothing to do.", data)


def _undone_by(result: Result, tool: str, container: Container) -> Result:
    name = container.name.removeprefix("/")
    return replace(result, undo=Action(tool, {"container": name, "id": container.id}))


def _within(job: Job, grace_s: int) -> float:
    """How long the engine may take for it."""
    return max(1.0, min(job.timeout_s, grace_s + 2 * ANSWER_S))
