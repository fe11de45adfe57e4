"""A Cause is something wrong in the world, as data: what it predicts and what ends it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from operator_protocols.domain.action import Argument
from operator_protocols.domain.verdict import Risk

__all__ = ["Cause", "Remedy"]


@dataclass(frozen=True, slots=True)
class Remedy:
    """A tool call that removes a Cause.

    Of `arguments`, a text `{name}` stands for the reading of that name at the blamed target, and
    `{target}` for its name, also as a value of a map; where nothing was read by that name, the
    remedy cannot be used. A reading is never put into a longer text, so that nothing in it can be
    taken for a part of a script. Without any it is called with the target alone.

    What its tool says of `risk` and `reversible` counts, so that neither must be repeated here;
    `reversible` may be true of a script, because its tool, which runs any, cannot say so.
    """

    tool: str
    sentence: str
    trade_off: str
    risk: Risk = Risk.CRITICAL
    reversible: bool = False
    arguments: Mapping[str, Argument] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Cause:
    """What would be seen if this were true: probe name -> outcome -> probability.

    `kinds` are the kinds of targets that it can befall, all when none is named. `breaks` are the
    invariants that it breaks at such a target or at what depends on it, any when none is named.
    `shows` are readings of an observation at the blamed target when the cause is true. A cause
    replaces the shared cause of the same name.
    """

    name: str
    sentence: str
    prior: float
    predicts: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    remedies: tuple[Remedy, ...] = ()
    kinds: tuple[str, ...] = ()
    breaks: tuple[str, ...] = ()
    shows: Mapping[str, bool | int | float | str] = field(default_factory=dict)
