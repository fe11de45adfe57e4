"""A model's tool call as a Call, and back. What makes no sense is a Misuse, never an error."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from operator_protocols.domain.action import SHELL, SHELL_S, TIMEOUT_S_MAX, Action, Argument
from operator_protocols.domain.diagnosis import Diagnosis
from operator_protocols.domain.run import Ask, Call, Diagnose, Escalate, Finish, Misuse
from operator_sre.codec import from_json, to_json
from operator_sre.models.fence import shortened
from operator_sre.models.offers import DIAGNOSE, ESCALATE, FINISH, Offer, offers, wire_name

__all__ = ["CALLS_MAX", "call_from", "called", "known_seqs"]

CALLS_MAX = 20
ARGUMENTS_CHARS_MAX = 64_000
COMMAND_CHARS_MAX = 16_000
SENTENCES_CHARS_MAX = 8_000
ITEMS_MAX = 60
SHOWN_CHARS_MAX = 2_000
DEPTH_MAX = 50
_LISTS = ("timeline", "affected", "evidence", "hypotheses", "alternatives", "options")
_CITED = ("timeline", "evidence")


class _WrongError(Exception):
    """One sentence on what is wrong with a call; it never leaves this module."""


def call_from(name: str, raw: str | Mapping[str, Any] | None, ask: Ask, *, said: str = "") -> Call:
    """What a model called. `said` stands for the reasoning of a call that brings none."""
    try:
        if not _speakable(name):
            raise _WrongError("The name of a tool is plain text.")
        table = _table(raw)
        offer = _offer(name, ask)
        match offer.name:
            case _ if offer.spec is not None:
                return _typed(offer, table, ask, said)
            case "shell":
                return _shell(table, ask, said)
            case "diagnose":
                return Diagnose(_diagnosis(table, ask))
            case "finish":
                return Finish(_text(table, "summary", SENTENCES_CHARS_MAX))
            case _:
                return Escalate(_text(table, "reason", SENTENCES_CHARS_MAX))
    except _WrongError as wrong:
        why = str(wrong)
    except (OverflowError, RecursionError):
        why = "The arguments hold a number that is too large, or are nested too deeply."
    return Misuse(wire_name(_printable(name)), _shown(raw), why)


def called(call: Call) -> tuple[str, dict[str, Any]]:
    """The tool call that says the same: its name and its arguments."""
    match call:
        case Action(tool=tool) if tool == SHELL:
            told: dict[str, Any] = {"command": call.command}
            told |= {"expected": call.expected} if call.expected else {}
            told |= {"timeout_s": call.timeout_s} if call.timeout_s != SHELL_S else {}
        case Action():
            told = {str(name): value for name, value in to_json(call.arguments).items()}
        case Diagnose():
            return DIAGNOSE, to_json(call.diagnosis)
        case Finish():
            return FINISH, {"summary": call.summary}
        case Escalate():
            return ESCALATE, {"reason": call.reason}
        case Misuse():
            return wire_name(call.name), _shown_again(call.arguments)
    named = {"target": call.target} if call.target else {}
    return wire_name(call.tool), {**named, **told, "reasoning": call.reasoning}


def known_seqs(ask: Ask) -> frozenset[int]:
    """The ledger entries that the mind has been shown."""
    shown = [ask.briefing.observation_seq, *(step.seq for step in ask.steps)]
    return frozenset(seq for seq in shown if seq is not None)


def _shown(raw: str | Mapping[str, Any] | None) -> str:
    """The arguments as they came, where they can be written at all."""
    try:
        told = raw if isinstance(raw, str) else json.dumps(raw, default=str)
    except (ValueError, TypeError, OverflowError, RecursionError):
        told = "{}"
    return shortened(_printable(told), SHOWN_CHARS_MAX)


def _shown_again(arguments: str) -> dict[str, Any]:
    try:
        found = json.loads(arguments)
    except (ValueError, RecursionError):
        return {"malformed": arguments}
    if isinstance(found, dict) and _is_flat(found):
        return found
    return {"malformed": arguments}


def _is_flat(value: object) -> bool:
    """True of what is not nested so deeply that telling it again could fail."""
    level = [value]
    for _ in range(DEPTH_MAX):
        inner = [list(one.values()) if isinstance(one, dict) else one for one in level]
        level = [each for one in inner if isinstance(one, list) for each in one]
    return not level


def _offer(name: str, ask: Ask) -> Offer:
    given = offers(ask.briefing)
    for offer in given:
        if name == offer.name or (offer.spec is not None and name == offer.spec.name):
            return offer
    names = ", ".join(offer.name for offer in given)
    raise _WrongError(f"There is no tool {name[:60]!r}; there are: {names}.")


def _table(raw: str | Mapping[str, Any] | None) -> dict[str, Any]:
    """The arguments as a table of bounded size that holds nothing but JSON."""
    if isinstance(raw, str) and len(raw) > ARGUMENTS_CHARS_MAX:
        raise _WrongError(f"The arguments are longer than {ARGUMENTS_CHARS_MAX} characters.")
    if not isinstance(raw, str):
        try:
            raw = json.dumps(raw or {}, allow_nan=False)
        except (ValueError, TypeError, RecursionError):
            raise _WrongError("The arguments are not JSON.") from None
        return _table(raw)
    try:
        found = json.loads(raw or "{}", parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        where = f" (at character {error.pos})" if isinstance(error, json.JSONDecodeError) else ""
        raise _WrongError(f"The arguments are not valid JSON{where}; call it again.") from None
    if not isinstance(found, dict):
        raise _WrongError("The arguments must be one JSON object.")
    if not all(map(_speakable, _strings(found))):
        raise _WrongError("The arguments hold characters that are not valid Unicode.")
    return found


def _no_constant(name: str) -> float:
    raise ValueError(name)


def _strings(value: object) -> Iterator[str]:
    queue = [value]
    while queue:
        one = queue.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, dict):
            queue += [*one.keys(), *one.values()]
        elif isinstance(one, list):
            queue += one


def _speakable(text: str) -> bool:
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


def _printable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _text(table: Mapping[str, Any], name: str, chars_max: int, *, default: str = "") -> str:
    value = table.get(name)
    if value is None and default:
        return default[:chars_max]
    if not isinstance(value, str) or not value.strip():
        raise _WrongError(f"{name!r} is missing: it takes a text that is not empty.")
    if len(value) > chars_max:
        raise _WrongError(f"{name!r} is longer than {chars_max} characters.")
    return value


def _target(table: Mapping[str, Any], ask: Ask) -> str:
    value = table.get("target")
    names = [target.name for target in ask.briefing.targets]
    if value is None or value == "":
        return ""
    if value not in names:
        told = ", ".join(names[:ITEMS_MAX]) or "none"
        raise _WrongError(f"There is no target {str(value)[:60]!r}; there are: {told}.")
    return str(value)


def _unknown(table: Mapping[str, Any], known: set[str], name: str) -> None:
    for one in table:
        if one not in known:
            raise _WrongError(f"{name} takes no argument {one[:60]!r}; it takes: {sorted(known)}.")


def _shell(table: Mapping[str, Any], ask: Ask, said: str) -> Action:
    _unknown(table, {"command", "reasoning", "target", "expected", "timeout_s"}, SHELL)
    reasoning = _text(table, "reasoning", SENTENCES_CHARS_MAX, default=said)
    expected = table.get("expected") or ""
    if not isinstance(expected, str) or len(expected) > SENTENCES_CHARS_MAX:
        raise _WrongError("'expected' takes a short text.")
    timeout_s = table.get("timeout_s") or SHELL_S
    if isinstance(timeout_s, bool) or not isinstance(timeout_s, int | float):
        raise _WrongError("'timeout_s' takes a number of seconds.")
    if not 0 < timeout_s <= TIMEOUT_S_MAX:
        raise _WrongError(f"'timeout_s' must be above 0 and at most {TIMEOUT_S_MAX:g}.")
    return Action(
        SHELL,
        {"command": _text(table, "command", COMMAND_CHARS_MAX)},
        target=_target(table, ask),
        reasoning=reasoning,
        expected=expected,
        timeout_s=float(timeout_s),
    )


def _typed(offer: Offer, table: dict[str, Any], ask: Ask, said: str) -> Action:
    """A call of a typed tool. Whether its arguments fit is for the tool's own check to say."""
    assert offer.spec is not None
    own = {parameter.name for parameter in offer.spec.parameters}
    reasoning = said
    if "reasoning" not in own:
        reasoning = _text(table, "reasoning", SENTENCES_CHARS_MAX, default=said)
    arguments = {
        name: _argument(name, value)
        for name, value in table.items()
        if value is not None and (name in own or name not in ("reasoning", "target"))
    }
    if "target" in own:
        given = arguments.get("target")
        target = given if isinstance(given, str) else ""
    else:
        target = _target(table, ask)
    return Action(offer.spec.name, arguments, target=target, reasoning=reasoning)


