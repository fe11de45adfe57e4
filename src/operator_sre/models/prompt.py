"""What a model is told: one conversation, bounded, with all that came from outside in blocks."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from operator_protocols.domain.action import Action, Outcome, Result
from operator_protocols.domain.proof import Proof
from operator_protocols.domain.run import (
    Act,
    Ask,
    Budget,
    Call,
    Diagnose,
    Escalate,
    Finish,
    Misuse,
    Prove,
    Step,
    Turn,
)
from operator_sre.models.briefing import opening_text
from operator_sre.models.calls import called
from operator_sre.models.fence import Fence, cleaned, shortened
from operator_sre.models.guidance import system_text

__all__ = ["Conversation", "Exchange", "Said", "conversation"]

# About 12,000 tokens: enough for an incident, and a dozen turns of it fit into a run's budget.
CONTEXT_CHARS_MAX = 48_000
CONTEXT_CHARS_MIN = 6_000
SCRIPT_TOOL = "execute_script"
_NOT_DONE = "Not done: an earlier call of the same turn ended it, or the budget was used up."


@dataclass(frozen=True, slots=True)
class Said:
    """One call of an earlier turn, with what became of it."""

    id: str
    name: str
    arguments: Mapping[str, Any]
    result: str


@dataclass(frozen=True, slots=True)
class Exchange:
    """One earlier turn: what the mind said and called, and what it was told."""

    reasoning: str
    calls: tuple[Said, ...]

    @property
    def chars(self) -> int:
        """How long it is, about."""
        inside = (len(one.result) + len(json.dumps(one.arguments)) + 40 for one in self.calls)
        return len(self.reasoning) + sum(inside)


@dataclass(frozen=True, slots=True)
class Conversation:
    """All that a model is told: `closing` is what is new with every turn."""

    system: str
    opening: str
    exchanges: tuple[Exchange, ...]
    closing: str

    @property
    def chars(self) -> int:
        """How long it is, about."""
        told = len(self.system) + len(self.opening) + len(self.closing)
        return told + sum(exchange.chars for exchange in self.exchanges)


@dataclass(frozen=True, slots=True)
class _Lengths:
    """How many characters of each part of an earlier turn are told again."""

    reasoning: int
    result: int
    argument: int


def conversation(
    ask: Ask,
    *,
    redact: Callable[[str], str] = str,
    chars_max: int = CONTEXT_CHARS_MAX,
    guidance: str = "",
) -> Conversation:
    """The conversation so far. Old results are shortened first, then the oldest turns left out.

    `chars_max` bounds all of it but the system text, which is always the same; `guidance` is what
    the people of this home add to that.
    """
    briefing = ask.briefing
    chars_max = max(chars_max, CONTEXT_CHARS_MIN)
    fence = Fence(briefing.ticket.run or f"ticket {briefing.ticket.id}", redact=redact)
    scripts = any(spec.name == SCRIPT_TOOL for spec in briefing.tools)
    system = system_text(fence.boundary, scripts=scripts, guidance=guidance)
    opening = opening_text(briefing, fence, chars_max=chars_max // 2)
    closing = _closing(ask)
    room = chars_max - len(opening) - len(closing)
    exchanges = _fitting(ask.turns, fence, room, chars_max)
    left_out = len(ask.turns) - len(exchanges)
    if left_out:
        opening += f"\n\nThe first {left_out} turns of this run are left out for want of room."
    return Conversation(system, opening, exchanges, closing)


def _fitting(
    turns: Sequence[Turn], fence: Fence, room: int, chars_max: int
) -> tuple[Exchange, ...]:
    """The newest turns in full, older ones shortened, the oldest not at all."""
    full = _Lengths(chars_max // 20, chars_max // 8, chars_max // 10)
    short = _Lengths(400, 500, 300)
    kept: list[Exchange] = []
    levels = [full, short]
    for number, turn in reversed(list(enumerate(turns))):
        exchange = _exchange(turn, number, fence, levels[0])
        if exchange.chars > room and levels[0] is full:
            levels.pop(0)
            exchange = _exchange(turn, number, fence, short)
        if exchange.chars > room and kept:  # the newest is told in any case
            break
        room -= exchange.chars
        kept.append(exchange)
    return tuple(reversed(kept))


def _exchange(turn: Turn, number: int, fence: Fence, lengths: _Lengths) -> Exchange:
    answer = turn.answer
    by = f"[{answer.by} answered in your place: {answer.note}] " if answer.by else ""
    said = fence.redacted(by + answer.reasoning)
    reasoning = shortened(cleaned(said), lengths.reasoning)
    calls = []
    for place, (call, step) in enumerate(_paired(answer.calls, turn.steps)):
        name, arguments = called(call)
        shown = _briefly(_without_secrets(arguments, fence), lengths.argument)
        result = _told(call, step, fence, lengths.result)
        calls.append(Said(f"c{number:04d}{place:04d}", name, shown, result))
    return Exchange(reasoning, tuple(calls))


def _paired(calls: Sequence[Call], steps: Sequence[Step]) -> Iterator[tuple[Call, Step | None]]:
    """Each call with its step; a call that was never begun has none."""
    left = list(steps)
    for call in calls:
        begun = left and _is_step_of(left[0], call)
        yield call, left.pop(0) if begun else None


def _is_step_of(step: Step, call: Call) -> bool:
    match call:
        case Action():
            return isinstance(step.want, Act) and step.want.action == call
        case Finish():
            return isinstance(step.want, Prove)
        case Diagnose():  # claims in it are marked, and one that lacks something is a misuse
            refused = isinstance(step.want, Misuse) and step.want.name == "diagnose"
            return refused or isinstance(step.want, Diagnose)
        case Misuse():
            return step.want == call
        case Escalate():
            return False


def _without_secrets(value: Any, fence: Fence, name: str = "") -> Any:
    """The value of an argument without secrets, which are told by their form or by its name."""
    match value:
        case Mapping():
            return {
                fence.redacted(str(inner)): _without_secrets(one, fence, str(inner))
                for inner, one in value.items()
            }
        case list() | tuple():
            return [_without_secrets(one, fence, name) for one in value]
        case str() if (told := fence.redacted(value)) != value:
            return told
        case bool() | None:
            return value
    pair = json.dumps({name: value}, ensure_ascii=False)
    told = fence.redacted(pair)
    try:
        return value if told == pair else next(iter(json.loads(told).values()))
    except ValueError:  # a number was taken out
        return told


def _briefly(value: Any, chars_max: int) -> Any:
    if isinstance(value, str):
        return shortened(cleaned(value), chars_max)
    if isinstance(value, Mapping):
        return {cleaned(str(name)): _briefly(one, chars_max) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_briefly(one, chars_max) for one in value]
    return value


def _told(call: Call, step: Step | None, fence: Fence, chars_max: int) -> str:
    if step is None:
        return _NOT_DONE
    match step.result:
        case Result() as result:
            return _result(call, result, step.seq, fence, chars_max)
        case Proof() as proof:
            return _proof(proof, step.seq, fence, chars_max)
        case None:
            cite = "" if step.seq is None else f" (seq={step.seq})"
            return f"Your diagnosis is in the ledger{cite}. Changes may now be proposed."


def _result(call: Call, result: Result, seq: int | None, fence: Fence, chars_max: int) -> str:
    if result.outcome is Outcome.REFUSED:
        why = "It makes no sense" if isinstance(call, Misuse) else "Refused: it did not run"
        said = result.stderr or result.stdout or "no reason was given"
        told = fence.block("why", said, seq=seq, kind="gate", chars_max=chars_max)
        return f"{why}. Choose another way.\n{told}"
    cite = "" if seq is None else f" (seq={seq})"
    exit_code = "" if result.exit_code is None else f", exit code {result.exit_code}"
    head = f"Outcome{cite}: {result.outcome}{exit_code}, {result.duration_s:.2f} s"
    head += ", output cut" if result.truncated else ""
    if result.outcome is Outcome.UNKNOWN:
        head += ". Nobody saw how it ended; look before you do anything else"
    blocks = [head + "."]
    if result.data:
        data = json.dumps(dict(result.data), default=str)
        blocks.append(fence.block("readings", data, seq=seq, chars_max=chars_max // 2))
    for what, text in (("stdout", result.stdout), ("stderr", result.stderr)):
        if text.strip():
            blocks.append(fence.block(what, text, seq=seq, chars_max=chars_max))
    return "\n".join(blocks if len(blocks) > 1 else [*blocks, "It said nothing."])


def _proof(proof: Proof, seq: int | None, fence: Fence, chars_max: int) -> str:
    cite = "" if seq is None else f" (seq={seq})"
    held = "It held" if proof.held else "It did not hold: the trouble is not over"
    said = "\n".join([proof.detail, *(f"broken since: {one}" for one in proof.harm)])
    told = fence.block("what was seen", said, seq=seq, chars_max=chars_max)
    return f"Proof{cite}: {held}; {proof.health} after {proof.looks} looks.\n{told}"


def _closing(ask: Ask) -> str:
    left: Budget = ask.left
    told = (
        f"Left of your budget: {max(left.turns_max, 0)} turns, {max(left.commands_max, 0)}"
        f" commands, {max(left.seconds_max, 0):.0f} s, {max(left.tokens_max, 0)} tokens,"
        f" {max(left.usd_max, 0):.2f} dollars, {max(left.attempts_max, 0)} attempts at a proof."
    )
    if not any(isinstance(step.want, Diagnose) for step in ask.steps):
        told += " You have not handed in a diagnosis yet."
    if ask.turns and not ask.turns[-1].answer.calls:
        proven = any(isinstance(step.result, Proof) for step in ask.turns[-1].steps)
        told += " Your last turn called no tool"
        told += ", so a proof was tried, and it did not hold" if proven else ""
        told += ": call one, or finish, or escalate."
    return told
