"""Shells in containers: through the API of the Docker engine, and in pods through kubectl."""

from __future__ import annotations

import os
import re
import uuid

from operator_protocols.domain.action import Outcome, Result
from operator_protocols.domain.category import FailureCategory
from operator_protocols.errors import ExecutorError
from operator_protocols.ports import Job
from operator_sre.executor.docker.answers import Container as Described
from operator_sre.executor.docker.answers import Created, Frames
from operator_sre.executor.docker.engine import Engine, EngineError
from operator_sre.executor.programs import Program, Programs
from operator_sre.executor.transports.places import Container, Pod
from operator_sre.executor.transports.script import Called, Hear

__all__ = ["DockerWire", "KubectlWire", "exec_argv", "loader_of", "uid_argv"]

LOOK_S_MAX = 15.0
PROBLEM_CHARS_MAX = 300
# What finds and opens a cluster; nothing else of the operator's environment goes along.
_PASSED_ON = ("PATH", "HOME", "KUBECONFIG", "HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy")
# What kubectl says when it did not get as far as starting anything, and what that means.
_NOT_STARTED = (
    (r"\(NotFound\)|context \S+ does not exist|container \S+ not found", FailureCategory.NOT_FOUND),
    (r"container not found|is not valid for pod|pod does not exist", FailureCategory.NOT_FOUND),
    (r"\((?:Forbidden|Unauthorized)\)|must be logged in", FailureCategory.PERMISSION),
    (r"Unable to connect to the server|connection to the server", FailureCategory.NETWORK),
    (r"cannot exec into a container in a completed pod", FailureCategory.RESOURCE),
    (r"executable file not found|no such file or directory", FailureCategory.NOT_FOUND),
)
_UID = re.compile(r"[0-9A-Za-z-]{1,64}")


def exec_argv(kubectl: str, pod: Pod) -> tuple[str, ...]:
    """The words that start a shell in a pod. Names stand where no option could. Pure."""
    return (
        kubectl,
        f"--context={pod.context}",
        f"--namespace={pod.namespace}",
        "exec",
        "--stdin",
        f"--container={pod.container}",
        f"pod/{pod.name}",
        "--",
        "env",
        "-i",
        "/bin/sh",
    )


def uid_argv(kubectl: str, pod: Pod) -> tuple[str, ...]:
    """The words that ask for what tells a pod from a later one of the same name. Pure."""
    return (
        kubectl,
        f"--context={pod.context}",
        f"--namespace={pod.namespace}",
        "get",
        f"pod/{pod.name}",
        "--output=jsonpath={.metadata.uid}",
    )


class KubectlWire:
    """One container of one pod."""

    def __init__(self, pod: Pod, programs: Programs, *, kubectl: str = "kubectl") -> None:
        self._pod = pod
        self._programs = programs
        self._kubectl = kubectl

    async def reach(self) -> Called:
        """Each call is a process of its own."""
        return Called()

    async def call(self, script: bytes, hear: Hear, *, within_s: float) -> Called:
        """Give a script to a shell there; `hear` gets what it says."""
        heard = [0]

        def listen(stream: int, data: bytes) -> None:
            heard[0] += stream == 1
            hear(stream, data)

        argv = exec_argv(self._kubectl, self._pod)
        result = await self._run(argv, script, within_s, listen)
        if result.outcome is Outcome.REFUSED:
            return Called(sent=False, trouble=result.stderr, category=result.category)
        if result.outcome is not Outcome.RAN:
            return self._trouble("it did not answer in time.", FailureCategory.NETWORK)
        if result.exit_code == 0 or heard[0]:
            return Called()
        message = _first_line(result.stderr)
        for pattern, category in _NOT_STARTED:
            if re.search(pattern, result.stderr):
                return self._trouble(f"nothing was run ({message}).", category, sent=False)
        if result.category is FailureCategory.NOT_FOUND:
            why = "kubectl is not installed. Install it, or put it into the PATH."
            return Called(sent=False, trouble=why, category=FailureCategory.NOT_FOUND)
        return self._trouble(f"kubectl failed ({message}).", FailureCategory.NETWORK)

    async def identify(self) -> str:
        """The pod as the cluster knows it; one of the same name that comes later is another."""
        result = await self._run(uid_argv(self._kubectl, self._pod), b"", LOOK_S_MAX, None)
        uid = result.stdout.strip()
        if not result.ok or not _UID.fullmatch(uid):
            raise ExecutorError(
                f"{self._pod} cannot be read: {_first_line(result.stderr)}.",
                next_step="Check that kubectl can reach it.",
            )
        return f"{self._pod} {uid}"

    async def aclose(self) -> None:
        """There is nothing to let go of."""

    async def _run(
        self, argv: tuple[str, ...], stdin: bytes, within_s: float, watch: Hear | None
    ) -> Result:
        program = Program(
            argv,
            {name: os.environ[name] for name in _PASSED_ON if name in os.environ},
            stdin=stdin,
            ends_left=True,
        )
        return await self._programs.run(
            program, Job(id=uuid.uuid4().hex, timeout_s=within_s, watch=watch)
        )

    def _trouble(self, why: str, category: FailureCategory, *, sent: bool = True) -> Called:
        return Called(sent=sent, trouble=f"{self._pod}: {why}", category=category)


