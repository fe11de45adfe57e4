"""What a run could not get past, by its category. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from operator_protocols.domain.action import Result
from operator_protocols.domain.category import ErrorCategory
from operator_protocols.domain.run import Act, Step

__all__ = ["obstacle_of"]


def obstacle_of(steps: Sequence[Step], deeds: Sequence[Step]) -> ErrorCategory | None:
    """The category of the last thing that failed with one, unless a deed went well since."""
    for step in reversed(steps):
        if not isinstance(step.want, Act) or not isinstance(step.result, Result):
            continue
        said = step.result.data.get("error_category")
        if said in tuple(ErrorCategory):
            return ErrorCategory(str(said))
        if step.result.ok and step in deeds:
            return None
    return None