def _argument(name: str, value: object) -> Argument:
    plain = bool | int | float | str | None
    if isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list) and all(isinstance(one, plain) for one in value):
        return tuple(value)
    if isinstance(value, dict) and all(isinstance(one, plain) for one in value.values()):
        return value
    raise _WrongError(f"{name!r} is nested too deeply: it takes a value, a list or a table.")


def _diagnosis(table: dict[str, Any], ask: Ask) -> Diagnosis:
    """The diagnosis; what cites an entry that nobody was shown becomes a mere claim."""
    told = {name: [] if table.get(name) is None else table[name] for name in _LISTS} | {
        name: value for name, value in table.items() if name not in _LISTS
    }
    for name in _LISTS:
        if not isinstance(told[name], list) or len(told[name]) > ITEMS_MAX:
            raise _WrongError(f"{name!r} takes a list of at most {ITEMS_MAX} items.")
    known = known_seqs(ask)
    for name in _CITED:
        told[name] = [_evidence(one, known) for one in told[name]]
    try:
        found = from_json(Diagnosis, told)
    except msgspec.ValidationError as error:
        raise _WrongError(f"The diagnosis does not fit its schema: {str(error)[:300]}.") from None
    for name in ("cause", "target", "summary", "choice", "why"):
        _text(told, name, SENTENCES_CHARS_MAX)
    if not 0 <= found.confidence <= 1:
        raise _WrongError("'confidence' is a number from 0 to 1.")
    if not found.evidence:
        raise _WrongError("A diagnosis needs evidence: cite the seq of what you were shown.")
    return found


def _evidence(one: object, known: frozenset[int]) -> object:
    if isinstance(one, str):
        return {"sentence": one}
    if isinstance(one, dict) and isinstance(one.get("seq"), int) and one["seq"] not in known:
        return {**one, "seq": None}
    return one
