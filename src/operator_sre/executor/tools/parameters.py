"""The arguments of a tool against what it takes: every error at once, and nothing is guessed."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from operator_protocols.domain.action import Argument, Outcome, Result
from operator_protocols.domain.category import FailureCategory
from operator_protocols.domain.tool import Parameter, ParameterType, ToolSpec

__all__ = ["Invalid", "Validated", "check_arguments", "near", "parse_pairs", "validate"]

SHOWN_MAX = 60
ERRORS_MAX = 50
WRONG = 2  # the exit code of a call that makes no sense, as programs have it
_KINDS = {
    ParameterType.STRING: "a string",
    ParameterType.INTEGER: "an integer",
    ParameterType.NUMBER: "a number",
    ParameterType.BOOLEAN: "true or false",
    ParameterType.LIST: "a list of strings",
    ParameterType.MAP: "a map of strings",
}
_FLAGS = {"true": True, "false": False}
_INTEGER = re.compile(r"-?[0-9]{1,40}")


@dataclass(frozen=True, slots=True)
class Validated:
    """Arguments that fit, with defaults filled in, and typed ways to take them."""

    arguments: Mapping[str, Argument]

    def text(self, name: str) -> str:
        """A text; "" where there is none."""
        value = self.arguments.get(name)
        return value if isinstance(value, str) else ""

    def number(self, name: str) -> float:
        """A number; 0 where there is none."""
        value = self.arguments.get(name)
        return value if isinstance(value, int | float) else 0.0

    def integer(self, name: str) -> int:
        """An integer; 0 where there is none."""
        return int(self.number(name))

    def flag(self, name: str) -> bool:
        """True or false."""
        return self.arguments.get(name) is True

    def words(self, name: str) -> tuple[str, ...]:
        """A list of texts."""
        value = self.arguments.get(name)
        return tuple(map(str, value)) if isinstance(value, tuple) else ()

    def table(self, name: str) -> dict[str, str]:
        """A table of texts."""
        value = self.arguments.get(name)
        return {key: str(each) for key, each in value.items()} if isinstance(value, Mapping) else {}


@dataclass(frozen=True, slots=True)
class Invalid:
    """Everything that is wrong with the arguments of one call; `category` where it has one."""

    tool: str
    errors: tuple[str, ...]
    category: str = ""

    @property
    def sentence(self) -> str:
        """All of it in one line."""
        sentences = " ".join(self.errors[:ERRORS_MAX])
        more = len(self.errors) - ERRORS_MAX
        return f"{self.tool}: {sentences}" + (f" And {more} more." if more > 0 else "")

    @property
    def result(self) -> Result:
        """What becomes of such a call."""
        return Result(
            Outcome.RAN,
            exit_code=WRONG,
            stderr=self.sentence,
            category=FailureCategory.SYNTAX,
            data={"errors": len(self.errors)}
            | ({"error_category": self.category} if self.category else {}),
        )


def validate(spec: ToolSpec, arguments: Mapping[str, object]) -> Validated | Invalid:
    """The arguments as the tool takes them, or all that is wrong with them. Pure."""
    names = [parameter.name for parameter in spec.parameters]
    takes = f" It takes {', '.join(names) or 'nothing'}."
    errors = [
        f"{_quote(name)} is not a parameter.{near(name, names) or takes}"
        for name in map(str, arguments)
        if name not in names
    ]
    fitting: dict[str, Argument] = {}
    for parameter in spec.parameters:
        value = arguments.get(parameter.name)
        if value is None:
            if parameter.required:
                errors.append(f"{parameter.name!r} is missing: {parameter.sentence.rstrip('.')}.")
            elif parameter.default is not None:
                fitting[parameter.name] = parameter.default
            continue
        wrong = tuple(_wrong(parameter, value))
        errors += [f"{parameter.name!r} {each}" for each in wrong]
        if not wrong:
            if isinstance(value, list | tuple):
                fitting[parameter.name] = tuple(map(str, value))
            elif isinstance(value, Mapping):
                fitting[parameter.name] = {str(key): str(each) for key, each in value.items()}
            else:
                assert isinstance(value, str | int | float)
                fitting[parameter.name] = value
    return Invalid(spec.name, tuple(errors)) if errors else Validated(fitting)


def check_arguments(spec: ToolSpec, arguments: Mapping[str, object]) -> Validated | Result:
    """The same as a Result: exit code 2, with every error."""
    found = validate(spec, arguments)
    return found.result if isinstance(found, Invalid) else found


def parse_pairs(spec: ToolSpec, pairs: Iterable[str]) -> tuple[dict[str, object], list[str]]:
    """Arguments from texts such as `name=value`, each read as its parameter's type.

    A list is given item by item, a table as `name=key=value`. What cannot be read stays a text,
    so that `validate` tells it along with everything else.
    """
    found: dict[str, object] = {}
    errors: list[str] = []
    for pair in pairs:
        name, sign, text = pair.partition("=")
        parameter = spec.parameter(name)
        kind = parameter.type if parameter else ParameterType.STRING
        if not sign:
            errors.append(f"{_quote(pair)} is not name=value.")
        elif kind is ParameterType.LIST:
            items = found.setdefault(name, [])
            assert isinstance(items, list)
            items.append(text)
        elif kind is ParameterType.MAP:
            table = found.setdefault(name, {})
            key, inner, value = text.partition("=")
            assert isinstance(table, dict)
            if not inner or key in table:
                why = f"{_quote(key)} is given twice" if inner else f"{_quote(text)} has no '='"
                errors.append(f"{name!r} takes key=value, each key once; {why}.")
            else:
                table[key] = value
        elif name in found:
            errors.append(f"{name!r} is given twice.")
        elif kind is ParameterType.BOOLEAN:
            found[name] = _FLAGS.get(text, text)
        elif kind is ParameterType.INTEGER:
            found[name] = int(text) if _INTEGER.fullmatch(text) else text
        else:
            try:
                found[name] = float(text) if kind is ParameterType.NUMBER else text
            except ValueError:
                found[name] = text
    return found, errors


def near(name: str, valid: Iterable[str]) -> str:
    """The nearest of some names as a question, or ""."""
    found = difflib.get_close_matches(name[:SHOWN_MAX], list(valid), n=1, cutoff=0.6)
    return f" Did you mean {found[0]!r}?" if found else ""


def _wrong(parameter: Parameter, value: object) -> Iterator[str]:
    """What is wrong with one value. It is never shown, because it may be a secret."""
    if not _is_of(parameter.type, value):
        yield f"must be {_KINDS[parameter.type]}, but is {_kind_of(value)}."
        return
    items = value if isinstance(value, list | tuple) else (value,)
    if parameter.choices and not all(str(item) in parameter.choices for item in items):
        yield f"must be one of {', '.join(parameter.choices)}."
    low, high = parameter.minimum, parameter.maximum
    size = value if isinstance(value, int | float) else len(value)  # type: ignore[arg-type]
    if (low is not None and size < low) or (high is not None and size > high):
        if low is None:
            bounds = f"at most {high:g}"
        else:
            bounds = f"at least {low:g}" if high is None else f"between {low:.10g} and {high:.10g}"
        unit = " characters long" if parameter.type is ParameterType.STRING else ""
        if parameter.type in (ParameterType.LIST, ParameterType.MAP):
            unit = " items long"
        yield f"must be {bounds}{unit}."


def _is_of(kind: ParameterType, value: object) -> bool:
    if kind is ParameterType.BOOLEAN or isinstance(value, bool):
        return kind is ParameterType.BOOLEAN and isinstance(value, bool)
    match kind:
        case ParameterType.STRING:
            return isinstance(value, str)
        case ParameterType.INTEGER:
            return isinstance(value, int)
        case ParameterType.NUMBER:
            return isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))
        case ParameterType.LIST:
            return isinstance(value, list | tuple) and all(isinstance(each, str) for each in value)
        case ParameterType.MAP:
            return isinstance(value, Mapping) and all(
                isinstance(key, str) and isinstance(each, str) for key, each in value.items()
            )


def _kind_of(value: object) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return "not a finite number"
    if isinstance(value, list | tuple):
        others = [each for each in value if not isinstance(each, str)]
        return f"a list with {_kind_of(others[0])} in it" if others else "a list"
    names = {bool: "true or false", int: "an integer", float: "a number", str: "a string"}
    return names.get(type(value), "a map" if isinstance(value, Mapping) else "something else")


def _quote(text: str) -> str:
    return repr(text[:SHOWN_MAX])
