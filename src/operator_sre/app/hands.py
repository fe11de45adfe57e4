"""What acts for a subject, or for the machine where a command is about none."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from operator_protocols.domain.action import SHELL, Action, Outcome, Result
from operator_protocols.errors import OperatorError

if TYPE_CHECKING:
    # Whoever only reads the store starts without the stages.
    from operator_protocols.domain.target import Target
    from operator_protocols.domain.ticket import Ticket
    from operator_protocols.ports import SubjectSettings
    from operator_sre.executor import Executor
    from operator_sre.executor.tools.registry import Registry
    from operator_sre.executor.transports.shells import Shells
    from operator_sre.gate import Gate
    from operator_sre.gate.restraint import Restraint

__all__ = ["MACHINE", "Hands", "Surroundings"]

# What a command is about that is about no subject.
MACHINE = "machine"
# What a parameter infers that takes the name of a target.
TARGET = "target"
KNOWN_TOLD_MAX = 20
NAME_CHARS_MAX = 60


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
    """The gate, what holds it back, the executor behind them, and the tools that it knows.

    `parts` are all that a subject knows of itself: its targets, and what is no process.
    """

    gate: Gate
    restraint: Restraint
    executor: Executor
    targets: Callable[[], Sequence[Target]]
    parts: Callable[[], Sequence[Target]]
    registry: Registry
    shells: Shells
    settings: SubjectSettings

    async def propose(self, action: Action, ticket: Ticket | None = None) -> Action | Result:
        """An action completed from what is known, or what is wrong with it."""
        from operator_sre.executor.tools.parameters import Invalid
        from operator_sre.executor.tools.registry import known_from
        from operator_sre.executor.transports.shells import HERE

        known = known_from(ticket, self.targets(), target=action.target)
        found = await self.registry.proposed(action, known)
        if isinstance(found, Invalid):
            return found.result
        reachable = self.known(found)
        if isinstance(reachable, Result):
            return reachable
        try:
            place = await self.shells.identify(action.target) if action.tool == SHELL else ""
        except OperatorError as error:
            return Result(Outcome.REFUSED, stderr=str(error))
        return replace(found, place="" if place == HERE else place)

    def known(self, action: Action) -> Action | Result:
        """The action, or why it is never begun: it names a target that nobody here knows."""
        tool = self.registry.get(action.tool)
        names = [one.name for one in tool.spec.parameters if one.infers == TARGET] if tool else []
        wanted = [str(action.arguments[name]) for name in names if action.arguments.get(name)]
        there = [one.name for one in self.parts()] if wanted else []
        for name in wanted:
            if name not in {*there, self.settings.name}:
                told = ", ".join(there[:KNOWN_TOLD_MAX]) or "none"
                why = (
                    f"Refused: {self.settings.name!r} has no target {name[:NAME_CHARS_MAX]!r}."
                    f" Its targets: {told}."
                )
                return Result(Outcome.REFUSED, stderr=why)
        return action
