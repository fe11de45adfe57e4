"""The tools that a model is offered, each with the JSON schema of its arguments."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from operator_protocols.domain.action import SHELL, TIMEOUT_S_MAX, Urgency
from operator_protocols.domain.cause import Cause
from operator_protocols.domain.run import Briefing
from operator_protocols.domain.target import dependencies_of
from operator_protocols.domain.tool import Parameter, ParameterType, ToolSource, ToolSpec
from operator_sre.models.fence import estimate_tokens
from operator_sre.models.reasoner.causes import GENERIC, VAGUE

__all__ = [
    "DIAGNOSE",
    "ESCALATE",
    "FINISH",
    "Offer",
    "Schema",
    "near_targets",
    "offers",
    "possible_causes",
    "wire_name",
]

Schema = dict[str, Any]

DIAGNOSE = "diagnose"
FINISH = "finish"
ESCALATE = "escalate"
OFFERS_MAX = 100
NAME_CHARS_MAX = 64
# Longer names, or more of them, leave no room for the tools.
TARGETS_TOKENS_MAX = 300
BOUND_SHOWN_MAX = 10_000
# The tools are sent with every turn. What exceeds this is not offered, the least useful first.
TOOLS_TOKENS_MAX = 2_850
# Useful for any incident, in this order; the others come after the tools of the subject.
_USEFUL = (
    *("check_port", "read_file", "check_script", "kill_process", "write_file"),
    "execute_script",
)
_UNSPEAKABLE = re.compile(r"[^A-Za-z0-9_-]")
_NAME = re.compile(r"[A-Za-z0-9_.:@/-]{1,80}")
_TYPES: Mapping[ParameterType, Schema] = {
    ParameterType.STRING: {"type": "string"},
    ParameterType.INTEGER: {"type": "integer"},
    ParameterType.NUMBER: {"type": "number"},
    ParameterType.BOOLEAN: {"type": "boolean"},
    ParameterType.LIST: {"type": "array", "items": {"type": "string"}},
    ParameterType.MAP: {"type": "object", "additionalProperties": {"type": "string"}},
}


@dataclass(frozen=True, slots=True)
class Offer:
    """One tool as offered to a model; `spec` is the typed tool behind it, where there is one."""

    name: str
    sentence: str
    schema: Schema
    spec: ToolSpec | None = None

    @property
    def signature(self) -> str:
        """Its name and arguments, as a model without tool calls reads them."""
        return f"{self.name}{_describe_object(self.schema)}"


def wire_name(name: str) -> str:
    """A tool's name in the characters that every API accepts."""
    return _UNSPEAKABLE.sub("_", name)[:NAME_CHARS_MAX] or "nameless"


def _describe_object(schema: Schema) -> str:
    required = schema.get("required", ())
    parts = [
        f"{name}{'' if name in required else '?'}: {_describe_type(inner)}"
        for name, inner in schema["properties"].items()
    ]
    return f"({', '.join(parts)})"


def _describe_type(schema: Schema) -> str:
    if "enum" in schema:
        return " | ".join(json.dumps(value) for value in schema["enum"])
    if schema["type"] == "array":
        return f"[{_describe_type(schema['items'])}, ...]"
    if "properties" in schema:
        return _describe_object(schema)
    return "object" if schema["type"] == "object" else str(schema["type"])


def _object(properties: Mapping[str, Schema], required: list[str]) -> Schema:
    # Without `additionalProperties` grammars permit only what is named, and it is checked anyway.
    return {"type": "object", "properties": dict(properties), "required": required}


def _text(sentence: str) -> Schema:
    return {"type": "string", "description": sentence}


def _list(items: Schema, sentence: str) -> Schema:
    return {"type": "array", "items": items, "description": sentence}


_REASONING: Schema = {"type": "string"}  # the system text says what it is
_EVIDENCE = _object(
    {
        "sentence": _text("the observation"),
        "seq": {
            "type": ["integer", "null"],
            "description": "the seq of the block that shows it",
        },
    },
    ["sentence"],
)
_ALTERNATIVE = _object(
    {
        "cause": {"type": "string"},
        "target": {"type": "string"},
        "why_rejected": _text("the evidence against it"),
    },
    ["cause", "target", "why_rejected"],
)
# Short, because a model reads it with every turn. A diagnosis may have more than it names.
_DIAGNOSIS = _object(
    {
        "cause": _text("a known cause, or your own in a few words"),
        "target": _text("where the cause is"),
        "summary": _text("cause and effect in one sentence"),
        "confidence": {"type": "number", "minimum": 0, "maximum": 1},
        "evidence": _list(_EVIDENCE, "several readings, compared"),
        "alternatives": _list(_ALTERNATIVE, "two or three other causes"),
        "choice": _text("the change that you choose"),
        "why": _text("why this one: its risk and its trade-off"),
    },
    ["cause", "target", "summary", "confidence", "evidence", "alternatives", "choice", "why"],
)
_ENDS = (
    Offer(
        DIAGNOSE,
        "Submit your diagnosis, which is required before the first change.",
        _DIAGNOSIS,
    ),
    Offer(
        FINISH,
        "Report that the incident is resolved; a new check of the system decides.",
        _object({"summary": _text("the cause and how it was resolved")}, ["summary"]),
    ),
    Offer(
        ESCALATE,
        "Stop because you cannot continue safely; an engineer takes over with your findings.",
        _object({"reason": _text("why, and what you would do next")}, ["reason"]),
    ),
)


