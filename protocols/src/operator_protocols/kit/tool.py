"""A typed tool around one function: its arguments are checked, and every failure is a Result."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from operator_protocols.domain.action import Action, Argument, Outcome, Result
from operator_protocols.domain.category import FailureCategory
from operator_protocols.domain.observation import Value
from operator_protocols.domain.target import Target
from operator_protocols.domain.tool import Parameter, ParameterType, Prepared, ToolSpec
from operator_protocols.errors import OperatorError
from operator_protocols.kit.machine import rotate
from operator_protocols.ports import Job

__all__ = [
    "Act",
    "Arguments",
    "Call",
    "CheckedTool",
    "Done",
    "RefusedCall",
    "TypedTool",
    "check_arguments",
    "find_target",
    "rotate_log_of",
]

Arguments = Mapping[str, Argument]
SYNTAX_EXIT = 2  # as programs exit on arguments that they do not understand
_TYPES: Mapping[ParameterType, type | tuple[type, ...]] = {
    ParameterType.STRING: str,
    ParameterType.INTEGER: int,
    ParameterType.NUMBER: (int, float),
    ParameterType.BOOLEAN: bool,
    ParameterType.LIST: (list, tuple),
    ParameterType.MAP: Mapping,
}


class RefusedCall(Exception):
    """A call ends here, with this sentence for its Result."""

    def __init__(self, why: str, category: FailureCategory = FailureCategory.RUNTIME) -> None:
        super().__init__(why)
        self.category = category


@dataclass(frozen=True, slots=True)
class Done:
    """What was done, in a sentence and in numbers, and the action that undoes it."""

    sentence: str
    data: Mapping[str, Value] = field(default_factory=dict)
    undo: Action | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """One call: checked arguments with their defaults, and a job that has the time it may take."""

    arguments: Arguments
    job: Job

    def text(self, name: str) -> str:
        """An argument that is a text; "" where there is none."""
        value = self.arguments.get(name)
        return value if isinstance(value, str) else ""

    def integer(self, name: str) -> int:
        """An argument that is an integer; 0 where there is none."""
        value = self.arguments.get(name)
        return value if isinstance(value, int) else 0


Act = Callable[[Call], Awaitable[Done]]


@dataclass(frozen=True, slots=True)
class TypedTool:
    """One function as a Tool.

    `act` raises RefusedCall, OperatorError, OSError or TimeoutError where it does not do it. It is
    cancelled when its time is up, unless it `ends_itself`, as one whose driver cannot be cancelled.
    """

    spec: ToolSpec
    act: Act
    ends_itself: bool = False

    async def call(self, arguments: Arguments, job: Job) -> Result:
        """Check the arguments and act. A failure is a Result."""
        loop = asyncio.get_running_loop()
        started_s = loop.time()
        within_s = min(job.timeout_s, self.spec.timeout_s)
        try:
            given = check_arguments(self.spec, arguments)
            async with asyncio.timeout(None if self.ends_itself else within_s):
                done = await self.act(Call(given, replace(job, timeout_s=within_s)))
        except RefusedCall as refused:
            result = _fail(str(refused), refused.category)
        except TimeoutError:
            why = f"{self.spec.name} did not finish within {within_s:g} s; check it before a retry."
            result = _fail(why, FailureCategory.TIMEOUT)
        except (OperatorError, OSError) as problem:
            result = _fail(str(problem), FailureCategory.RUNTIME)
        else:
            result = Result(
                Outcome.RAN, exit_code=0, stdout=done.sentence, data=done.data, undo=done.undo
            )
        return replace(result, duration_s=round(loop.time() - started_s, 4))


@dataclass(frozen=True, slots=True)
class CheckedTool(TypedTool):
    """A tool that looks, when it is proposed, for what speaks against it.

    `check` raises RefusedCall where something does, and changes nothing.
    """

    check: Callable[[Call], Awaitable[None]] | None = None

    async def prepare(self, arguments: Arguments) -> Prepared:
        """What speaks against it now; a system that does not answer is for the call to report."""
        try:
            given = check_arguments(self.spec, arguments)
            if self.check is not None:
                await self.check(Call(given, Job()))
        except RefusedCall as refused:
            return Prepared(flaws=(str(refused),), category=refused.category)
        except (OperatorError, OSError):
            return Prepared()
        return Prepared()


def check_arguments(spec: ToolSpec, arguments: Arguments) -> dict[str, Argument]:
    """The arguments with defaults; RefusedCall names the first that is unknown or does not fit."""
    for name in arguments:
        if spec.parameter(name) is None:
            takes = ", ".join(parameter.name for parameter in spec.parameters)
            problem = f"{name[:60]!r} is not a parameter; it takes {takes}."
            raise RefusedCall(f"{spec.name}: {problem}", FailureCategory.SYNTAX)
    given: dict[str, Argument] = {}
    for parameter in spec.parameters:
        value = arguments.get(parameter.name)
        given[parameter.name] = parameter.default if value is None else value
        problem = ""
        if value is None and parameter.required:
            problem = f"{parameter.name!r} is missing: {parameter.sentence}."
        elif value is not None and not _fits(parameter, value):
            problem = f"{parameter.name!r} is not valid: {parameter.sentence}."
        if problem:
            raise RefusedCall(f"{spec.name}: {problem}", FailureCategory.SYNTAX)
    return given


def find_target(targets: Iterable[Target], name: Argument, *kinds: str) -> Target:
    """The target of that name and of one of these kinds; RefusedCall lists those there are."""
    known = [target for target in targets if target.kind in kinds]
    for target in known:
        if target.name == name:
            return target
    names = ", ".join(target.name for target in known) or "none"
    raise RefusedCall(
        f"There is no {' or '.join(kinds)} {str(name)[:60]!r}; there are: {names}.",
        FailureCategory.NOT_FOUND,
    )


async def rotate_log_of(target: Target) -> Done:
    """Copy the log of a target, compress the copy and empty the log; only on this machine."""
    if not target.log or target.runs_at:
        raise RefusedCall(
            f"The log of {target.name} is not on this machine.", FailureCategory.PERMISSION
        )
    try:
        before, copy = await asyncio.to_thread(rotate, Path(target.log))
    except OSError as problem:
        raise RefusedCall(f"The log of {target.name} cannot be rotated: {problem}.") from problem
    size = f"{before / (1 << 20):.0f} MB"
    return Done(
        f"Rotated the log of {target.name}; {size} are kept in {copy}.",
        {"changed": True, "before_bytes": before, "copy": copy},
    )


def _fits(parameter: Parameter, value: Argument) -> bool:
    kind = _TYPES[parameter.type]
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        return False
    if parameter.choices and value not in parameter.choices:
        return False
    size = value if isinstance(value, int | float) else len(value or ())
    low, high = parameter.minimum, parameter.maximum
    numeric = parameter.type in (ParameterType.INTEGER, ParameterType.NUMBER)
    low = 0 if low is None and numeric else low
    return (low is None or low <= size) and (high is None or size <= high)


def _fail(why: str, category: FailureCategory) -> Result:
    code = SYNTAX_EXIT if category is FailureCategory.SYNTAX else 1
    return Result(Outcome.RAN, exit_code=code, stderr=why, category=category)
