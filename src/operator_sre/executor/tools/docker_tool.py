"""What every Docker tool does first: find the container, and see that it is the one meant."""

from __future__ import annotations

import asyncio
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import ClassVar
from weakref import WeakValueDictionary

from operator_protocols.domain.action import Argument, Outcome, Result
from operator_protocols.domain.category import FailureCategory
from operator_protocols.domain.observation import Value
from operator_protocols.domain.tool import Parameter, Prepared, ToolSpec
from operator_protocols.ports import Job
from operator_sre.executor.docker.answers import Container
from operator_sre.executor.docker.engine import Answer, Engine, EngineError
from operator_sre.executor.tools.parameters import Validated, check_arguments

__all__ = [
    "CONTAINER",
    "ID",
    "DockerTool",
    "Locks",
    "Refusal",
    "did",
    "failed_by",
    "failure",
    "find",
    "is_name",
]

NOT_FOUND, CONFLICT = 404, 409
CONTAINER = Parameter("container", "the name or id of the container", minimum=1, maximum=128)
ID = Parameter(
    "id", "the container's full id; looked up when the action is proposed", required=False
)

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
_ID = re.compile(r"[0-9a-f]{64}")


class Locks:
    """One change of a container at a time, so that each can tell what it changed."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def of(self, container: str) -> asyncio.Lock:
        """The lock of one container; it exists only while it is held."""
        return self._locks.setdefault(container, asyncio.Lock())


class Refusal(Exception):
    """A call ends here, with this Result."""

    def __init__(self, result: Result) -> None:
        super().__init__(result.stderr)
        self.result = result


class DockerTool(ABC):
    """One verb of Docker, bound to the id that its container had when it was proposed."""

    spec: ClassVar[ToolSpec]
    # Whether it waits for what else changes the same container, and makes that wait.
    is_exclusive: ClassVar[bool] = True

    def __init__(self, engine: Callable[[], Engine], locks: Locks) -> None:
        self._engine = engine
        self._locks = locks

    async def prepare(self, arguments: Mapping[str, Argument]) -> Prepared:
        """The full id of the container that has this name now; nothing where that is not known."""
        name = arguments.get("container")
        if not isinstance(name, str) or not is_name(name):
            return Prepared()
        try:
            engine = self._engine()
            container = await find(engine, name)
            return await self.bind(engine, container, arguments)
        except (EngineError, Refusal):
            return Prepared()

    async def bind(
        self, engine: Engine, container: Container, arguments: Mapping[str, Argument]
    ) -> Prepared:
        """What a call of this tool is bound to."""
        return Prepared({"id": container.id})

    async def call(self, arguments: Mapping[str, Argument], job: Job) -> Result:
        """Do it. A failure is a Result, also that of the engine."""
        started = time.monotonic()
        try:
            result = await self._call(arguments, job)
        except Refusal as refusal:
            result = refusal.result
        except EngineError as error:
            # The engine cannot be asked; what was sent to it may have been done all the same.
            is_unknown = self.spec.changes and error.sent
            note = " It is unknown whether it was done: check again." if is_unknown else ""
            result = Result(
                Outcome.UNKNOWN if is_unknown else Outcome.RAN,
                exit_code=None if is_unknown else 1,
                stderr=f"{error}{note}",
                category=error.failure,
                data={
                    "error_category": error.category.value,
                    "next_action": error.next_action.value,
                },
            )
        return replace(result, duration_s=round(time.monotonic() - started, 4))

    async def _call(self, arguments: Mapping[str, Argument], job: Job) -> Result:
        given = check_arguments(self.spec, arguments)
        if isinstance(given, Result):
            return given
        for name in ("container", "network", "alias"):
            if given.text(name) and not is_name(given.text(name)):
                return failure(
                    f"{given.text(name)[:60]!r} is not a valid Docker name: use letters,"
                    " digits, '_', '.' and '-', starting with a letter or a digit.",
                    FailureCategory.SYNTAX,
                )
        engine = self._engine()
        if not (self.spec.changes and self.is_exclusive):
            return await self.act(engine, await self._bound_container(engine, given), given, job)
        async with self._locks.of(given.text("id")):
            return await self.act(engine, await self._bound_container(engine, given), given, job)

    async def _bound_container(self, engine: Engine, given: Validated) -> Container:
        """The container as it is now, if it is the container of the proposal."""
        name, wanted = given.text("container"), given.text("id")
        container = await find(engine, name)
        if wanted and container.id != wanted:
            raise Refusal(
                _refusal(
                    f"{name!r} is another container by now ({container.id[:12]}, not"
                    f" {wanted[:12]!r}). Check it, and propose the action again."
                )
            )
        if not wanted and self.spec.changes:
            raise Refusal(
                _refusal(f"{name!r} is not bound to a container id. Propose the action again.")
            )
        return container

    @abstractmethod
    async def act(self, engine: Engine, container: Container, given: Validated, job: Job) -> Result:
        """Do it to this container."""


def is_name(text: str) -> bool:
    """Whether Docker could have given this name; it is safe in a path then."""
    return _NAME.fullmatch(text) is not None


async def find(engine: Engine, name: str, *, after: bool = False) -> Container:
    """The container of this name or id now; a Refusal where there is none.

    `after` a change, an engine that cannot be asked any more leaves open what became of it.
    """
    try:
        answer = await engine.ask("GET", f"/containers/{name}/json")
    except EngineError as error:
        error.sent = error.sent or after
        raise
    if not answer.ok:
        raise Refusal(failed_by(answer))
    container = answer.read(Container)
    if _ID.fullmatch(container.id) is None:
        raise EngineError("The service at this address does not answer as Docker does.")
    return container


def did(sentence: str, data: Mapping[str, Value]) -> Result:
    """It was done, or had been."""
    return Result(Outcome.RAN, exit_code=0, stdout=sentence, data=data)


def failure(
    sentence: str, category: FailureCategory, data: Mapping[str, Value] | None = None
) -> Result:
    """It could not be done."""
    code = 2 if category is FailureCategory.SYNTAX else 1
    return Result(
        Outcome.RAN, exit_code=code, stderr=sentence, category=category, data=dict(data or {})
    )


def failed_by(answer: Answer) -> Result:
    """The engine refused the request."""
    missing = answer.status == NOT_FOUND
    category = FailureCategory.NOT_FOUND if missing else FailureCategory.RUNTIME
    return failure(f"Docker refused: {answer.message}", category)


def _refusal(sentence: str) -> Result:
    return Result(Outcome.REFUSED, stderr=sentence)
