"""Invariants that a description declares. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from operator_protocols.domain.health import Health, Severity
from operator_protocols.domain.observation import Finding, Observation, Seen, Value
from operator_sre.subjects.declarative.expression import Expression, ExpressionError, Reference

__all__ = ["KIND", "DeclaredInvariant", "blanks"]

# Among its readings, each target says what it is.
KIND = "kind"
DETAIL_CHARACTERS_MAX = 300
_BLANK = re.compile(r"\{([a-z0-9_.]+)\}")
Readings = Mapping[str, Value]


def blanks(sentence: str) -> list[str]:
    """The values that a sentence has blanks for."""
    return _BLANK.findall(sentence)


@dataclass(frozen=True, slots=True)
class DeclaredInvariant:
    """An expression that must hold at targets of some kinds or names; at all when none is named.

    A value that is missing or of the wrong kind makes it UNKNOWN, unless the expression itself
    asks whether it is there.
    """

    name: str
    severity: Severity
    grace_s: float
    expression: Expression
    says: str = ""
    on: frozenset[str] = frozenset()
    kinds: Mapping[str, str] = field(default_factory=dict)

    @property
    def sentence(self) -> str:
        """What must hold, in the words of its file."""
        return self.expression.text

    def check(self, observation: Observation) -> Iterable[Finding]:
        """Whether it holds at every target that it speaks of."""
        others = self._others(observation)
        name, on = self.name, self.on
        return [
            Finding(name, seen.target, *self._judged(seen, others))
            for seen in observation.seen
            if not on or self._speaks_of(seen)
        ]

    def _speaks_of(self, seen: Seen) -> bool:
        if seen.target in self.on:
            return True
        kind = seen.readings.get(KIND) or self.kinds.get(seen.target)
        # Of what nobody can tell the kind of, it may be one of ours.
        return kind is None or kind in self.on

    def _others(self, observation: Observation) -> Mapping[str, Readings]:
        named = {reference.target for reference in self.expression.references} - {""}
        return {seen.target: seen.readings for seen in observation.seen if seen.target in named}

    def _judged(self, seen: Seen, others: Mapping[str, Readings]) -> tuple[Health, str]:
        expression, readings = self.expression, seen.readings
        values: dict[str, Value] = {}
        missing: Reference | None = None
        for variable, one in expression.needed:
            value = (others.get(one.target, {}) if one.target else readings).get(one.reading)
            if value is None:
                missing = missing or one
            else:
                values[variable] = float(value) if value.__class__ is int else value
        if expression.asked:
            _add(expression, readings, others, values)
        try:
            holds = expression.evaluate(values)
        except ExpressionError as error:
            if missing is not None:
                return Health.UNKNOWN, _unseen(missing, seen, others)
            shown = _shown(expression, readings, others)
            return Health.UNKNOWN, f"{expression.text!r} says nothing: {error} ({shown})"
        if holds and missing is not None:
            return Health.UNKNOWN, _unseen(missing, seen, others)
        if holds:
            return Health.HEALTHY, ""
        # What is known decides it: `up && status < 500` is broken where nothing is up.
        return Health.BROKEN, self._detail(seen, others)

    def _detail(self, seen: Seen, others: Mapping[str, Readings]) -> str:
        if not self.says:
            shown = _shown(self.expression, seen.readings, others)
            told = f"{self.expression.text!r} does not hold: {shown}"
        else:
            told = _BLANK.sub(lambda blank: _filled(blank[1], seen), self.says)
        return told[:DETAIL_CHARACTERS_MAX]


def _add(
    expression: Expression,
    readings: Readings,
    others: Mapping[str, Readings],
    values: dict[str, Value],
) -> None:
    """What is asked for by has(), and the values that may be missing because of that."""
    for variable, one in expression.asked:
        found = (others.get(one.target, {}) if one.target else readings).get(one.reading)
        values[variable] = found is not None
    for variable, one in expression.optional:
        found = (others.get(one.target, {}) if one.target else readings).get(one.reading)
        if found is not None:
            values[variable] = float(found) if found.__class__ is int else found


def _unseen(one: Reference, seen: Seen, others: Mapping[str, Readings]) -> str:
    readings = others.get(one.target, {}) if one.target else seen.readings
    why = readings.get(f"{one.probe}.error") or ("" if one.target else seen.problem)
    return f"{one} was not seen" + (f": {why}" if why else "")


def _shown(expression: Expression, readings: Readings, others: Mapping[str, Readings]) -> str:
    found = []
    for one in expression.references:
        value = (others.get(one.target, {}) if one.target else readings).get(one.reading)
        found.append(f"{one} is {_text(value)}")
    return ", ".join(found) or "it names no value"


def _filled(blank: str, seen: Seen) -> str:
    if blank == "target":
        return seen.target
    return _text(seen.readings.get(blank))


def _text(value: Value) -> str:
    if value is None:
        return "not known"
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.6g}" if isinstance(value, float) else str(value)[:200]
