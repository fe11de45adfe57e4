"""When an action is tried again, and after how long. Pure."""

from __future__ import annotations

from operator_protocols.domain.action import Outcome, Result
from operator_protocols.domain.category import FailureCategory

__all__ = ["ATTEMPTS_MAX", "back_off_s", "may_try_again"]

ATTEMPTS_MAX = 3
FIRST_S, LONGEST_S, BASE, JITTER_MAX = 1.0, 60.0, 2.0, 0.5
# Another attempt would say the same.
_HOPELESS = (FailureCategory.SYNTAX, FailureCategory.NOT_FOUND, FailureCategory.PERMISSION)


def back_off_s(attempt: int, chance: float) -> float:
    """How long to wait behind this attempt; `chance` from 0 to 1 spreads those who fail at once."""
    wait_s = min(LONGEST_S, FIRST_S * BASE ** (attempt - 1))
    return min(LONGEST_S, wait_s * (1.0 + JITTER_MAX * chance))


def may_try_again(result: Result, attempt: int, attempts_max: int, *, harmless: bool) -> bool:
    """Whether one more attempt may follow. `harmless` is what can be repeated without asking.

    `attempts_max` is what its definition says, 0 where it says nothing. What was refused stays so;
    of what nobody knows only the harmless is done again.
    """
    allowed = attempts_max or (ATTEMPTS_MAX if harmless else 1)
    if attempt >= allowed or result.ok or result.outcome is Outcome.REFUSED:
        return False
    if result.outcome in (Outcome.UNKNOWN, Outcome.CANCELLED):
        return harmless
    return result.category not in _HOPELESS
