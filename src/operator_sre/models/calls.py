"""A model's tool call as a Call, and back. An invalid call becomes a Misuse, never an error.

A model that cannot call tools writes its calls as one JSON object in plain text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import msgspec

from operator_protocols.domain.action import (
    SHELL,
    SHELL_S,
    TIMEOUT_S_MAX,
    Action,
    Argument,
    Urgency,
)
from operator_protocols.domain.diagnosis import Diagnosis
from operator_protocols.domain.run import Ask, Call, Diagnose, Escalate, Finish, Misuse
from operator_protocols.domain.tool import ToolSpec
from operator_sre.codec import from_json, to_json
from operator_sre.models.fence import shorten
from operator_sre.models.offers import (
    DIAGNOSE,
    ESCALATE,
    FINISH,
    Offer,
    Schema,
    offers,
    wire_name,
)

__all__ = [
    "CALLS_MAX",
    "WrittenCalls",
    "actions_text",
    "call_from",
    "find_calls",
    "known_seqs",
    "tool_call_of",
    "turn_schema",
]

CALLS_MAX = 10
ARGUMENTS_CHARS_MAX = 64_000
COMMAND_CHARS_MAX = 16_000
SENTENCES_CHARS_MAX = 8_000
ITEMS_MAX = 60
SHOWN_CHARS_MAX = 2_000
DEPTH_MAX = 50
_LISTS = ("timeline", "affected", "evidence", "hypotheses", "alternatives", "options")
_CITED = ("timeline", "evidence")
TEXT_CHARS_MAX = 200_000
OBJECTS_MAX = 40
TRIES_MAX = 400
_SURROGATE = re.compile("[\ud800-\udfff]")

# What may stand between the calls of a text, and around them: fences, tags, separators.
_WRAPPING = r",|\[TOOL_CALLS\]|\[|\]|```[A-Za-z_]*|</?[A-Za-z_|]{1,24}>"
_BETWEEN = re.compile(rf"(?:\s|{_WRAPPING})*")
_START = re.compile(rf"^(?:[ \t]|{_WRAPPING})*(?=\{{)", re.MULTILINE)
_THOUGHTS = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)
_FORM = """\
Always answer with one JSON object and nothing else, in this form:
{{"reasoning": "your reasoning", "calls": [{{"name": "a tool", "arguments": {{...}}}}]}}
An answer has 1 to {calls_max} calls. They run in order; the next message contains their results.
The tools, with their arguments (`?` marks an optional one):
{tools}"""


class _WrongError(Exception):
    """An invalid call; never leaves this module."""


def call_from(
    name: str, raw: str | Mapping[str, Any] | None, ask: Ask, *, thoughts: str = ""
) -> Call:
    """The call that a model made; `thoughts` stand in for a missing reasoning."""
    try:
        if _SURROGATE.search(name):
            raise _WrongError("The name of a tool must be plain text.")
        table = _parse_arguments(raw)
        given = {offer.name: offer for offer in offers(ask.briefing)}
        typed = {offer.spec.name: offer for offer in given.values() if offer.spec is not None}
        offer = given.get(name) or typed.get(name)
        if offer is None:
            names = ", ".join(given)
            raise _WrongError(f"There is no tool {name[:60]!r}; there are: {names}.")
        match offer.name:
            case _ if offer.spec is not None:
                return _typed_call(offer.spec, table, ask, thoughts)
            case "shell":
                return _shell_call(table, ask, thoughts)
            case "diagnose":
                return Diagnose(_read_diagnosis(table, ask))
            case "finish":
                return Finish(_text(table, "summary", SENTENCES_CHARS_MAX))
            case _:
                return Escalate(_text(table, "reason", SENTENCES_CHARS_MAX))
    except _WrongError as wrong:
        why = str(wrong)
    except (OverflowError, RecursionError):
        why = "The arguments contain a number that is too large, or are nested too deeply."
    # The arguments as received, where they can be written as JSON.
    try:
        arguments = raw if isinstance(raw, str) else json.dumps(raw, default=str)
    except (ValueError, TypeError, OverflowError, RecursionError):
        arguments = "{}"
    return Misuse(wire_name(_printable(name)), shorten(_printable(arguments), SHOWN_CHARS_MAX), why)


def tool_call_of(call: Call) -> tuple[str, dict[str, Any]]:
    """The name and arguments of the equivalent tool call."""
    match call:
        case Action(tool=tool) if tool == SHELL:
            words: dict[str, Any] = {"command": call.command}
            words |= {"expected": call.expected} if call.expected else {}
            words |= {"timeout_s": call.timeout_s} if call.timeout_s != SHELL_S else {}
            words |= {"urgency": call.urgency} if call.urgency is not Urgency.SOON else {}
        case Action():
            words = {str(name): value for name, value in to_json(call.arguments).items()}
        case Diagnose():
            return DIAGNOSE, to_json(call.diagnosis)
        case Finish():
            return FINISH, {"summary": call.summary}
        case Escalate():
            return ESCALATE, {"reason": call.reason}
        case Misuse():
            try:
                arguments = json.loads(call.arguments)
            except (ValueError, RecursionError):
                arguments = None
            # Arguments that are nested too deeply could fail when they are sent again.
            level = [arguments]
            for _ in range(DEPTH_MAX):
                inner = [
                    list(value.values()) if isinstance(value, dict) else value for value in level
                ]
                level = [each for value in inner if isinstance(value, list) for each in value]
            if not isinstance(arguments, dict) or level:
                arguments = {"malformed": call.arguments}
            return wire_name(call.name), arguments
    named = {"target": call.target} if call.target else {}
    return wire_name(call.tool), {**named, **words, "reasoning": call.reasoning}


def known_seqs(ask: Ask) -> frozenset[int]:
    """The ledger entries that the agent has been shown."""
    shown = [ask.briefing.observation_seq, *(step.seq for step in ask.steps)]
    return frozenset(seq for seq in shown if seq is not None)


def _parse_arguments(raw: str | Mapping[str, Any] | None) -> dict[str, Any]:
    """The arguments as a JSON object of bounded size."""

    def refuse_constant(name: str) -> float:
        raise ValueError(name)

    if not isinstance(raw, str):
        try:
            raw = json.dumps(raw or {}, allow_nan=False)
        except (ValueError, TypeError, RecursionError):
            raise _WrongError("The arguments are not JSON.") from None
    if len(raw) > ARGUMENTS_CHARS_MAX:
        raise _WrongError(f"The arguments are longer than {ARGUMENTS_CHARS_MAX} characters.")
    try:
        table = json.loads(raw or "{}", parse_constant=refuse_constant)
    except (ValueError, RecursionError) as error:
        where = f" (at character {error.pos})" if isinstance(error, json.JSONDecodeError) else ""
        raise _WrongError(
            f"The arguments are not valid JSON{where}; call the tool again."
        ) from None
    if not isinstance(table, dict):
        raise _WrongError("The arguments must be one JSON object.")
    values: list[object] = [table]
    while values:
        value = values.pop()
        if isinstance(value, str) and _SURROGATE.search(value):
            raise _WrongError("The arguments contain characters that are not valid Unicode.")
        if isinstance(value, dict):
            values += [*value.keys(), *value.values()]
        elif isinstance(value, list):
            values += value
    return table


def _printable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _text(table: Mapping[str, Any], name: str, chars_max: int, *, default: str = "") -> str:
    value = table.get(name)
    if value is None and default:
        return default[:chars_max]
    if not isinstance(value, str) or not value.strip():
        raise _WrongError(f"{name!r} is missing: it must be a non-empty string.")
    if len(value) > chars_max:
        raise _WrongError(f"{name!r} is longer than {chars_max} characters.")
    return value


def _target(table: Mapping[str, Any], ask: Ask) -> str:
    value = table.get("target")
    names = [target.name for target in ask.briefing.targets]
    if value is None or value == "":
        return ""
    if value not in names:
        listed = ", ".join(names[:ITEMS_MAX]) or "none"
        raise _WrongError(f"There is no target {str(value)[:60]!r}; there are: {listed}.")
    return str(value)


def _shell_call(table: Mapping[str, Any], ask: Ask, thoughts: str) -> Action:
    known = {"command", "reasoning", "target", "expected", "timeout_s", "urgency"}
    for name in table:
        if name not in known:
            why = f"{SHELL} takes no argument {name[:60]!r}; it takes: {sorted(known)}."
            raise _WrongError(why)
    reasoning = _text(table, "reasoning", SENTENCES_CHARS_MAX, default=thoughts)
    expected = table.get("expected") or ""
    if not isinstance(expected, str) or len(expected) > SENTENCES_CHARS_MAX:
        raise _WrongError("'expected' must be a short string.")
    timeout_s = table.get("timeout_s") or SHELL_S
    if isinstance(timeout_s, bool) or not isinstance(timeout_s, int | float):
        raise _WrongError("'timeout_s' must be a number of seconds.")
    if not 0 < timeout_s <= TIMEOUT_S_MAX:
        raise _WrongError(f"'timeout_s' must be above 0 and at most {TIMEOUT_S_MAX:g}.")
    return Action(
        SHELL,
        {"command": _text(table, "command", COMMAND_CHARS_MAX)},
        target=_target(table, ask),
        reasoning=reasoning,
        expected=expected,
        timeout_s=float(timeout_s),
        urgency=_urgency(table),
    )


def _urgency(table: Mapping[str, Any]) -> Urgency:
    """How soon the model wants it done."""
    named = table.get("urgency") or Urgency.SOON
    if named not in set(Urgency):
        raise _WrongError(f"'urgency' must be one of {', '.join(Urgency)}.")
    return Urgency(named)


def _typed_call(spec: ToolSpec, table: dict[str, Any], ask: Ask, thoughts: str) -> Action:
    """A call of a typed tool, which checks its arguments itself."""
    own = {parameter.name for parameter in spec.parameters}
    reasoning = thoughts
    if "reasoning" not in own:
        reasoning = _text(table, "reasoning", SENTENCES_CHARS_MAX, default=thoughts)
    plain = bool | int | float | str | None
    arguments: dict[str, Argument] = {}
    for name, value in table.items():
        if value is None or (name not in own and name in ("reasoning", "target", "urgency")):
            continue
        if isinstance(value, list) and all(isinstance(item, plain) for item in value):
            value = tuple(value)
        elif isinstance(value, dict) and all(isinstance(item, plain) for item in value.values()):
            pass
        elif not isinstance(value, plain):
            problem = f"{name!r} is nested too deeply: it must be a value, a list or an object."
            raise _WrongError(problem)
        arguments[name] = value
    if "target" in own:
        given = arguments.get("target")
        target = given if isinstance(given, str) else ""
    else:
        target = _target(table, ask)
    urgency = _urgency({} if "urgency" in own else table)
    return Action(spec.name, arguments, target=target, reasoning=reasoning, urgency=urgency)


def _read_diagnosis(table: dict[str, Any], ask: Ask) -> Diagnosis:
    """The diagnosis; evidence that cites an entry the agent was not shown becomes a claim."""
    ticket = ask.briefing.ticket
    given = {"severity": str(ticket.severity), **table}
    given |= {name: [] for name in _LISTS if table.get(name) is None}
    for name in _LISTS:
        if not isinstance(given[name], list) or len(given[name]) > ITEMS_MAX:
            raise _WrongError(f"{name!r} must be a list of at most {ITEMS_MAX} items.")
    given["affected"] = given["affected"] or [ticket.target]
    blanks: dict[str, Any] = {"supporting": [], "against": []}
    given["alternatives"] = [
        {**blanks, **each} if isinstance(each, dict) else each for each in given["alternatives"]
    ]
    known = known_seqs(ask)
    for name in _CITED:
        cited: list[Any] = list(given[name])
        for place, item in enumerate(cited):
            if isinstance(item, str):
                cited[place] = {"sentence": item}
            elif isinstance(item, dict) and isinstance(item.get("seq"), int):
                cited[place] = {**item, "seq": item["seq"] if item["seq"] in known else None}
        given[name] = cited
    try:
        diagnosis = from_json(Diagnosis, given)
    except msgspec.ValidationError as error:
        raise _WrongError(f"The diagnosis does not fit its schema: {str(error)[:300]}.") from None
    for name in ("cause", "target", "summary", "choice", "why"):
        _text(given, name, SENTENCES_CHARS_MAX)
    if not 0 <= diagnosis.confidence <= 1:
        raise _WrongError("'confidence' must be a number from 0 to 1.")
    if not diagnosis.evidence:
        raise _WrongError("A diagnosis needs evidence: cite the seq of a result.")
    return diagnosis


@dataclass(frozen=True, slots=True)
class WrittenCalls:
    """Calls found in a text: the reasoning, and names with their arguments."""

    reasoning: str
    calls: tuple[tuple[str, Any], ...]


def turn_schema(given: Sequence[Offer], calls_max: int = CALLS_MAX) -> Schema:
    """The JSON schema of an answer: its reasoning, and calls that each fit the schema of a tool.

    Grammars of local servers permit only what a schema names, so every tool has its own.
    """
    calls: list[Schema] = [
        {
            "type": "object",
            "properties": {
                "name": {"type": "string", "enum": [offer.name]},
                "arguments": offer.schema,
            },
            "required": ["name", "arguments"],
            "additionalProperties": False,
        }
        for offer in given
    ]
    return {
        "type": "object",
        "properties": {
            "reasoning": {"type": "string", "description": "your reasoning, briefly"},
            "calls": {
                "type": "array",
                "minItems": 1,
                "maxItems": calls_max,
                "items": {"anyOf": calls},
            },
        },
        "required": ["reasoning", "calls"],
        "additionalProperties": False,
    }


def actions_text(given: Sequence[Offer], calls_max: int = CALLS_MAX) -> str:
    """The addition to the system text: the form of an answer, and the tools."""
    tools = "\n".join(f"- {offer.signature}: {offer.sentence}" for offer in given)
    return _FORM.format(tools=tools, calls_max=calls_max)


def find_calls(text: str, given: Sequence[Offer]) -> WrittenCalls | None:
    """The calls that end a text, however they are wrapped; None when it ends without calls.

    A call that a sentence only mentions is not a call: calls start on a line of their own, and
    nothing follows them. Bare calls count only with the name of a tool, so that a text about JSON
    calls nothing.
    """
    names = {offer.name for offer in given}
    bounded = _THOUGHTS.sub("", text[:TEXT_CHARS_MAX], count=1)
    for start in islice(_START.finditer(bounded), TRIES_MAX):
        tables = _read_tables(bounded, start.end())
        if tables is None:
            continue
        before = bounded[: start.start()].strip()
        head, _, last = before.rpartition("\n")
        before = head.strip() if _BETWEEN.fullmatch(last) else before
        for table in tables:
            calls = table.get("calls")
            if isinstance(calls, list):
                named = tuple(filter(None, map(_read_written, calls)))
                reasoning = table.get("reasoning")
                if named or not calls:
                    return WrittenCalls(reasoning if isinstance(reasoning, str) else before, named)
        bare = tuple(call for table in tables if (call := _read_written(table)) is not None)
        if bare and len(bare) == len(tables) and all(name in names for name, _ in bare):
            return WrittenCalls(before, bare)
    return None


def _read_tables(text: str, at: int) -> list[dict[str, Any]] | None:
    """The JSON objects from a place to the end of a text; None when anything else stands there."""
    decoder = json.JSONDecoder()
    tables: list[dict[str, Any]] = []
    while len(tables) < OBJECTS_MAX and text.startswith("{", at):
        try:
            table, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            return None
        tables.append(table)
        between = _BETWEEN.match(text, end)
        at = between.end() if between else end
    return tables if at == len(text) else None


def _read_written(table: object) -> tuple[str, Any] | None:
    if not isinstance(table, dict):
        return None
    inner = table.get("function")
    if isinstance(inner, dict):
        return _read_written(inner)
    name = table.get("name") or table.get("tool") or inner
    words = [word for word in ("arguments", "parameters", "args", "input") if word in table]
    arguments = table[words[0]] if words else None
    return None if not isinstance(name, str) or arguments is None else (name, arguments)
