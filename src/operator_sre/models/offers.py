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


def wire_name(name: str) -> str:
    """A tool's name in the letters that every API takes."""
    return _UNSPEAKABLE.sub("_", name)[:NAME_CHARS_MAX] or "nameless"


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
        "sentence": _text("what was seen"),
        "seq": {
            "type": ["integer", "null"],
            "description": "the seq of the block that shows it; without one it is a mere claim",
        },
    },
    ["sentence"],
)
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


def offers(briefing: Briefing) -> tuple[Offer, ...]:
    """Everything that may be called: the shell, every typed tool, and the ways to end a run."""
    shell = Offer(
        SHELL,
        "It runs one command line in a fresh shell, if the gate lets it.",
        _object(
            {
                "command": _text("one command line, which ends by itself"),
                "reasoning": _REASONING,
                "target": _target(
                    briefing, "the target where it runs; left out: the operator's machine"
                ),
                "expected": _text("what you expect to see when it works"),
                "timeout_s": {
                    "type": "number",
                    "exclusiveMinimum": 0,
                    "maximum": TIMEOUT_S_MAX,
                    "description": "how many seconds it may take",
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
        sentences.append("It changes something." if spec.changes else "It only looks.")
        if spec.undo:
            sentences.append(f"{spec.undo} takes it back.")
        elif spec.reversible:
            sentences.append("It can be taken back.")
        sentences += [f"Expected: {spec.expected}"] if spec.expected else []
        properties = {one.name: _parameter(one) for one in spec.parameters}
        required = [one.name for one in spec.parameters if one.required and not one.infers]
        if "target" not in properties:
            properties["target"] = _target(briefing, "the target that it is about")
        if "reasoning" not in properties:
            properties["reasoning"] = _REASONING
            required.append("reasoning")
        typed.append(Offer(name, " ".join(sentences), _object(properties, required), spec))
    return (shell, *typed, *_ENDS)


def _target(briefing: Briefing, sentence: str) -> Schema:
    names = [target.name for target in briefing.targets]
    schema = _text(sentence)
    # A schema is no block: what is more than a name is told among the targets only.
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
        schema["description"] += f" (the {parameter.infers} of the ticket when left out)"
    return schema