def _first_line(text: str) -> str:
    lines = text.strip().splitlines()
    return (lines[-1] if lines else "it says nothing").rstrip(".")[:PROBLEM_CHARS_MAX]


NOT_FOUND, CONFLICT = 404, 409
# The kernel takes no longer word than 128 kB; a character has at most four bytes.
CHUNK_CHARS = 30_000
CHUNKS_MAX = 32
NOT_STARTED = b"OCI runtime exec failed"
_ID = re.compile(r"[0-9a-f]{64}")
_NAME = "OPERATOR_SCRIPT_"
_FORGET = r"s/^\([A-Za-z_][A-Za-z0-9_]*\)=.*/\1/p"


class DockerWire:
    """One container. A name is asked for its id at every call, because it may change hands."""

    def __init__(self, container: Container, engine: Engine) -> None:
        self._container = container
        self._engine = engine

    async def reach(self) -> Called:
        """Each call is a connection of its own."""
        return Called()

    async def call(self, script: bytes, hear: Hear, *, within_s: float) -> Called:
        """Give a script to a shell there; `hear` gets what it says."""
        try:
            shell, variables = loader_of(script.decode())
            if len(variables) > CHUNKS_MAX:
                why = f"{self._container}: the command is too long."
                return self._not_started(why, FailureCategory.RESOURCE)
            body = {
                "Cmd": ["/bin/sh", "-c", shell],
                "Env": variables,
                "AttachStdout": True,
                "AttachStderr": True,
                "WorkingDir": "/",
            }
            made = await self._engine.ask("POST", f"/containers/{await self._id()}/exec", body=body)
            if not made.ok:
                missing = made.status == NOT_FOUND
                category = FailureCategory.NOT_FOUND if missing else FailureCategory.RESOURCE
                return self._not_started(f"{self._container}: {made.message}.", category)
            # Pass on what it says until it ends; returns its first words.
            exec_id = made.read(Created).id
            frames = Frames(is_plain=False)
            begin = {"Detach": False, "Tty": False}
            output = b""
            async with self._engine.stream(
                "POST", f"/exec/{exec_id}/start", body=begin, timeout_s=within_s
            ) as (status, chunks):
                async for chunk in chunks:
                    if not 200 <= status < 300:
                        output += chunk[: 1000 - len(output)]
                        continue
                    for stream, piece in frames.feed(chunk):
                        output += piece[: max(0, len(NOT_STARTED) - len(output))]
                        hear(stream, piece)
            if not 200 <= status < 300 and NOT_STARTED not in output:
                raise EngineError(f"Docker did not start the command: status {status}.")
            if NOT_STARTED in output:
                why = f"{self._container} has no shell to run commands with (/bin/sh)."
                return self._not_started(why, FailureCategory.NOT_FOUND)
            return Called()
        except EngineError as error:
            return Called(sent=error.sent, trouble=str(error), category=error.failure)
        except ExecutorError as error:
            return self._not_started(str(error), FailureCategory.NOT_FOUND)

    async def identify(self) -> str:
        """The id of the container, which no later one of the same name has."""
        return f"docker://{await self._id()}"

    async def aclose(self) -> None:
        """There is nothing to let go of."""

    async def _id(self) -> str:
        name = self._container.name
        if _ID.fullmatch(name):
            return name
        answer = await self._engine.ask("GET", f"/containers/{name}/json")
        if not answer.ok:
            raise ExecutorError(
                f"There is no container {name!r}: {answer.message}.",
                next_step="List the containers with: docker ps --all",
            )
        found = answer.read(Described).id
        if not _ID.fullmatch(found):
            raise EngineError("The service at this address does not answer as Docker does.")
        return found

    def _not_started(self, why: str, category: FailureCategory) -> Called:
        return Called(sent=False, trouble=why, category=category)


def loader_of(script: str) -> tuple[str, list[str]]:
    """A line for `sh -c` and the variables that it takes the script from. Pure.

    The script does not go in as an argument, which everybody could read; and the variables of the
    image are forgotten before it begins.
    """
    places = range(0, len(script), CHUNK_CHARS)
    parts = [script[place : place + CHUNK_CHARS] for place in places]
    names = [f"{_NAME}{number}" for number in range(len(parts))]
    all_of_it = "".join(f"${{{name}}}" for name in names)
    line = (
        f'operator_script="{all_of_it}"; '
        f"for operator_name in $(env | sed -n '{_FORGET}'); do unset \"$operator_name\"; done; "
        'eval "$operator_script"'
    )
    return line, [f"{name}={part}" for name, part in zip(names, parts, strict=True)]
