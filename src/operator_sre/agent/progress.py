"""What a run did so far, and what that leaves of its budget."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from operator_protocols.domain.action import Action
from operator_protocols.domain.category import ErrorCategory
from operator_protocols.domain.run import Act, Briefing, Budget, Prove, Spent, Step, Turn
from operator_sre.agent.account import account_of, left_of, looking_tools, unproven
from operator_sre.agent.attempts import attempts_of
from operator_sre.agent.obstacles import obstacle_of

__all__ = ["Progress"]


class Progress:
    """The steps and turns of one run. `harmless` says of an action that it changes nothing."""

    def __init__(self, budget: Budget, harmless: Callable[[Action], bool]) -> None:
        self.steps: list[Step] = []
        self.turns: list[Turn] = []
        self._budget = budget
        self._harmless = harmless
        self._looking: frozenset[str] = frozenset()

    def brief(self, briefing: Briefing) -> None:
        """Which tools there are now, and which of them only look."""
        self._looking = looking_tools(briefing.tools)

    def deeds(self) -> list[Step]:
        """The steps without commands that only look."""
        return [
            one
            for one in self.steps
            if not (isinstance(one.want, Act) and self._harmless(one.want.action))
        ]

    def account(self) -> str:
        """What was tried and what came of it."""
        return account_of(self.deeds(), self._looking)

    def left_changed(self) -> str:
        """What was changed and is still so."""
        return left_of(self.deeds(), self._looking)

    def unproven(self) -> bool:
        """Whether something was changed after the last proof."""
        return unproven(self.deeds(), self._looking)

    def obstacle(self) -> ErrorCategory | None:
        """What stood in the way, if it has a category."""
        return obstacle_of(self.steps, self.deeds())

    def seen(self) -> set[int]:
        """The entries of results and proofs, which a diagnosis may cite."""
        found = [step.seq for step in self.steps if isinstance(step.want, Act | Prove)]
        return {seq for seq in found if seq is not None}

    def attempts(self) -> int:
        """How many plans were tried."""
        return attempts_of(self.steps)

    def commands(self) -> int:
        """How many actions were asked for."""
        return sum(isinstance(step.want, Act) for step in self.steps)

    def left(self, elapsed_s: float) -> Budget:
        """What is left of the budget after so many seconds."""
        spent = sum((turn.answer.spent for turn in self.turns), Spent())
        return replace(
            self._budget,
            turns_max=self._budget.turns_max - len(self.turns),
            commands_max=self._budget.commands_max - self.commands(),
            seconds_max=self._budget.seconds_max - elapsed_s,
            attempts_max=self._budget.attempts_max - self.attempts(),
            tokens_max=self._budget.tokens_max - spent.tokens,
            usd_max=self._budget.usd_max - spent.usd,
        )
