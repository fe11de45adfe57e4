"""What a step says of earlier ones, and how their words get into its arguments: never as code."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from operator_protocols.domain.action import SHELL, Action, Argument, Result
from operator_protocols.domain.observation import Value
from operator_protocols.domain.workflow import Passed, Workflow
from operator_sre.shell.holes import HOLE, line_trouble, quote, words_trouble

__all__ = [
    "PASSED_BYTES_MAX",
    "SAMPLE",
    "Reference",
    "action_mistakes",
    "insert_data",
    "passed_on",
    "references_of",
    "with_samples",
]

PASSED_BYTES_MAX = 64 * 1024
# Stands for data that does not exist yet, when an action is only judged.
SAMPLE = "DATA"
_REFERENCE = re.compile(
    r"\$\{steps\.([A-Za-z0-9_-]{1,40})\.(?:(stdout|stderr|exit_code)|data\.([A-Za-z0-9_-]{1,64}))\}"
)
_LOOSE = re.compile(r"\$\{\s*steps\b[^}]{0,80}\}?")


@dataclass(frozen=True, slots=True)
class Reference:
    """What one step wants of another: one of its streams, its exit code, or one of its data."""

    step: str
    name: str
    text: str

    def value_of(self, passed: Passed) -> Value:
        """Its value. LookupError when the step has none."""
        if self.name.startswith("data."):
            return passed.data[self.name.removeprefix("data.")]
        value: str | int | None = getattr(passed, self.name)
        if value is None:
            raise LookupError(self.name)
        return value


def references_of(action: Action) -> tuple[Reference, ...]:
    """Everything that an action wants of other steps, in order."""
    return tuple(
        Reference(found[1], found[2] or f"data.{found[3]}", found[0])
        for text in _texts(action)
        for found in _REFERENCE.finditer(text)
    )


def action_mistakes(action: Action) -> list[str]:
    """What is wrong with the references of an action, whatever the steps are."""
    found = [
        f"{bad!r} is not a valid reference; it must be ${{steps.ID.stdout}}, .stderr, .exit_code or"
        " .data.NAME"
        for text in _texts(action)
        for bad in _LOOSE.findall(_REFERENCE.sub("", text))
    ]
    if any(HOLE in text for text in _texts(action)):
        found.append("it contains a NUL byte")
    elif not found and references_of(action):
        if action.tool != SHELL:
            trouble = ""
        elif action.argv:
            trouble = words_trouble([_REFERENCE.sub(HOLE, word) for word in action.argv])
        else:
            trouble = line_trouble(_REFERENCE.sub(HOLE, action.command))
        found += [f"{trouble}"] if trouble else []
    return found


def insert_data(action: Action, passed: Mapping[str, Passed]) -> Action | str:
    """The action with what was passed on in place of its references, or why it cannot be had.

    A command line gets each as one quoted argument; an argument that is nothing but a reference
    keeps its type.
    """
    problems: list[str] = []

    def value(reference: Reference) -> Value:
        try:
            found = reference.value_of(passed[reference.step])
        except LookupError:
            problems.append(f"step {reference.step!r} has no {reference.name} to pass on")
            return ""
        if HOLE in str(found):
            problems.append(f"what {reference.text} stands for contains a NUL byte")
        return found

    filled = _fill(action, value)
    if problems:
        return f"{problems[0]}."
    return filled if _reads_the_same(action, filled, passed) else "The data would change the line."


def with_samples(action: Action) -> Action:
    """The action with a harmless word for every reference, for judging it beforehand."""
    return _fill(action, lambda reference: SAMPLE) if references_of(action) else action


def passed_on(workflow: Workflow, step: str, result: Result) -> Passed | str:
    """What those behind a step ask of it, whole; or why it cannot be passed on."""
    wanted = {
        each.name
        for other in workflow.steps
        for action in (other.action, other.undo)
        if action is not None
        for each in references_of(action)
        if each.step == step
    }
    keys = {name.removeprefix("data.") for name in wanted if name.startswith("data.")}
    streams = {name: getattr(result, name) for name in ("stdout", "stderr") if name in wanted}
    if streams and result.truncated:
        return "its output was truncated, and only complete output can be passed on"
    data = {name: value for name, value in result.data.items() if name in keys}
    size = sum(
        len(str(each).encode("utf-8", "replace")) for each in [*streams.values(), *data.values()]
    )
    if size > PASSED_BYTES_MAX:
        return f"it would pass on {size} bytes, but at most {PASSED_BYTES_MAX} are allowed"
    # As `$(...)` has it: lines end where the next word begins.
    values = {name: text.rstrip("\n") for name, text in streams.items()}
    code = result.exit_code if "exit_code" in wanted else None
    return Passed(values.get("stdout"), values.get("stderr"), code, data)


def _texts(action: Action) -> Iterator[str]:
    yield action.target
    for value in action.arguments.values():
        if isinstance(value, str):
            yield value
        elif isinstance(value, Mapping):
            yield from (str(each) for each in value.values() if isinstance(each, str))
        elif isinstance(value, tuple | list):
            yield from (each for each in value if isinstance(each, str))


def _fill(action: Action, value: Callable[[Reference], Value]) -> Action:
    as_line = action.tool == SHELL and not action.argv

    def text(found: re.Match[str]) -> str:
        values = str(value(_reference(found)))
        return quote(values) if as_line else values

    def one(given: Value) -> Value:
        if not isinstance(given, str):
            return given
        whole = _REFERENCE.fullmatch(given)
        if whole and action.tool != SHELL:
            return value(_reference(whole))
        return _REFERENCE.sub(text, given)

    def every(given: Argument) -> Argument:
        if isinstance(given, Mapping):
            return {name: one(inner) for name, inner in given.items()}
        if isinstance(given, tuple | list):
            return tuple(one(inner) for inner in given)
        return one(given)

    arguments = {name: every(given) for name, given in action.arguments.items()}
    return replace(action, arguments=arguments, target=str(one(action.target)))


def _reference(found: re.Match[str]) -> Reference:
    return Reference(found[1], found[2] or f"data.{found[3]}", found[0])


def _reads_the_same(action: Action, filled: Action, passed: Mapping[str, Passed]) -> bool:
    """The last guard: word by word the line is what it was, with data where references stood."""
    if action.tool != SHELL or action.argv or not references_of(action):
        return True
    wanted = iter(references_of(replace(action, target="")))
    try:
        before = shlex.split(_REFERENCE.sub(HOLE, action.command))
        behind = shlex.split(filled.command)
    except ValueError:
        return False

    def fill_next(hole: re.Match[str]) -> str:
        reference = next(wanted)
        return str(reference.value_of(passed[reference.step]))

    return [re.sub(HOLE, fill_next, word) for word in before] == behind
