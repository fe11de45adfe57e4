"""Shells in containers, through the API of the Docker engine."""

from __future__ import annotations

import re

from operator_protocols.domain.category import FailureCategory
from operator_protocols.errors import ExecutorError
from operator_sre.executor.docker.answers import Container as Described
from operator_sre.executor.docker.answers import Created, Frames
from operator_sre.executor.docker.engine import Engine, EngineError
from operator_sre.executor.transports.places import Container
from operator_sre.executor.transports.script import Called, Hear

__all__ = ["DockerWire", "loader_of"]

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
