"""What acts for a subject, or for the machine where a command is about none."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # Whoever only reads the store starts without the stages.
    from operator_protocols.domain.target import Target
    from operator_sre.executor import Executor
    from operator_sre.gate import Gate
    from operator_sre.gate.restraint import Restraint

__all__ = ["MACHINE", "Hands", "Surroundings"]

# What a command is about that is about no subject.
MACHINE = "machine"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What every command is started with, and how much of what it says is kept.

    `mark` is one more variable, whose value is new each time.
    """

    environment: Mapping[str, str]
    output_bytes_max: int
    mark: str = ""


@dataclass(frozen=True, slots=True)
class Hands:
    """The gate, what holds it back, and the executor behind them."""

    gate: Gate
    restraint: Restraint
    executor: Executor
    targets: Callable[[], Sequence[Target]]
