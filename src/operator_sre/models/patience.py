"""Retries, a circuit breaker, and a fallback around a model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

from operator_protocols.domain.run import Answer, Ask, Misuse, Spent, Turn
from operator_protocols.errors import MissingExtraError, ModelError
from operator_protocols.kit.units import format_duration
from operator_protocols.ports import Clock, Model

__all__ = ["Breaker", "Fallback", "Patient"]

BACK_OFF_S = 1.0
OPEN_S_MAX = 900.0
# A dead endpoint must not keep an incident waiting.
UNREACHABLE_TRIES_MAX = 2
EQUAL_MISUSES_MAX = 3


class Breaker:
    """Opens after `failures_max` failures in a row, for `open_s`; then one try decides."""

    def __init__(self, clock: Clock, *, failures_max: int = 5, open_s: float = 60.0) -> None:
        self._clock = clock
        self._failures_max = failures_max
        self._open_s = open_s
        self._failures = 0
        self._until = 0.0

    @property
    def closed_in_s(self) -> float:
        """How long it stays open; 0 when a try is allowed."""
        return max(self._until - self._clock.monotonic(), 0.0)

    def allows(self) -> bool:
        """Whether a try is allowed. After a pause only one is, until its result is known."""
        if self.closed_in_s > 0:
            return False
        if self._failures >= self._failures_max:  # this is the one try; others wait for its result
            self._until = self._clock.monotonic() + self._open_s
        return True

    def record_success(self) -> None:
        """Record a success."""
        self._failures, self._until = 0, 0.0

    def open(self) -> None:
        """Open at once: the endpoint is unreachable."""
        self._failures = max(self._failures, self._failures_max)
        self._until = self._clock.monotonic() + self._open_s

    def record_failure(self, *, wait_s: float = 0.0) -> None:
        """Record a failure; `wait_s` is the pause that the endpoint requires, if too long."""
        self._failures += 1
        pause_s = self._open_s if self._failures >= self._failures_max else 0.0
        pause_s = min(max(pause_s, wait_s), OPEN_S_MAX)
        if pause_s > 0:
            self._until = self._clock.monotonic() + pause_s


class Patient:
    """Asks `model` up to `tries_max` times, and not at all while its circuit breaker is open.

    An endpoint that is unreachable is tried twice; then the breaker opens.

    Raises the ModelError of the last try. `breaker` is shared by all users of the same endpoint.
    It never waits longer than `wait_s_max`, nor longer than what is left of the run.
    """

    def __init__(
        self,
        model: Model,
        *,
        clock: Clock,
        breaker: Breaker | None = None,
        tries_max: int = 4,
        wait_s_max: float = 60.0,
        random: Random | None = None,
    ) -> None:
        self._model = model
        self._clock = clock
        self.breaker = breaker or Breaker(clock)
        self._tries_max = tries_max
        self._wait_s_max = wait_s_max
        self._random = random or Random()

    @property
    def name(self) -> str:
        """Its name in the ledger."""
        return self._model.name

    async def answer(self, ask: Ask) -> Answer:
        """The model's answer, after as many tries as it takes."""
        ends_at = self._clock.monotonic() + max(ask.left.seconds_max, 0.0)
        tries = unreachable = 0
        while True:
            tries += 1
            if not self.breaker.allows():
                wait_s = self.breaker.closed_in_s
                raise ModelError(
                    f"{self.name} failed several times in a row. Operator retries in"
                    f" {format_duration(wait_s)}.",
                    wait_s=wait_s,
                    lasting=True,
                )
            try:
                answer = await self._model.answer(ask)
            except ModelError as error:
                too_long = error.wait_s if error.wait_s > self._wait_s_max else 0.0
                self.breaker.record_failure(wait_s=too_long)
                # Exponential back-off with jitter.
                longest_s = min(BACK_OFF_S * 2.0 ** (tries - 1), self._wait_s_max)
                wait_s = max(error.wait_s, longest_s * self._random.uniform(0.5, 1.0))
                unreachable += error.unreachable
                is_dead = unreachable >= UNREACHABLE_TRIES_MAX
                if is_dead:
                    self.breaker.open()
                late = self._clock.monotonic() + wait_s >= ends_at
                spent = is_dead or tries >= self._tries_max
                if error.lasting or spent or wait_s > self._wait_s_max or late:
                    raise
            else:
                self.breaker.record_success()
                return answer
            await self._clock.sleep(wait_s)

    async def close(self) -> None:
        """Close the model's connections."""
        close = getattr(self._model, "close", None)
        if close is not None:
            await close()


class Fallback:
    """Answers by `reasoner`, with a note that says why, when `primary` does not answer.

    An answer without a call is asked again once; without a call again, and after the third equal
    misuse, the reasoner takes the turn too. `allowed()` is called before every turn: an empty text
    permits `primary`, any other is the reason why it may not be used (the daily budget is
    exhausted).
    """

    def __init__(
        self, primary: Model, reasoner: Model, allowed: Callable[[], str] = lambda: ""
    ) -> None:
        self._primary = primary
        self._reasoner = reasoner
        self._allowed = allowed

    @property
    def name(self) -> str:
        """Its name in the ledger."""
        return self._primary.name

    async def answer(self, ask: Ask) -> Answer:
        """The primary's answer, or the reasoner's."""
        spent = Spent()
        why = self._allowed() or _find_equal_misuses(ask)
        if why:
            note = f"{self.name} is not asked: {why}"
        else:
            try:
                answer = await self._primary.answer(ask)
                if answer.calls:
                    return answer
                spent = answer.spent
                again = replace(ask, turns=(*ask.turns, Turn(answer, ())))
                answer = await self._primary.answer(again)
                spent += answer.spent
                if answer.calls:
                    return replace(answer, spent=spent)
                note = f"{self.name} made no call in two answers in a row."
            except (ModelError, MissingExtraError) as error:
                note = f"{self.name} does not answer: {error}"
        answer = await self._reasoner.answer(ask)
        return replace(
            answer,
            by=answer.by or self._reasoner.name,
            note=answer.note or note,
            spent=answer.spent + spent,
        )

    async def close(self) -> None:
        """Close the primary's connections."""
        close = getattr(self._primary, "close", None)
        if close is not None:
            await close()


def _find_equal_misuses(ask: Ask) -> str:
    """Why the model must not have this turn: its last one repeated a misuse too often."""
    own = [turn.answer for turn in ask.turns if not turn.answer.by]
    if not own or own[-1] is not ask.turns[-1].answer:
        return ""
    misuses = [
        (call.name, call.why) for answer in own for call in answer.calls if isinstance(call, Misuse)
    ]
    for call in own[-1].calls:
        if isinstance(call, Misuse) and misuses.count((call.name, call.why)) >= EQUAL_MISUSES_MAX:
            return f"it made the same invalid call {EQUAL_MISUSES_MAX} times. {call.why}"
    return ""
