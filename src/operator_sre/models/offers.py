"""The tools that a model is offered, each with the JSON schema of its arguments."""

from __future__ import annotations

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
    """One tool as a model knows it; `spec` is the typed tool behind it, where there is one."""

    name: str
    sentence: str
    schema: Schema
    spec: ToolSpec | None = None


def offers(briefing: Briefing) -> tuple[Offer, ...]:
    """Everything that may be called: the shell, every typed tool, and the ways to end a run."""
    own = (_shell(briefing), *_ENDS)
    taken = {offer.name for offer in own}
    typed: list[Offer] = []
    for spec in briefing.tools:
        name = wire_name(spec.name)
        if name not in taken and len(typed) < OFFERS_MAX:
            taken.add(name)
            typed.append(Offer(name, _sentence(spec), _schema(spec, briefing), spec))
    return (own[0], *typed, *own[1:])


def wire_name(name: str) -> str:
    """A tool's name in the letters that every API takes."""
    return _UNSPEAKABLE.sub("_", name)[:NAME_CHARS_MAX] or "nameless"


def _sentence(spec: ToolSpec) -> str:
    told = [spec.sentence, f"Risk: {spec.risk}."]
    told.append("It changes something." if spec.changes else "It only looks.")
    if spec.undo:
        told.append(f"{spec.undo} takes it back.")
    elif spec.reversible:
        told.append("It can be taken back.")
    if spec.expected:
        told.append(f"Expected: {spec.expected}")
    return " ".join(told)


def _schema(spec: ToolSpec, briefing: Briefing) -> Schema:
    properties = {one.name: _property(one) for one in spec.parameters}
    required = [one.name for one in spec.parameters if one.required and not one.infers]
    if "target" not in properties:
        properties["target"] = _target(briefing, "the target that it is about")
    if "reasoning" not in properties:
        properties["reasoning"] = _REASONING
        required.append("reasoning")
    return _object(properties, required)


def _property(parameter: Parameter) -> Schema:
    found: Schema = {**_TYPES[parameter.type], "description": parameter.sentence}
    if parameter.choices and parameter.type is ParameterType.STRING:
        found["enum"] = list(parameter.choices)
    if parameter.minimum is not None:
        found["minimum"] = parameter.minimum
    if parameter.maximum is not None:
        found["maximum"] = parameter.maximum
    if parameter.infers:
        found["description"] += f" (the {parameter.infers} of the ticket when left out)"
    return found


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


def _target(briefing: Briefing, sentence: str) -> Schema:
    names = [target.name for target in briefing.targets]
    found = _text(sentence)
    # A schema is no block: what is more than a name is told among the targets only.
    plain = names and len(names) <= TARGETS_NAMED_MAX and all(map(_NAME.fullmatch, names))
    return {**found, "enum": names} if plain else found


_REASONING = _text("one or two sentences: what you expect to learn or to change, and why now")
_EVIDENCE = _object(
    {
        "sentence": _text("what was seen"),
        "seq": {
            "type": ["integer", "null"],
            "description": "the seq of the block that shows it; without one it is a mere claim",
        },
    },
    ["sentence"],
)


def _shell(briefing: Briefing) -> Offer:
    properties = {
        "command": _text("one command line, which ends by itself"),
        "reasoning": _REASONING,
        "target": _target(briefing, "the target where it runs; left out: the operator's machine"),
        "expected": _text("what you expect to see when it works"),
        "timeout_s": {
            "type": "number",
            "exclusiveMinimum": 0,
            "maximum": TIMEOUT_S_MAX,
            "description": "how many seconds it may take",
        },
    }
    sentence = "It runs one command line in a fresh shell, if the gate lets it."
    return Offer(SHELL, sentence, _object(properties, ["command", "reasoning"]))


_HYPOTHESIS = _object(
    {
        "cause": _text("its name"),
        "target": _text("where"),
        "probability": {"type": "number", "minimum": 0, "maximum": 1},
    },
    ["cause", "target", "probability"],
)
_ALTERNATIVE = _object(
    {
        "cause": _text("its name"),
        "target": _text("where"),
        "supporting": _list({"type": "string"}, "what speaks for it"),
        "against": _list({"type": "string"}, "what speaks against it"),
        "why_rejected": _text("why it is not the cause"),
    },
    ["cause", "target", "supporting", "against", "why_rejected"],
)
_OPTION = _object(
    {
        "action": _text("what could be done"),
        "risk": {"type": "string", "enum": [str(one) for one in Risk]},
        "reversible": {"type": "boolean"},
        "trade_off": _text("what it costs and what it leaves undone"),
    },
    ["action", "risk", "reversible", "trade_off"],
)
_DIAGNOSIS = _object(
    {
        "cause": _text("the name of a known cause, or your own in a few words"),
        "target": _text("the target that is to blame"),
        "summary": _text("what is happening, in one or two sentences"),
        "severity": {"type": "string", "enum": [str(one) for one in Severity]},
        "confidence": {"type": "number", "minimum": 0, "maximum": 1},
        "timeline": _list(_EVIDENCE, "what happened, oldest first"),
        "affected": _list({"type": "string"}, "every target that suffers"),
        "evidence": _list(_EVIDENCE, "why this is the cause; several readings, compared"),
        "hypotheses": _list(_HYPOTHESIS, "what it could be, and how probable each is now"),
        "alternatives": _list(_ALTERNATIVE, "two or three others, and why they are rejected"),
        "options": _list(_OPTION, "what could be done, each with its price"),
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
        "It hands in your diagnosis, which is required before the first change.",
        _DIAGNOSIS,
    ),
    Offer(
        FINISH,
        "You believe that it is over; fresh looks at the system decide.",
        _object({"summary": _text("what was wrong and what ended it")}, ["summary"]),
    ),
    Offer(
        ESCALATE,
        "You cannot go on safely; a person takes over with all that you know.",
        _object({"reason": _text("why, and what you would do next")}, ["reason"]),
    ),
)
