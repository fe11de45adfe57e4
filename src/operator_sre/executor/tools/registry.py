"""The one registry of typed tools: by name, validated, and completed before anybody judges them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from operator_protocols.domain.action import SHELL, SHELL_S, Action, Argument, Outcome, Result
from operator_protocols.domain.entry import Kind
from operator_protocols.domain.target import Target
from operator_protocols.domain.ticket import Ticket
from operator_protocols.domain.tool import Prepared, ToolSpec, ToolState
from operator_protocols.errors import ConfigError, NotFoundError
from operator_protocols.ports import Preparing, Tool
from operator_sre.executor.tools.parameters import (
    Invalid,
    Validated,
    check_arguments,
    near,
    validate,
)

__all__ = ["Known", "Registry", "infer_arguments", "known_from", "state_of"]

# What a violation says of itself beside its target, such as `region=7`.
_TOLD = re.compile(r"\b(key|node|region)=([A-Za-z0-9_.:/@-]{1,128})")
_OVER = (Kind.TOOL_RESULT, Kind.TOOL_CALL, Kind.REFUSED, Kind.PERMIT_MINTED, Kind.VERDICT)


@dataclass(frozen=True, slots=True)
class Known:
    """What a ticket determines: by what a parameter infers, every value that it could have."""

    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def only(self, kind: str) -> str:
        """The one value that is possible; "" where there is none, or a choice."""
        found = self.values.get(kind, ())
        return found[0] if len(found) == 1 else ""


class Registry:
    """Tools by their names, each once."""

    def __init__(self, tools: Iterable[Tool]) -> None:
        self._tools: dict[str, Tool] = {}
        for tool in tools:
            name = tool.spec.name
            if name in self._tools or name == SHELL:
                raise ConfigError(
                    f"There are two tools with the name {name!r}.",
                    next_step="Remove the plug-in that brings the second one.",
                )
            self._tools[name] = tool

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)

    @property
    def tools(self) -> Sequence[Tool]:
        """All of them, in the order in which they came."""
        return tuple(self._tools.values())

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """What they say of themselves."""
        return tuple(tool.spec for tool in self._tools.values())

    def get(self, name: str) -> Tool | None:
        """One of them."""
        return self._tools.get(name)

    def get_tool(self, name: str) -> Tool:
        """One of them, or an error with the nearest name."""
        if name not in self._tools:
            hint = near(name, self._tools).strip() or "See them with: operator tools list"
            raise NotFoundError(f"There is no tool {name[:60]!r}.", next_step=hint)
        return self._tools[name]

    async def propose(self, action: Action, known: Known | None = None) -> Action | Invalid:
        """A call as the gate is to judge it: completed from the ticket and the world, validated.

        Command lines and unknown tools stay as they are: the gate answers them.
        """
        tool = self.get(action.tool)
        if tool is None:
            return action
        spec = tool.spec
        call = infer_arguments(spec, action, known or Known())
        prepared = Prepared()
        if isinstance(tool, Preparing):
            prepared = await tool.prepare(call.arguments)
            missing = {
                name: value
                for name, value in prepared.arguments.items()
                if call.arguments.get(name) is None
            }
            expected = prepared.expected or call.expected
            call = _with_arguments(replace(call, expected=expected), missing)
        found = validate(spec, call.arguments)
        if isinstance(found, Invalid):
            return found
        if prepared.flaws:
            return Invalid(spec.name, prepared.flaws, prepared.category)
        # The value of the call, else of the proposal, else of the tool.
        timeout = found.arguments.get("timeout_s")
        if isinstance(timeout, int | float) and timeout > 0:
            timeout_s = float(timeout)
        else:
            timeout_s = spec.timeout_s if action.timeout_s == SHELL_S else action.timeout_s
        expected = call.expected or spec.expected
        return replace(call, arguments=found.arguments, timeout_s=timeout_s, expected=expected)

    def check_call(self, action: Action) -> Validated | Result:
        """The arguments of a call that is about to run, or why it cannot run."""
        tool = self.get(action.tool)
        if tool is None:
            return Invalid(action.tool, ("There is no such tool.",)).result
        return check_arguments(tool.spec, action.arguments)


def infer_arguments(spec: ToolSpec, action: Action, known: Known) -> Action:
    """The action with missing arguments filled in from the ticket, and marked as inferred."""
    added: dict[str, Argument] = {}
    for parameter in spec.parameters:
        if parameter.infers and action.arguments.get(parameter.name) is None:
            value = known.only(parameter.infers)
            if not value and parameter.infers == "target":
                value = action.target
            if value:
                added[parameter.name] = value
    return _with_arguments(action, added)


def known_from(
    ticket: Ticket | None = None, targets: Iterable[Target] = (), *, target: str = ""
) -> Known:
    """What a ticket says: its targets, and the keys, nodes and regions that it names. Pure."""
    names = [target] if target else []
    details: list[str] = []
    if ticket is not None and not target:
        names += [ticket.target, *(each.target for each in ticket.violations)]
    if ticket is not None:
        details = [each.detail for each in ticket.violations]
    found: dict[str, list[str]] = {"target": [name for name in names if name]}
    nodes = {each.name for each in targets if each.kind == "node"}
    found["node"] = [name for name in found["target"] if name in nodes]
    for detail in details:
        for kind, value in _TOLD.findall(detail):
            found.setdefault(kind, []).append(value)
    return Known({kind: tuple(dict.fromkeys(values)) for kind, values in found.items()})


def state_of(kinds: Iterable[Kind], result: Result | None = None) -> ToolState:
    """Where a call stands, by what the ledger holds of it. Pure.

    A judged call was validated, a refused call never started, and a call with an unknown
    outcome is not completed.
    """
    held = set(kinds)
    newest = next((kind for kind in _OVER if kind in held), None)
    match newest:
        case None:
            return ToolState.PROPOSED
        case Kind.TOOL_CALL:
            return ToolState.EXECUTING
        case Kind.REFUSED:
            return ToolState.CANCELLED
        case Kind.TOOL_RESULT if result is not None:
            if result.outcome in (Outcome.CANCELLED, Outcome.REFUSED):
                return ToolState.CANCELLED
            return ToolState.COMPLETED if result.ok else ToolState.FAILED
        case Kind.TOOL_RESULT:
            return ToolState.FAILED
    return ToolState.VALIDATED


def _with_arguments(action: Action, more: Mapping[str, Argument]) -> Action:
    if not more:
        return action
    names = tuple(dict.fromkeys((*action.inferred, *more)))
    return replace(action, arguments={**action.arguments, **more}, inferred=names)
