"""Sentences that must hold, in CEL: read strictly, compiled once, evaluated over flat values.

Every number is a double, here and in what probes read, so that `5 / 2` is 2.5 and nothing depends
on whether a server wrote `200` or `200.0`. What an expression names is passed to it under names of
our own: converting a table of values for each of them would cost more than evaluating it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from operator_protocols.domain.observation import Value
from operator_sre.subjects.declarative.document import nearest
from operator_sre.subjects.declarative.patterns import PatternError, pattern_of

__all__ = [
    "EXPRESSION_CHARACTERS_MAX",
    "Expression",
    "ExpressionError",
    "Reference",
    "compile_expression",
]

EXPRESSION_CHARACTERS_MAX = 1000
FUNCTIONS = ("double", "has", "size", "string")
METHODS = ("contains", "endsWith", "matches", "size", "startsWith")
OTHERS = "targets"
MIXED = "it compares or computes values of different types"
_LITERALS = ("true", "false", "in")
_SYNTAX_ERROR = re.compile(r"ERROR: <input>:\d+:(\d+): (?:Syntax error: )?([^\n]{1,100})")
_TOKEN = re.compile(
    r"""\s*(?:
    (?P<text>[rR]?"(?:[^"\\\n]|\\.)*"|[rR]?'(?:[^'\\\n]|\\.)*')
    |(?P<number>(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?![A-Za-z0-9_.]))
    |(?P<word>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<sign>&&|\|\||==|!=|<=|>=|[-+*/<>!?:()\[\],.])
    )""",
    re.VERBOSE,
)


class ExpressionError(ValueError):
    """What is wrong with an expression, in one sentence."""


class _Program(Protocol):
    """A compiled expression."""

    def execute(self, context: dict[str, Any]) -> Any:
        """Its value."""
        ...


@dataclass(frozen=True, slots=True)
class Reference:
    """A value that an expression names: a field of a probe, at another target when one is named."""

    probe: str
    field: str
    target: str = ""

    @property
    def reading(self) -> str:
        """What it is called among the readings of its target."""
        return f"{self.probe}.{self.field}"

    def __str__(self) -> str:
        where = f'{OTHERS}["{self.target}"].' if self.target else ""
        return f"{where}{self.reading}"


@dataclass(frozen=True, slots=True)
class Expression:
    """A compiled expression and the values that it names; has() tests those in `presence`.

    `needed` are the variables with the values without which the result is unknown, `optional` those
    whose absence the expression itself asks for. `kinds` and `alike` are what CEL would let pass: a
    number never equals a text, so that `status != "500"` would hold for ever.
    """

    text: str
    program: _Program
    needed: tuple[tuple[str, Reference], ...]
    optional: tuple[tuple[str, Reference], ...]
    presence: tuple[tuple[str, Reference], ...]
    kinds: tuple[tuple[str, type], ...] = ()
    alike: tuple[tuple[str, str], ...] = ()

    @property
    def references(self) -> tuple[Reference, ...]:
        """Everything that it names, once."""
        named = (*self.needed, *self.optional, *self.presence)
        return tuple(dict.fromkeys(reference for _, reference in named))

    def evaluate(self, values: dict[str, Value]) -> bool:
        """Whether it holds for variables by name; ExpressionError where that makes no sense."""
        for name, kind in self.kinds:
            if name in values and values[name].__class__ is not kind:
                raise ExpressionError(MIXED)
        for left, other in self.alike:
            both = left in values and other in values
            if both and values[left].__class__ is not values[other].__class__:
                raise ExpressionError(MIXED)
        try:
            value = self.program.execute(values)
        except ArithmeticError as error:
            why = "it divides by zero, or a number is too large"
            raise ExpressionError(why) from error
        except TypeError as error:
            raise ExpressionError(MIXED) from error
        except (LookupError, RuntimeError, ValueError) as error:
            why = str(error).splitlines()[0][:80] if str(error) else repr(error)
            raise ExpressionError(f"it cannot be computed: {why}") from error
        if value is not True and value is not False:
            raise ExpressionError(f"its result {value!r:.60} is neither true nor false")
        return value


def compile_expression(text: str, known: Callable[[Reference], str]) -> Expression:
    """An expression ready to be evaluated. `known` says what is wrong with a reference, or ""."""
    import cel

    if len(text) > EXPRESSION_CHARACTERS_MAX:
        raise ExpressionError(f"it is longer than {EXPRESSION_CHARACTERS_MAX} characters")
    reader = _Reader(text, known)
    try:
        cel.compile(text)
    except (ValueError, RuntimeError) as error:
        # What the parser says, without the expression and its own drawing.
        match = re.search(
            r"ERROR: <input>:\d+:(\d+): (?:Syntax error: )?([^\n]{1,100})", str(error)
        )
        if match is None:
            raise ExpressionError("it cannot be parsed") from error
        why = f"at character {match[1]}: {match[2].partition(' expecting ')[0]}"
        raise ExpressionError(why) from error
    words = reader.rewrite()
    kinds, alike = _find_comparisons(words)
    tested = set(reader.presence)
    variables = reader.variables.items()
    return Expression(
        text=text,
        program=cel.compile(" ".join(words)),
        needed=tuple((name, reference) for reference, name in variables if reference not in tested),
        optional=tuple((name, reference) for reference, name in variables if reference in tested),
        presence=tuple((name, reference) for reference, name in reader.presence.items()),
        kinds=kinds,
        alike=alike,
    )


def _find_comparisons(
    words: list[str],
) -> tuple[tuple[tuple[str, type], ...], tuple[tuple[str, str], ...]]:
    """What is tested for being equal: variables with a kind of literal, and with each other."""
    kinds: dict[tuple[str, type], None] = {}
    alike: dict[tuple[str, str], None] = {}
    for place in range(1, len(words) - 1):
        left, sign, right = words[place - 1 : place + 2]
        if sign == "in":
            right = words[place + 2] if right == "[" else ""
        elif sign not in ("==", "!="):
            continue
        elif words[place + 2 : place + 3] == ["."]:
            continue  # what a method says of it is compared, not the value
        left_kind, other = _kind(left), _kind(right)
        if left_kind is Reference and other is Reference:
            alike[left, right] = None
        elif left_kind is Reference and other is not None:
            kinds[left, other] = None
        elif other is Reference and left_kind is not None:
            kinds[right, left_kind] = None
    return tuple(kinds), tuple(alike)


def _kind(word: str) -> type | None:
    """What a word of a rewritten expression is: a kind of literal, or a Reference."""
    if word in ("true", "false"):
        return bool
    if word[:1] in "vh" and word[1:].isdecimal():
        return Reference
    if word[:1] in ("'", '"') or word[:2] in ("r'", 'r"', "R'", 'R"'):
        return str
    return float if word[:1].isdecimal() else None


class _Reader:
    """Walks through the tokens of an expression and rewrites it with variables of our own."""

    def __init__(self, text: str, known: Callable[[Reference], str]) -> None:
        self._known = known
        self._place = 0
        self._tokens: list[tuple[str, str]] = []
        self.variables: dict[Reference, str] = {}
        self.presence: dict[Reference, str] = {}
        place, end = 0, len(text.rstrip())
        while place < end:
            match = _TOKEN.match(text, place)
            if match is None:
                rest, hint = text[place:].lstrip(), ""
                if rest.startswith("%"):
                    hint = ": every number is a double, which has no remainder"
                elif rest.startswith(("=", "&", "|")):
                    hint = ": it is '==', '&&' or '||'"
                raise ExpressionError(f"{rest[:12]!r} is not supported{hint}")
            assert match.lastgroup is not None
            self._tokens.append((match.lastgroup, match[match.lastgroup]))
            place = match.end()
        if not self._tokens:
            raise ExpressionError("it is empty")

    def rewrite(self) -> list[str]:
        """The words of the expression as it is compiled."""
        words: list[str] = []
        while self._place < len(self._tokens):
            kind, text = self._take()
            if kind == "number":
                words.append(repr(float(text)))
            elif kind == "word":
                words.append(self._rewrite_word(text))
            elif text == "." and self._peek()[0] == "word":
                _, name = self._take()
                if name not in METHODS or self._peek()[1] != "(":
                    raise ExpressionError(f"{name!r} is not known here. {nearest(name, METHODS)}")
                if name == "matches":
                    self._check_pattern()
                words += [".", name]
            else:
                words.append(text)
        return words

    def _rewrite_word(self, word: str) -> str:
        if word in _LITERALS:
            return word
        if word == "has":
            # `has(probe.field)` becomes a variable that is true or false.
            usage = "has() takes one value, such as has(page.status)"
            self._expect("(", usage)
            kind, word = self._take()
            if kind != "word":
                raise ExpressionError(usage)
            reference = self._read_reference(word)
            self._expect(")", usage)
            return self.presence.setdefault(reference, f"h{len(self.presence)}")
        if word in FUNCTIONS and self._peek()[1] == "(":
            return word
        reference = self._read_reference(word)
        return self.variables.setdefault(reference, f"v{len(self.variables)}")

    def _read_reference(self, word: str) -> Reference:
        target = ""
        if word == OTHERS:
            how = f'another target is named as {OTHERS}["name"].probe.value'
            self._expect("[", how)
            kind, quoted = self._take()
            if kind != "text" or "\\" in quoted:
                raise ExpressionError(how)
            target = quoted[1:-1]
            self._expect("]", how)
            self._expect(".", how)
            kind, word = self._take()
        if self._peek()[1] != ".":
            known = (*FUNCTIONS, *_LITERALS)
            hint = nearest(word, known) if self._peek()[1] == "(" else ""
            raise ExpressionError(f"{word!r} is not known; a value is probe.field. {hint}".strip())
        self._take()
        kind, field = self._take()
        reference = Reference(word, field if kind == "word" else "", target)
        if problem := self._known(reference):
            raise ExpressionError(problem)
        return reference

    def _check_pattern(self) -> None:
        """A pattern stands in the expression itself, so that it is known to be harmless."""
        after = self._tokens[self._place + 1 : self._place + 3]
        if len(after) < 2 or after[0][0] != "text" or after[1][1] != ")":
            raise ExpressionError("matches() takes one pattern in quotes")
        quoted = after[0][1]
        raw = quoted[0] in "rR"
        pattern = quoted[2:-1] if raw else quoted[1:-1].replace("\\\\", "\\")
        try:
            pattern_of(pattern)
        except PatternError as error:
            raise ExpressionError(f"{pattern[:40]!r} is not a valid pattern: {error}") from error

    def _take(self) -> tuple[str, str]:
        token = self._peek()
        self._place += 1
        return token

    def _peek(self) -> tuple[str, str]:
        inside = self._place < len(self._tokens)
        return self._tokens[self._place] if inside else ("end", "")

    def _expect(self, sign: str, otherwise: str) -> None:
        if self._take()[1] != sign:
            raise ExpressionError(otherwise)
