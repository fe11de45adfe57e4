"""A Cause is something wrong in the world, as data: what it predicts and what ends it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from operator_protocols.domain.verdict import Risk

__all__ = ["Cause", "Remedy"]


@dataclass(frozen=True, slots=True)
class Remedy:
    """A tool call that removes a Cause."""

    tool: str
    sentence: str
    trade_off: str
    risk: Risk
    reversible: bool


@dataclass(frozen=True, slots=True)
class Cause:
    """What would be seen if this were true: probe name -> outcome -> probability."""

    name: str
    sentence: str
    prior: float
    predicts: Mapping[str, Mapping[str, float]]
    remedies: tuple[Remedy, ...] = ()
