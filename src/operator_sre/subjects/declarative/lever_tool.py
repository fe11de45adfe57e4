"""Levers as typed tools: a command of a description, run where its target runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from operator_protocols.domain.action import Action, Argument, Outcome, Result
from operator_protocols.domain.category import FailureCategory
from operator_protocols.domain.target import Target
from operator_protocols.domain.tool import Parameter, ParameterType, Prepared, ToolSource, ToolSpec
from operator_protocols.domain.verdict import Risk
from operator_protocols.errors import OperatorError
from operator_protocols.ports import Job, SubjectSettings
from operator_sre.subjects.declarative.commands import HERE, UNREACHABLE, locate, refusal
from operator_sre.subjects.declarative.description import speaks_of
from operator_sre.subjects.declarative.lever import Lever

__all__ = ["LeverTool", "spec_of"]

VALUE_CHARACTERS_MAX = 200
WRONG = 2


class _Unfit(Exception):
    """Why a call makes no sense."""


def spec_of(lever: Lever) -> ToolSpec:
    """Its description for agents, the gate and people; the command is a part of that.

    So the approver reads what will run, and a permit does not outlive a change of it. A lever that
    repairs nothing specific needs approval whatever its risk.
    """
    target = Parameter("target", "the target", infers="target")
    return ToolSpec(
        name=lever.tool,
        sentence=f"{lever.sentence.rstrip('.')}.",
        parameters=(target, *lever.parameters),
        risk=lever.risk if lever.is_tied or lever.risk is not Risk.LOW else Risk.MEDIUM,
        changes=True,
        reversible=lever.reversible,
        source=ToolSource.SUBJECT,
        idempotent=lever.idempotent,
        undo=lever.undo,
        expected=_explain(str(lever.command), lever),
        timeout_s=lever.timeout_s,
        ends=lever.ends,
        verify=f"These hold: {', '.join(lever.proves)}." if lever.proves else "",
        settle_s=lever.settle_s,
        exclusive=True,
        requires=lever.requires,
        on=tuple(sorted(lever.on)),
    )


def _explain(command: str, lever: Lever) -> str:
    where = f" at {lever.at}" if lever.at else ""
    return f"It runs `{command}`{where}. {lever.expected}".strip()


@dataclass(frozen=True, slots=True)
class LeverTool:
    """One lever, ready to be pulled."""

    lever: Lever
    settings: SubjectSettings

    @property
    def spec(self) -> ToolSpec:
        """Its description for agents and the gate."""
        return spec_of(self.lever)

    async def call(self, arguments: Mapping[str, Argument], job: Job) -> Result:
        """Run its command at the target. A failure is a Result."""
        shell, failed = self.settings.shell, partial(Result, Outcome.RAN, exit_code=WRONG)
        if shell is None:
            return failed(stderr="Commands cannot be run here.", category=FailureCategory.RUNTIME)
        try:
            action = self._action(arguments)
        except _Unfit as error:
            return failed(stderr=str(error), category=FailureCategory.SYNTAX)
        if why := refusal(action, self.settings, reviewed=True):
            return Result(Outcome.REFUSED, stderr=f"{self.lever.name}: {why}")
        limited = replace(job, timeout_s=min(job.timeout_s, self.lever.timeout_s))
        try:
            action = await locate(action, shell)
            result = await shell.run(action, limited)
        except UNREACHABLE as error:
            return Result(Outcome.REFUSED, stderr=f"The command cannot run there: {error}")
        if result.ok and not result.stdout.strip():
            where = action.target or "this machine"
            return replace(result, stdout=f"{self.lever.name} ran at {where}")
        return result

    async def prepare(self, arguments: Mapping[str, Argument]) -> Prepared:
        """What speaks against it before anybody is asked: that its command never runs."""
        try:
            action = self._action(arguments)
        except _Unfit as error:
            return Prepared(flaws=(str(error),))
        why = refusal(action, self.settings, reviewed=True)
        flaws = (f"{why.rstrip('.')}.",) if why else ()
        return Prepared(expected=_explain(action.command, self.lever), flaws=flaws)

    async def recover(self, arguments: Mapping[str, Argument], job: Job) -> Result:
        """What became of a call whose operator is gone; it starts nothing."""
        shell = self.settings.shell
        try:
            action = self._action(arguments)
            if shell is not None:
                return await shell.recover(action, job)
        except (_Unfit, *UNREACHABLE) as error:
            return Result(Outcome.UNKNOWN, stderr=str(error))
        return Result(Outcome.UNKNOWN, stderr="Its result is unknown.")

    def _action(self, arguments: Mapping[str, Argument]) -> Action:
        """The command for these arguments; _Unfit with the first that makes no sense."""
        known = {parameter.name for parameter in self.spec.parameters}
        for name in arguments:
            if name not in known:
                names = ", ".join(parameter.name for parameter in self.spec.parameters)
                raise _Unfit(f"{self.lever.tool} takes {names}, not {name[:40]!r}.")
        given = {
            parameter.name: _write_word(parameter, arguments.get(parameter.name, parameter.default))
            for parameter in self.lever.parameters
        }
        wanted = arguments.get("target")
        try:
            targets = [
                target for target in self.settings.targets() if speaks_of(self.lever.on, target)
            ]
        except OperatorError as error:
            raise _Unfit(str(error)) from error
        for target in targets:
            if target.name == wanted:
                return self._place(self.lever.command.action(target, given), target)
        names = ", ".join(target.name for target in targets[:10])
        raise _Unfit(f"{self.lever.tool} is for {names or 'no target'}, not {wanted!r:.60}.")

    def _place(self, action: Action, target: Target) -> Action:
        """The action at the place where the lever runs."""
        if not self.lever.at:
            return action
        if self.lever.at == HERE:
            return self.lever.command.at(action, None)
        for other in self.settings.targets():
            if other.name == self.lever.at:
                return self.lever.command.at(action, other)
        raise _Unfit(f"{self.lever.tool} runs at {self.lever.at!r}, which is not a target.")


def _write_word(parameter: Parameter, value: Argument) -> str:
    """A value as one word of a command. It is never taken for an option, nor split."""
    name = repr(parameter.name)
    match parameter.type:
        case ParameterType.INTEGER if isinstance(value, int) and not isinstance(value, bool):
            word = str(value)
        case ParameterType.NUMBER if isinstance(value, int | float) and not isinstance(value, bool):
            word = f"{value:g}"
        case ParameterType.BOOLEAN if isinstance(value, bool):
            return "true" if value else "false"
        case ParameterType.STRING if isinstance(value, str):
            word = value
        case _:
            raise _Unfit(f"{name} must be of type {parameter.type}.")
    if isinstance(value, int | float):
        low, high = parameter.minimum, parameter.maximum
        if (low is not None and value < low) or (high is not None and value > high):
            raise _Unfit(f"{name} must be {low} to {high}.")
    elif parameter.choices and word not in parameter.choices:
        raise _Unfit(f"{name} must be one of: {', '.join(parameter.choices)}.")
    elif not parameter.choices and (word.startswith("-") or not word.isprintable() or not word):
        raise _Unfit(
            f"{name} must not be empty, start with '-', or contain unprintable characters."
        )
    if len(word) > VALUE_CHARACTERS_MAX:
        raise _Unfit(f"{name} is longer than {VALUE_CHARACTERS_MAX} characters.")
    return word
