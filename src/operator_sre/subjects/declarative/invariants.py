"""Invariants that a description declares. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from operator_protocols.domain.health import Health, Severity
from operator_protocols.domain.observation import Finding, Observation, Seen, Value
from operator_sre.subjects.declarative.document import Table
from operator_sre.subjects.declarative.expression import (
    Expression,
    ExpressionError,
    Reference,
    compile_expression,
)

__all__ = ["KIND", "DeclaredInvariant", "blanks", "read_expression"]

# Among its readings, each target says what it is.
KIND = "kind"
DETAIL_CHARACTERS_MAX = 300
_BLANK = re.compile(r"\{([A-Za-z0-9_.]+)\}")
Readings = Mapping[str, Value]


def blanks(sentence: str) -> list[str]:
    """The values that a sentence has blanks for."""
    return _BLANK.findall(sentence)


def read_expression(table: Table, key: str, find_problem: Callable[[Reference], str]) -> Expression:
    """The expression under a key; an error names what is wrong with it."""
    try:
        expression = compile_expression(table.require_text(key), find_problem)
    except ExpressionError as error:
        why = str(error)
        end = "" if why.endswith("?") else "."
        raise table.wrong(f"{key!r} of {table.place}: {why.rstrip('.')}{end}", key) from error
    if not expression.references:
        raise table.wrong(f"{table.place} names no value of a probe.", key)
    return expression


@dataclass(frozen=True, slots=True)
class DeclaredInvariant:
    """An expression that must hold at targets of some kinds or names; at all when none is named.

    A value that is missing or of the wrong kind makes it UNKNOWN, unless the expression itself
    asks whether it is there and its probe was answered. `causes` are names of what may break it.
    """

    name: str
    severity: Severity
    grace_s: float
    expression: Expression
    says: str = ""
    on: frozenset[str] = frozenset()
    kinds: Mapping[str, str] = field(default_factory=dict)
    causes: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """What must hold: its name is a statement, and the expression says how it is checked."""
        return f"{self.name.replace('_', ' ')}: {self.expression.text}"

    def check(self, observation: Observation) -> Iterable[Finding]:
        """Whether it holds at every target that it speaks of."""
        others = self._others(observation)
        name, on, kinds = self.name, self.on, self.kinds
        return [
            Finding(name, seen.target, *self._judge(seen, others))
            for seen in observation.seen
            # A target of unknown kind may be one of ours.
            if not on
            or seen.target in on
            or (kind := seen.readings.get(KIND) or kinds.get(seen.target)) is None
            or kind in on
        ]

    def judge(self, seen: Seen, observation: Observation) -> tuple[Health, str]:
        """Whether it holds at one target, and why not."""
        return self._judge(seen, self._others(observation))

    def _others(self, observation: Observation) -> Mapping[str, Readings]:
        named = {reference.target for reference in self.expression.references} - {""}
        return {seen.target: seen.readings for seen in observation.seen if seen.target in named}

    def _judge(self, seen: Seen, others: Mapping[str, Readings]) -> tuple[Health, str]:
        expression, readings = self.expression, seen.readings
        values: dict[str, Value] = {}
        missing: Reference | None = None
        for variable, reference in expression.needed:
            value = (others.get(reference.target, {}) if reference.target else readings).get(
                reference.reading
            )
            if value is None:
                missing = missing or reference
            else:
                values[variable] = float(value) if value.__class__ is int else value
        # The values that has() tests, and the values that may be missing because of it.
        for variable, reference in expression.presence:
            values[variable] = _read_value(reference, readings, others) is not None
        for variable, reference in expression.optional:
            value = _read_value(reference, readings, others)
            if value is not None:
                values[variable] = float(value) if value.__class__ is int else value
        try:
            holds, problem = expression.evaluate(values), ""
        except ExpressionError as error:
            holds, problem = False, str(error)
        if holds and missing is None:
            # A value that may be missing from an answer says nothing where there is no answer.
            missing = next(
                (
                    reference
                    for _, reference in expression.presence
                    if not _has_answered(reference, readings, others)
                ),
                None,
            )
        if missing is not None and (holds or problem):
            source = others.get(missing.target, {}) if missing.target else readings
            why = source.get(f"{missing.probe}.error") or ("" if missing.target else seen.problem)
            return Health.UNKNOWN, f"{missing} was not observed" + (f": {why}" if why else "")
        if holds:
            return Health.HEALTHY, ""
        shown = ", ".join(
            f"{reference} is {_text(_read_value(reference, readings, others))}"
            for reference in expression.references
        )
        shown = shown or "it names no value"
        if problem:
            return Health.UNKNOWN, f"{expression.text!r} cannot be evaluated: {problem} ({shown})"
        # What is known decides it: `up && status < 500` is broken where nothing is up.
        detail = f"{expression.text!r} does not hold: {shown}"
        if self.says:
            texts = {name: _text(readings.get(name)) for name in blanks(self.says)}
            texts["target"] = seen.target
            detail = _BLANK.sub(lambda blank: texts[blank[1]], self.says)
        return Health.BROKEN, detail[:DETAIL_CHARACTERS_MAX]


def _read_value(reference: Reference, readings: Readings, others: Mapping[str, Readings]) -> Value:
    return (others.get(reference.target, {}) if reference.target else readings).get(
        reference.reading
    )


def _has_answered(reference: Reference, readings: Readings, others: Mapping[str, Readings]) -> bool:
    """Whether the probe of a value could be asked, and its target answered it."""
    found = others.get(reference.target, {}) if reference.target else readings
    own = f"{reference.probe}."
    return found.get(f"{own}up") is not False and any(name.startswith(own) for name in found)


def _text(value: Value) -> str:
    if value is None:
        return "not known"
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.6g}" if isinstance(value, float) else str(value)[:200]
