"""What is left of a run's budget, and which part of it is used up. Pure."""

from __future__ import annotations

from operator_protocols.domain.budget import Budget

__all__ = ["used_up"]


def used_up(left: Budget, budget: Budget) -> str:
    """The first limit that was reached, as people write it; empty while there is some of each."""
    limits = (
        (left.turns_max, f"{budget.turns_max} turns"),
        (left.commands_max, f"{budget.commands_max} commands"),
        (left.seconds_max, f"{budget.seconds_max:g} s"),
        (left.tokens_max, f"{budget.tokens_max} tokens"),
        (left.usd_max, f"{budget.usd_max:g} dollars"),
    )
    return next((limit for rest, limit in limits if rest <= 0), "")
