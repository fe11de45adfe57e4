"""A definition read from a file or a dict: a Workflow, or everything that is wrong with it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

import yaml

from operator_protocols.domain.action import (
    SHELL,
    SHELL_S,
    TIMEOUT_S_MAX,
    Action,
    Argument,
    Urgency,
)
from operator_protocols.domain.tool import ToolSpec
from operator_protocols.domain.workflow import Workflow, WorkflowStep
from operator_sre.executor.tools.parameters import Invalid, validate
from operator_sre.executor.workflows.carrier import ATTEMPTS_MAX
from operator_sre.executor.workflows.progress import cycle_in
from operator_sre.executor.workflows.references import action_mistakes, references_of

__all__ = ["FILE_BYTES_MAX", "STEPS_MAX", "Document", "Mistake", "parse_document", "read_workflow"]

FILE_BYTES_MAX = 256 * 1024
DEPTH_MAX = 12
STEPS_MAX = 100
ATTEMPTS_MOST = 10
TEXT_CHARS_MAX = 64 * 1024
SHOWN_CHARS = 60
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,63}")
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")
_ACTION_KEYS = (
    *("command", "argv", "tool", "arguments", "target", "cwd", "timeout_s", "venv"),
    *("reason", "expected", "urgency"),
)
_STEP_KEYS = ("id", "depends_on", "retry", "undo", *_ACTION_KEYS)
_WORKFLOW_KEYS = ("name", "subject", "steps")
Specs = Mapping[str, ToolSpec]


@dataclass(frozen=True, slots=True)
class Mistake:
    """One thing that is wrong, where, and in which line; 0 where there are no lines."""

    place: str
    sentence: str
    line: int = 0

    def __str__(self) -> str:
        line = f"line {self.line}, " if self.line else ""
        return f"{line}{self.place or 'the definition'}: {self.sentence}"


def read_workflow(
    definition: str | Mapping[str, object], tools: Iterable[ToolSpec]
) -> Workflow | tuple[Mistake, ...]:
    """The workflow, or all of its mistakes in the order of the text. Pure."""
    is_text = isinstance(definition, str)
    document = parse_document(str(definition)) if is_text else Document(definition)
    if document.trouble:
        return (Mistake("", document.trouble, document.line),)
    reader = _Reader(document, {spec.name: spec for spec in tools})
    workflow = reader.workflow(document.value)
    if reader.mistakes:
        return tuple(sorted(reader.mistakes, key=lambda mistake: mistake.line))
    return workflow


@dataclass(slots=True)
class _Reader:
    """Gathers mistakes; what it returns counts only when there are none."""

    document: Document
    tools: Specs
    mistakes: list[Mistake] = field(default_factory=list)

    def workflow(self, value: object) -> Workflow:
        table = self._table(value, "", _WORKFLOW_KEYS)
        name = self._text(table, "", "name")
        if name and not _NAME.fullmatch(name):
            self._wrong("name", "must be up to 64 letters, digits, blanks, '.', '_' or '-'")
        if not name:
            self._wrong("name", "is missing")
        steps = self._list(table.get("steps"), "steps")
        if not steps:
            self._wrong("steps", "must have at least one step")
        if len(steps) > STEPS_MAX:
            self._wrong("steps", f"has {len(steps)} steps, but at most {STEPS_MAX} are allowed")
            steps = []
        made = tuple(self._step(each, f"steps[{at}]") for at, each in enumerate(steps))
        names = [step.id for step in made]
        needs = {step.id: step.depends_on for step in reversed(made)}  # of twins the first counts
        needs = {name: needs[name] for name in dict.fromkeys(names)}
        for at, step in enumerate(made):
            place = f"steps[{at}]"
            if step.id in names[:at]:
                self._wrong(f"{place}.id", f"{_quote(step.id)} is given twice")
            for other in step.depends_on:
                if other not in needs:
                    near = difflib.get_close_matches(other, names, n=1)
                    hint = f"; did you mean {near[0]!r}?" if near else ""
                    wanted = any(each.step == other for each in references_of(step.action))
                    there = place if wanted else f"{place}.depends_on"
                    self._wrong(there, f"there is no step {_quote(other)}{hint}")
            for reference in references_of(step.undo) if step.undo else ():
                if reference.step != step.id and reference.step not in _behind(step.id, needs):
                    there = f"{place}.undo"
                    self._wrong(
                        there,
                        f"{reference.text} refers to a step that this step does not depend on",
                    )
        circle = cycle_in(needs)
        if circle:
            place = f"steps[{names.index(circle[0])}].depends_on"
            self._wrong(place, f"steps depend on each other: {' -> '.join(circle)}")
        return Workflow(name, made, subject=self._text(table, "", "subject"))

    def _step(self, value: object, place: str) -> WorkflowStep:
        table = self._table(value, place, _STEP_KEYS)
        name = self._text(table, place, "id")
        if not _ID.fullmatch(name):
            self._wrong(f"{place}.id", "must be up to 40 letters, digits, '_' or '-'")
        undo, undo_place = table.get("undo"), f"{place}.undo"
        if undo is not None:
            undo = self._action(self._table(undo, undo_place, _ACTION_KEYS), undo_place)
        action = self._action(table, place)
        needs = self._texts(table.get("depends_on"), f"{place}.depends_on")
        wanted = [each.step for each in references_of(action)]
        return WorkflowStep(
            id=name,
            action=action,
            # A step waits for every step that it refers to.
            depends_on=tuple(dict.fromkeys([*needs, *wanted])),
            attempts_max=self._attempts(table.get("retry"), f"{place}.retry"),
            undo=undo,
        )

    def _action(self, table: Mapping[str, object], place: str) -> Action:
        ways = [name for name in ("command", "argv", "tool") if table.get(name) is not None]
        if len(ways) != 1:
            self._wrong(place, "needs exactly one of 'command', 'argv' and 'tool'")
            return Action.shell("")
        if "arguments" in table and ways != ["tool"]:
            self._wrong(f"{place}.arguments", "belong to a tool")
        way = ways[0]
        if way == "command":
            command = self._text(table, place, "command")
            if not command.strip():
                self._wrong(f"{place}.command", "is empty")
            action = Action.shell(command)
        elif way == "argv":
            words = self._texts(table.get("argv"), f"{place}.argv")
            if not words:
                self._wrong(f"{place}.argv", "must start with a program")
            action = Action.program(words)
        else:
            action = Action(self._text(table, place, "tool"), self._arguments(table, place))
        cwd = self._text(table, place, "cwd") or "/"
        if not PurePosixPath(cwd).is_absolute():
            self._wrong(f"{place}.cwd", "must be an absolute path")
        action = replace(
            action,
            target=self._text(table, place, "target"),
            cwd=cwd,
            timeout_s=self._timeout(table, place, action),
            venv=self._text(table, place, "venv"),
            reasoning=self._text(table, place, "reason"),
            expected=self._text(table, place, "expected"),
            urgency=self._urgency(table, place),
        )
        for sentence in action_mistakes(action):
            self._wrong(f"{place}.{ways[0]}", sentence)
        if action.tool != SHELL:
            spec = self.tools.get(action.tool)
            if spec is None:
                near = difflib.get_close_matches(action.tool, self.tools, n=1)
                hint = f"; did you mean {near[0]!r}?" if near else "; see: operator tools list"
                self._wrong(f"{place}.tool", f"there is no tool {_quote(action.tool)}{hint}")
            else:
                later = [
                    name
                    for name, argument in action.arguments.items()
                    if "${steps." in str(argument)
                ]
                now = {
                    name: argument
                    for name, argument in action.arguments.items()
                    if name not in later
                }
                aimed = [
                    argument.name for argument in spec.parameters if argument.infers == "target"
                ]
                if action.target:
                    now |= {name: action.target for name in aimed if name not in action.arguments}
                checked = validate(spec, now)
                for error in checked.errors if isinstance(checked, Invalid) else ():
                    if not error.startswith(tuple(f"{name!r} is missing" for name in later)):
                        self._wrong(f"{place}.arguments", error.rstrip("."))
        return action

    def _arguments(self, table: Mapping[str, object], place: str) -> Mapping[str, Argument]:
        given = table.get("arguments")
        found: dict[str, Argument] = {}
        for name, value in self._table(given, f"{place}.arguments").items() if given else ():
            if isinstance(value, list):
                found[name] = tuple(self._texts(value, f"{place}.arguments.{name}"))
            elif isinstance(value, Mapping):
                found[name] = {str(key): str(inner) for key, inner in value.items()}
            elif value is None or isinstance(value, str | int | float):
                found[name] = value
            else:
                self._wrong(f"{place}.arguments.{name}", "is not a valid tool argument")
        return found

    def _attempts(self, value: object, place: str) -> int:
        """`true` is three attempts on purpose, `false` one, a number as many; unsaid is 0."""
        if value is None:
            return 0
        if isinstance(value, bool):
            return ATTEMPTS_MAX if value else 1
        if isinstance(value, int) and 1 <= value <= ATTEMPTS_MOST:
            return value
        self._wrong(
            place, f"must be true, false, or a number of attempts from 1 to {ATTEMPTS_MOST}"
        )
        return 0

    def _timeout(self, table: Mapping[str, object], place: str, action: Action) -> float:
        value = table.get("timeout_s")
        if value is None:
            spec = self.tools.get(action.tool)
            return spec.timeout_s if spec else SHELL_S
        known = isinstance(value, int | float) and not isinstance(value, bool)
        if known and 0.1 <= float(str(value)) <= TIMEOUT_S_MAX:
            return float(str(value))
        self._wrong(f"{place}.timeout_s", f"must be a number of seconds, at most {TIMEOUT_S_MAX:g}")
        return SHELL_S

    def _urgency(self, table: Mapping[str, object], place: str) -> Urgency:
        urgency = self._text(table, place, "urgency") or Urgency.SOON.value
        if urgency in set(Urgency):
            return Urgency(urgency)
        self._wrong(f"{place}.urgency", f"must be one of {', '.join(Urgency)}")
        return Urgency.SOON

    def _table(
        self, value: object, place: str, known: tuple[str, ...] = ()
    ) -> Mapping[str, object]:
        if not isinstance(value, Mapping):
            self._wrong(place, "must be a table")
            return {}
        for name in value if known else ():
            if name not in known:
                near = difflib.get_close_matches(str(name), known, n=1)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                self._wrong(f"{place}.{name}".lstrip("."), f"is not a known key{hint}")
        return value

    def _list(self, value: object, place: str) -> list[object]:
        if value is None or isinstance(value, list | tuple):
            return list(value or ())
        self._wrong(place, "must be a list")
        return []

    def _texts(self, value: object, place: str) -> list[str]:
        found = self._list(value, place)
        for at, each in enumerate(found):
            if not isinstance(each, str):
                self._wrong(f"{place}[{at}]", "must be a string")
        return [str(each) for each in found]

    def _text(self, table: Mapping[str, object], place: str, name: str) -> str:
        value = table.get(name)
        if value is None or (isinstance(value, str) and len(value) <= TEXT_CHARS_MAX):
            return value or ""
        wrong = f"must be a string of at most {TEXT_CHARS_MAX} characters"
        self._wrong(f"{place}.{name}".lstrip("."), wrong)
        return ""

    def _wrong(self, place: str, sentence: str) -> None:
        self.mistakes.append(Mistake(place, sentence, self.document.line_of(place)))


def _behind(step: str, needs: Mapping[str, tuple[str, ...]]) -> set[str]:
    found: set[str] = set()
    queue = list(needs.get(step, ()))
    while queue:
        needed = queue.pop()
        if needed not in found:
            found.add(needed)
            queue.extend(needs.get(needed, ()))
    return found


def _quote(text: str) -> str:
    return repr(text[:SHOWN_CHARS])


@dataclass(frozen=True, slots=True)
class Document:
    """The value of a text, the line of each place such as `steps[1].id`, and what is wrong."""

    value: object = None
    lines: Mapping[str, int] = field(default_factory=dict)
    trouble: str = ""
    line: int = 0

    def line_of(self, place: str) -> int:
        """The line of a place, or of what it is inside of; 0 if unknown."""
        while place and place not in self.lines:
            place = place[: max(place.rfind("."), place.rfind("["), 0)]
        return self.lines.get(place, self.lines.get("", 0))


def parse_document(text: str) -> Document:
    """Read it. Aliases are refused: a short text must not become a large value."""
    if len(text.encode("utf-8", "replace")) > FILE_BYTES_MAX:
        return Document(trouble=f"it is larger than {FILE_BYTES_MAX // 1024} kB")
    try:
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            if isinstance(event, yaml.AliasEvent):
                line = event.start_mark.line + 1 if event.start_mark else 0
                return Document(trouble="it has an alias, which is not allowed here", line=line)
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        lines: dict[str, int] = {}
        return Document(_value(node, "", lines, 0), lines)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        line = mark.line + 1 if mark else 0
        return Document(trouble=f"it cannot be read: {error.problem or error.context}", line=line)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        return Document(trouble=f"it cannot be read: {str(error).splitlines()[0]}")


def _value(node: yaml.Node | None, place: str, lines: dict[str, int], depth: int) -> object:
    if node is None:
        return None
    lines.setdefault(place, node.start_mark.line + 1)
    if depth > DEPTH_MAX:
        raise ValueError(f"it is nested deeper than {DEPTH_MAX}")
    if isinstance(node, yaml.MappingNode):
        found: dict[str, object] = {}
        for key, inner in node.value:
            name = str(key.value)
            if name in found:
                raise ValueError(f"{name[:60]!r} is given twice, in line {key.start_mark.line + 1}")
            found[name] = _value(inner, f"{place}.{name}".lstrip("."), lines, depth + 1)
        return found
    if isinstance(node, yaml.SequenceNode):
        return [
            _value(inner, f"{place}[{at}]", lines, depth + 1) for at, inner in enumerate(node.value)
        ]
    kind = node.tag.rpartition(":")[2]
    if kind not in ("null", "bool", "int", "float"):
        return str(node.value)  # a date is a text here
    loader = yaml.SafeLoader("")
    try:
        value: object = loader.construct_object(node)
        return value
    finally:
        loader.dispose()
