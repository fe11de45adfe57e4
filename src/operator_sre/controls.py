"""The controls of a subject: everything that observes it, judges its actions and runs them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from operator_protocols.domain.action import SHELL, Action, Outcome, Result
from operator_protocols.errors import OperatorError

if TYPE_CHECKING:
    # Commands that only read the store start without the stages.
    from operator_protocols.domain.cause import Cause
    from operator_protocols.domain.change import Change
    from operator_protocols.domain.entry import Actor
    from operator_protocols.domain.observation import Observation
    from operator_protocols.domain.precondition import Unmet
    from operator_protocols.domain.run import Comment, LogTail, Trend
    from operator_protocols.domain.target import Target
    from operator_protocols.domain.ticket import Ticket
    from operator_protocols.domain.verdict import Verdict
    from operator_protocols.ports import Subject, SubjectSettings
    from operator_sre.executor import Executor
    from operator_sre.executor.tools.registry import Registry
    from operator_sre.gate import Course, Gate, Turns
    from operator_sre.gate.restraint import Restraint

__all__ = ["MACHINE", "Context", "Controls", "Surroundings"]

# The subject of an action that belongs to no other.
MACHINE = "machine"
# The kind of parameter that takes the name of a target.
TARGET = "target"
TARGETS_NAMED_MAX = 20
NAME_CHARS_MAX = 60
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.:@/-]{1,60}")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The environment of every command, and how many bytes of its output are kept.

    `mark` is one more variable, whose value is new each time.
    """

    environment: Mapping[str, str]
    output_bytes_max: int
    mark: str = ""


@dataclass(frozen=True, slots=True)
class Context:
    """The last half hour around a ticket: trends of readings, the ends of logs, and changes."""

    trends: tuple[Trend, ...] = ()
    logs: tuple[LogTail, ...] = ()
    changes: tuple[Change, ...] = ()


@dataclass(frozen=True, slots=True)
class Controls:
    """Everything to operate one subject, or the machine for actions that are about no subject.

    subject     what is observed, and the parts that it consists of
    gate        judges an action and mints the permit without which nothing runs
    executor    runs the action of a permit, by a shell or by one of the subject's tools
    turns       lets one change of the subject run at a time
    restraint   says beforehand what kill switch, limits and session would refuse
    targets     the parts that commands can run at
    settings    what the plug-in of the subject was given to build it
    causes, notes, context, comments   what an agent is briefed with beside the observation
    """

    subject: Subject
    gate: Gate
    executor: Executor
    turns: Turns | None = None
    restraint: Restraint | None = None
    targets: Callable[[], Sequence[Target]] = tuple
    settings: SubjectSettings | None = None
    causes: Sequence[Cause] = ()
    notes: str = ""
    context: Callable[[Ticket], Context] = lambda _: Context()
    comments: Callable[[Ticket], tuple[Comment, ...]] = lambda _: ()

    @property
    def registry(self) -> Registry:
        """The tools of the executor, by their names."""
        from operator_sre.executor.tools.registry import Registry

        return Registry(self.executor.tools)

    def foresee(self, verdict: Verdict, requester: Actor, *, subject: str) -> Course:
        """What would come of asking for a permit now, outside a ticket. Writes nothing."""
        held = None
        if self.restraint is not None:
            held = self.restraint.foresee(verdict, subject, requester.agent)
        return self.gate.foresee(verdict, requester, held, subject=subject)

    def find_unmet(self, action: Action, observation: Observation) -> tuple[Unmet, ...]:
        """The preconditions of an action that this observation does not show to hold."""
        from operator_protocols.domain.precondition import find_unmet

        tool = self.registry.get(action.tool)
        if tool is None or not tool.spec.requires:
            return ()
        target = str(action.arguments.get("target") or action.target)
        return find_unmet(tool.spec.requires, target, self.subject.targets(), observation)

    async def complete(self, action: Action, ticket: Ticket | None = None) -> Action | Result:
        """The action with every argument that ticket and targets determine, or why it is invalid.

        A command at a remote target is bound to the machine that answers there now. A line that
        activates a known virtual environment first runs inside of it instead.
        """
        from operator_sre.executor.tools.parameters import Invalid
        from operator_sre.executor.tools.registry import known_from
        from operator_sre.executor.transports.shells import HERE, Shells
        from operator_sre.venv import enter_venv

        known = known_from(ticket, self.targets(), target=action.target)
        found = await self.registry.propose(enter_venv(action), known)
        if isinstance(found, Invalid):
            return found.result
        if refusal := self.refuse_unknown_target(found):
            return refusal
        shell = self.executor.shell
        if action.tool != SHELL or not isinstance(shell, Shells):
            return found
        try:
            place = await shell.identify(action.target)
        except OperatorError as error:
            return Result(Outcome.REFUSED, stderr=str(error))
        return replace(found, place="" if place == HERE else place)

    def refuse_unknown_target(self, action: Action) -> Result | None:
        """The refusal of an action that names a target which the subject does not have."""
        tool = self.registry.get(action.tool)
        names = (
            [parameter.name for parameter in tool.spec.parameters if parameter.infers == TARGET]
            if tool
            else []
        )
        wanted = [str(action.arguments[name]) for name in names if action.arguments.get(name)]
        known = [target.name for target in self.subject.targets()] if wanted else []
        subject = self.subject.name
        for name in wanted:
            if name not in {*known, subject}:
                # A subject may have found a name outside, and a sentence in it must not instruct.
                plain = [parameter for parameter in known if _PLAIN_NAME.fullmatch(parameter)][
                    :TARGETS_NAMED_MAX
                ]
                why = (
                    f"Refused: {subject!r} has no target {name[:NAME_CHARS_MAX]!r}."
                    f" Its targets: {', '.join(plain) or 'none'}."
                )
                return Result(Outcome.REFUSED, stderr=why)
        return None

    async def aclose(self) -> None:
        """Close the connections to the places where commands run."""
        from operator_sre.executor.transports.shells import Shells

        if isinstance(self.executor.shell, Shells):
            await self.executor.shell.aclose()
