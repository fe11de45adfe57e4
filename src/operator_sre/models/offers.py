"""The tools that a model is offered, each with the JSON schema of its arguments."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from operator_protocols.domain.action import SHELL, TIMEOUT_S_MAX
from operator_protocols.domain.health import Severity
from operator_protocols.domain.run import Briefing
from operator_protocols.domain.tool import Parameter, ParameterType, ToolSpec
from operator_protocols.domain.verdict import Risk

__all__ = ["DIAGNOSE", "ESCALATE", "FINISH", "Offer", "Schema", "offers", "wire_name"]

Schema = dict[str, Any]

DIAGNOSE = "diagnose"
FINISH = "finish"
ESCALATE = "escalate"
OFFERS_MAX = 100
NAME_CHARS_MAX = 64
TARGETS_NAMED_MAX = 60
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
    return {
        "type": "object",
        "properties": dict(properties),
        "required": required,
        "additionalProperties": False,
    }


def _text(sentence: str) -> Schema:
    return {"type": "string", "description": sentence}


def _list(items: Schema, sentence: str) -> Schema:
    return {"type": "array", "items": items, "description": sentence}


_REASONING = _text("one or two sentences: what you expect to learn or to change, and why now")
_EVIDENCE = _object(
    {
        "sentence": _text("the observation"),
        "seq": {
            "type": ["integer", "null"],
            "description": "the seq of the block that shows it; without a seq it is only a claim",
        },
    },
    ["sentence"],
)
_HYPOTHESIS = _object(
    {
        "cause": _text("the name of the cause"),
        "target": _text("the affected target"),
        "probability": {"type": "number", "minimum": 0, "maximum": 1},
    },
    ["cause", "target", "probability"],
)
_ALTERNATIVE = _object(
    {
        "cause": _text("the name of the cause"),
        "target": _text("the affected target"),
        "supporting": _list({"type": "string"}, "evidence for it"),
        "against": _list({"type": "string"}, "evidence against it"),
        "why_rejected": _text("why it is not the cause"),
    },
    ["cause", "target", "supporting", "against", "why_rejected"],
)
_OPTION = _object(
    {
        "action": _text("the action"),
        "risk": {"type": "string", "enum": [str(risk) for risk in Risk]},
        "reversible": {"type": "boolean"},
        "trade_off": _text("its cost, and what it does not resolve"),
    },
    ["action", "risk", "reversible", "trade_off"],
)
_DIAGNOSIS = _object(
    {
        "cause": _text("the name of a known cause, or your own in a few words"),
        "target": _text("the target where the cause is"),
        "summary": _text("the cause and its effect, in one or two sentences"),
        "severity": {"type": "string", "enum": [str(severity) for severity in Severity]},
        "confidence": {"type": "number", "minimum": 0, "maximum": 1},
        "timeline": _list(_EVIDENCE, "what happened, oldest first"),
        "affected": _list({"type": "string"}, "every affected target"),
        "evidence": _list(_EVIDENCE, "why this is the cause: several readings, compared"),
        "hypotheses": _list(_HYPOTHESIS, "the possible causes and their current probabilities"),
        "alternatives": _list(_ALTERNATIVE, "two or three other causes, and why you reject them"),
        "options": _list(_OPTION, "the possible actions and their trade-offs"),
        "choice": _text("the option that you choose"),
        "why": _text("why that one"),
    },
    [
        "cause",
        "target",
        "summary",
        "severity",
        "confidence",
        "timeline",
        "affected",
        "evidence",
        "alternatives",
        "options",
        "choice",
        "why",
    ],
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
    shell = Offer(
        SHELL,
        "Run one command line in a new shell, if the gate permits it.",
        _object(
            {
                "command": _text("one command line that terminates"),
                "reasoning": _REASONING,
                "target": _target(
                    briefing, "the target where it runs; default: the machine of Operator"
                ),
                "expected": _text("the result you expect"),
                "timeout_s": {
                    "type": "number",
                    "exclusiveMinimum": 0,
                    "maximum": TIMEOUT_S_MAX,
                    "description": "timeout in seconds",
                },
            },
            ["command", "reasoning"],
        ),
    )
    taken = {shell.name, *(offer.name for offer in _ENDS)}
    typed: list[Offer] = []
    for spec in briefing.tools:
        name = wire_name(spec.name)
        if name in taken or len(typed) >= OFFERS_MAX:
            continue
        taken.add(name)
        sentences = [spec.sentence, f"Risk: {spec.risk}."]
        sentences.append("It changes the system." if spec.changes else "It is read-only.")
        if spec.undo:
            sentences.append(f"Reversible with {spec.undo}.")
        elif spec.reversible:
            sentences.append("Reversible.")
        sentences += [f"Expected: {spec.expected}"] if spec.expected else []
        properties = {parameter.name: _parameter(parameter) for parameter in spec.parameters}
        required = [
            parameter.name
            for parameter in spec.parameters
            if parameter.required and not parameter.infers
        ]
        if "target" not in properties:
            properties["target"] = _target(briefing, "the target")
        if "reasoning" not in properties:
            properties["reasoning"] = _REASONING
            required.append("reasoning")
        typed.append(Offer(name, " ".join(sentences), _object(properties, required), spec))
    return (shell, *typed, *_ENDS)


def _target(briefing: Briefing, sentence: str) -> Schema:
    names = [target.name for target in briefing.targets]
    schema = _text(sentence)
    # A schema is not a marked block, so it may contain only plain names.
    plain = names and len(names) <= TARGETS_NAMED_MAX and all(map(_NAME.fullmatch, names))
    return {**schema, "enum": names} if plain else schema


def _parameter(parameter: Parameter) -> Schema:
    schema: Schema = {**_TYPES[parameter.type], "description": parameter.sentence}
    if parameter.choices and parameter.type is ParameterType.STRING:
        schema["enum"] = list(parameter.choices)
    if parameter.minimum is not None:
        schema["minimum"] = parameter.minimum
    if parameter.maximum is not None:
        schema["maximum"] = parameter.maximum
    if parameter.infers:
        schema["description"] += f" (default: the {parameter.infers} of the ticket)"
    return schema
