"""Typed tools for people: which there are, and one call on the way that every action goes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from operator_protocols.domain.action import Action
from operator_protocols.domain.tool import ToolSpec
from operator_protocols.errors import UsageError
from operator_sre.app.commands import Execution, Wanted, controls_for
from operator_sre.app.redaction import open_redactor
from operator_sre.app.wiring import App
from operator_sre.codec import to_json
from operator_sre.controls import MACHINE, Controls
from operator_sre.executor.tools.parameters import Invalid, parse_pairs
from operator_sre.executor.tools.registry import known_from, state_of
from operator_sre.gate.policy import Decision

__all__ = ["Call", "Offered", "call_document", "list_tools", "propose_call", "show_tool"]

_DECISIONS = list(Decision)


@dataclass(frozen=True, slots=True)
class Offered:
    """A tool, and what the policy answers to it in the mode execute."""

    spec: ToolSpec
    approval: Decision

    @property
    def document(self) -> dict[str, Any]:
        """As programs read it."""
        return {**to_json(self.spec), "approval": self.approval}


@dataclass(frozen=True, slots=True)
class Call:
    """What a person typed: texts such as `name=value`, a document, and what it is about."""

    tool: str
    pairs: Sequence[str] = ()
    document: Mapping[str, object] | None = None
    subject: str = ""
    target: str = ""
    reason: str = ""


def list_tools(app: App, subject: str = "") -> list[Offered]:
    """Every tool that acts for a subject, or for this machine."""
    (name,) = app.choose([subject]) if subject else (MACHINE,)
    controls = app.controls(name)
    return [_view_tool(spec, controls) for spec in controls.registry.specs]


def show_tool(app: App, tool: str, subject: str = "") -> Offered:
    """One tool; the error for an unknown name suggests the nearest."""
    (name,) = app.choose([subject]) if subject else (MACHINE,)
    controls = app.controls(name)
    return _view_tool(controls.registry.get_tool(tool).spec, controls)


async def propose_call(app: App, call: Call) -> Wanted:
    """The call for the gate; one error lists everything that is wrong with it."""
    call = _read_target(app, call)
    wanted = Wanted(
        call=Action(call.tool, {}, target=call.target, reasoning=call.reason),
        subject=call.subject,
        target=call.target,
    )
    _, controls = controls_for(app, wanted)
    spec = controls.registry.get_tool(call.tool).spec
    given, errors = parse_pairs(spec, call.pairs)
    for name, value in (call.document or {}).items():
        if name in given:
            errors.append(f"{name!r} is given twice.")
        given.setdefault(name, value)
    # The values have any type here; the validation reports invalid ones.
    action = replace(wanted.action, arguments=given)  # type: ignore[arg-type]
    known = known_from(targets=controls.targets(), target=call.target)
    found = await controls.registry.propose(action, known)
    if isinstance(found, Invalid) or errors:
        wrong = found.errors if isinstance(found, Invalid) else ()
        mistakes = Invalid(call.tool, (*errors, *wrong)).sentence
        raise UsageError(mistakes, next_step=f"See: operator tools show {call.tool}")
    return replace(wanted, call=found)


def _read_target(app: App, call: Call) -> Call:
    """The call with `target=NAME` among its texts read as its target, as `--target NAME` is."""
    named = [pair.partition("=")[2] for pair in call.pairs if pair.startswith("target=")]
    if not named:
        return call
    _, controls = controls_for(
        app,
        Wanted(call=Action(call.tool, {}), subject=call.subject, target=call.target or named[0]),
    )
    parameter = controls.registry.get_tool(call.tool).spec.parameter("target")
    if parameter is not None and parameter.infers != "target":
        return call
    if len({*named, call.target} - {""}) > 1:
        raise UsageError(
            f"{call.tool}: 'target' is given twice.",
            next_step="Give it once: --target NAME, or --arg target=NAME.",
        )
    pairs = tuple(pair for pair in call.pairs if not pair.startswith("target="))
    return replace(call, target=named[0], pairs=pairs)


def call_document(app: App, executed: Execution) -> dict[str, Any]:
    """What only a call of a tool has, as programs read it, without secrets."""
    redactor = open_redactor(app.config)
    action, result = executed.verdict.action, executed.result
    entry = app.store.entries.get(executed.seq)
    return {
        "tool": action.tool,
        "arguments": redactor.value(to_json(dict(action.arguments))),
        "inferred": action.inferred,
        "state": state_of([entry.kind] if entry else (), result),
        "data": redactor.value(to_json(dict(result.data))),
        "undo": redactor.value(to_json(result.undo)) if result.undo else None,
    }


def _view_tool(spec: ToolSpec, controls: Controls) -> Offered:
    policy = controls.gate.policy()
    words = [policy.decision(spec.risk), policy.word_on(spec.name) or Decision.AUTO]
    return Offered(spec, max(words, key=_DECISIONS.index))
