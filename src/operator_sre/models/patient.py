"""A model that is asked again when it is busy, and left alone for a while when it is down."""

from __future__ import annotations

from random import Random

from operator_protocols.domain.run import Answer, Ask
from operator_protocols.errors import ModelError
from operator_protocols.ports import Clock, Model
from operator_sre.models.breaker import Breaker

__all__ = ["Patient"]

BACK_OFF_S = 1.0


class Patient:
    """Asks `model` up to `tries_max` times, and not at all while its circuit breaker is open.

    Raises the ModelError of the last try. `breaker` is shared by whoever asks the same endpoint.
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
        """Who speaks, in the ledger."""
        return self._model.name

    async def answer(self, ask: Ask) -> Answer:
        """The model's answer, after as many tries as it takes."""
        ends_at = self._clock.monotonic() + max(ask.left.seconds_max, 0.0)
        tries = 0
        while True:
            tries += 1
            error = await self._try(ask)
            if isinstance(error, Answer):
                return error
            wait_s = max(error.wait_s, self._back_off_s(tries))
            late = self._clock.monotonic() + wait_s >= ends_at
            if error.lasting or tries >= self._tries_max or wait_s > self._wait_s_max or late:
                raise error
            await self._clock.sleep(wait_s)

    async def close(self) -> None:
        """Let go of the model's connections."""
        close = getattr(self._model, "close", None)
        if close is not None:
            await close()

    async def _try(self, ask: Ask) -> Answer | ModelError:
        """One try, of which the breaker is told."""
        if not self.breaker.allows():
            wait_s = self.breaker.closed_in_s
            return ModelError(
                f"{self.name} failed several times in a row and is left alone for {wait_s:.0f} s.",
                wait_s=wait_s,
                lasting=True,
            )
        try:
            answer = await self._model.answer(ask)
        except ModelError as error:
            too_long = error.wait_s if error.wait_s > self._wait_s_max else 0.0
            self.breaker.failed(wait_s=too_long)
            return error
        self.breaker.succeeded()
        return answer

    def _back_off_s(self, tries: int) -> float:
        """Twice as long each time, and never at the same moment as everybody else."""
        longest_s = min(BACK_OFF_S * 2.0 ** (tries - 1), self._wait_s_max)
        return float(longest_s * self._random.uniform(0.5, 1.0))