def offers(briefing: Briefing) -> tuple[Offer, ...]:
    """Every tool a model may call: the shell, the typed tools, and the ways to end a run."""
    names = [target.name for target in briefing.targets]
    where = _text("where it runs; default: Operator's machine")
    # A schema is not a marked block, so it may contain only plain names.
    listed = estimate_tokens(json.dumps(names)) <= TARGETS_TOKENS_MAX
    plain = names and listed and all(map(_NAME.fullmatch, names))
    shell = Offer(
        SHELL,
        "Run one command line in a new shell, if the gate permits it.",
        _object(
            {
                "command": _text("one command line that terminates"),
                "reasoning": _REASONING,
                "target": {**where, "enum": names} if plain else where,
                "timeout_s": {"type": "number", "exclusiveMinimum": 0, "maximum": TIMEOUT_S_MAX},
                "urgency": {"enum": list(Urgency)},
            },
            ["command", "reasoning"],
        ),
    )
    taken = {shell.name, *(offer.name for offer in _ENDS)}
    typed: list[Offer] = []
    left = TOOLS_TOKENS_MAX - sum(map(_weigh, (shell, *_ENDS)))
    for spec in sorted(briefing.tools, key=_order_of(briefing)):
        name = wire_name(spec.name)
        if name in taken or len(typed) >= OFFERS_MAX or not _works_here(spec, briefing):
            continue
        traits = [f"Risk: {spec.risk}" if spec.changes else "Read-only"]
        if spec.undo or spec.reversible:
            traits.append(f"reversible with {spec.undo}" if spec.undo else "reversible")
        properties = {parameter.name: _parameter(parameter) for parameter in spec.parameters}
        required = [
            parameter.name
            for parameter in spec.parameters
            if parameter.required and not parameter.infers
        ]
        if "reasoning" not in properties:
            properties["reasoning"] = _REASONING
            required.append("reasoning")
        sentence = f"{spec.sentence} {', '.join(traits)}."
        offer = Offer(name, sentence, _object(properties, required), spec)
        if (weight := _weigh(offer)) <= left:
            left -= weight
            taken.add(name)
            typed.append(offer)
    return (shell, *typed, *_ENDS)


def _weigh(offer: Offer) -> int:
    """About how many tokens the tool takes in a prompt."""
    wire = {"name": offer.name, "description": offer.sentence, "parameters": offer.schema}
    return estimate_tokens(json.dumps(wire))


def _order_of(briefing: Briefing) -> Callable[[ToolSpec], int]:
    """The place of a tool: first what resolves a cause that is possible at the ticket's targets."""
    causes = possible_causes(briefing)
    resolving = {remedy.tool for cause in causes for remedy in cause.remedies}

    def place(spec: ToolSpec) -> int:
        if spec.name in resolving:
            return 0
        if spec.name.startswith(("docker_", "host_service_")):
            return 1  # where they can work at all, they are how processes are restarted
        if spec.name in _USEFUL:
            return 2 + _USEFUL.index(spec.name)
        return 10 if spec.source is ToolSource.SUBJECT else 11

    return place


def possible_causes(briefing: Briefing) -> list[Cause]:
    """The causes that are possible at the targets of the ticket and at what they need."""
    near = near_targets(briefing)
    kinds = {target.kind for target in briefing.targets if target.name in near}
    own = {cause.name for cause in briefing.causes}
    generic = [cause for cause in GENERIC if cause.name not in own | VAGUE]
    return [
        cause
        for cause in (*briefing.causes, *generic)
        if not cause.kinds or not kinds or kinds & set(cause.kinds)
    ]


def near_targets(briefing: Briefing) -> frozenset[str]:
    """The targets of the ticket, and what they need."""
    ticket = briefing.ticket
    about = {ticket.target, *(violation.target for violation in ticket.violations)}
    return frozenset(about).union(*(dependencies_of(name, briefing.targets) for name in about))


def _works_here(spec: ToolSpec, briefing: Briefing) -> bool:
    """Whether the tool can do anything for these targets, as far as that is known."""
    if spec.name.startswith("docker_"):
        return any(target.runs_at.startswith("docker://") for target in briefing.targets)
    if spec.name.startswith("host_service_"):
        away = any(target.runs_at for target in briefing.targets)
        return away or Path("/run/systemd/system").is_dir()
    return True


def _parameter(parameter: Parameter) -> Schema:
    """The schema of one argument; the tool itself checks what is left out here for brevity."""
    schema: Schema = dict(_TYPES[parameter.type])
    says_itself = parameter.type not in (ParameterType.LIST, ParameterType.MAP)
    # The ticket has what is inferred, and the name of an optional value says enough.
    if not parameter.infers and (parameter.required or not says_itself):
        schema["description"] = parameter.sentence
    if parameter.choices and parameter.type is ParameterType.STRING:
        schema["enum"] = list(parameter.choices)
    for name, bound in (("minimum", parameter.minimum), ("maximum", parameter.maximum)):
        if bound is not None and abs(bound) <= BOUND_SHOWN_MAX:
            schema[name] = bound
    return schema
