"""Calls as one JSON object in plain text, for models that cannot call tools."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from operator_sre.models.offers import Offer, Schema
from operator_sre.models.prompt import Exchange

__all__ = ["ACTION_SCHEMA", "Written", "actions_text", "exchange_texts", "written"]

TEXT_CHARS_MAX = 200_000
OBJECTS_MAX = 40
TRIES_MAX = 400
_OPENING = re.compile(r"\{")

ACTION_SCHEMA: Schema = {
    "type": "object",
    "properties": {
        "reasoning": {"type": "string", "description": "what you think, briefly"},
        "calls": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "properties": {
                    "name": {"type": "string", "description": "the name of a tool"},
                    "arguments": {"type": "object", "description": "what the tool takes"},
                },
                "required": ["name", "arguments"],
            },
        },
    },
    "required": ["reasoning", "calls"],
}
_TEXT = """\
Answer every time with one JSON object and nothing else, in this form:
{{"reasoning": "what you think", "calls": [{{"name": "a tool", "arguments": {{}}}}]}}
The calls are done in their order; what becomes of them is told in the next message.
These are the tools, each with the JSON schema of its arguments:
{tools}"""


@dataclass(frozen=True, slots=True)
class Written:
    """Calls that stood in a text: what was said with them, and names with their arguments."""

    reasoning: str
    calls: tuple[tuple[str, Any], ...]


def actions_text(given: Sequence[Offer]) -> str:
    """What is added to the system text: the form of an answer, and the tools."""
    lines = [f"- {one.name}: {one.sentence}\n  {json.dumps(one.schema)}" for one in given]
    return _TEXT.format(tools="\n".join(lines))


def exchange_texts(exchange: Exchange) -> tuple[str, str]:
    """An earlier turn as the model would have written it, and what it was told then."""
    calls = [{"name": one.name, "arguments": dict(one.arguments)} for one in exchange.calls]
    said = json.dumps({"reasoning": exchange.reasoning, "calls": calls}, ensure_ascii=False)
    told = [
        f"Result of call {place}, {one.name}:\n{one.result}"
        for place, one in enumerate(exchange.calls, start=1)
    ]
    return said, "\n\n".join(told) or "You called no tool."


def written(text: str, given: Sequence[Offer]) -> Written | None:
    """The calls that a text holds, however they are wrapped; None when it holds none.

    A whole answer in the asked form counts first. Bare calls count only by the names of tools, so
    that a text which merely talks about JSON calls nothing.
    """
    names = {offer.name for offer in given}
    bare: list[tuple[str, Any]] = []
    for found in _objects(text[:TEXT_CHARS_MAX]):
        calls = found.get("calls")
        if isinstance(calls, list):
            told = tuple(filter(None, map(_call, calls)))
            reasoning = found.get("reasoning")
            if told or not calls:
                return Written(reasoning if isinstance(reasoning, str) else "", told)
        call = _call(found)
        if call is not None and call[0] in names:
            bare.append(call)
    before = text[: text.find("{")].strip() if bare else ""
    return Written(before, tuple(bare)) if bare else None


def _call(found: object) -> tuple[str, Any] | None:
    if not isinstance(found, dict):
        return None
    inner = found.get("function")
    if isinstance(inner, dict):
        return _call(inner)
    name = found.get("name") or found.get("tool") or inner
    arguments = next(
        (found[one] for one in ("arguments", "parameters", "args", "input") if one in found), None
    )
    if not isinstance(name, str) or arguments is None:
        return None
    return name, arguments


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """The JSON objects in a text, in their order; not those inside of another."""
    decoder = json.JSONDecoder()
    at = tries = found = 0
    while tries < TRIES_MAX and found < OBJECTS_MAX:
        opening = _OPENING.search(text, at)
        if opening is None:
            return
        tries += 1
        try:
            value, at = decoder.raw_decode(text, opening.start())
        except (ValueError, RecursionError):
            at = opening.end()
            continue
        found += 1
        yield value
