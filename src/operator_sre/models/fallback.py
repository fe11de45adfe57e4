"""A model that is answered for by the built-in reasoner whenever it cannot speak."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from operator_protocols.domain.run import Answer, Ask
from operator_protocols.errors import MissingExtraError, ModelError
from operator_protocols.ports import Model

__all__ = ["Fallback"]


class Fallback:
    """Answers by `reasoner`, with a note that says why, when `primary` does not answer.

    `allowed()` is asked before every turn: an empty text lets `primary` speak, any other is the
    reason why it may not (the budget of the day is gone).
    """

    def __init__(
        self, primary: Model, reasoner: Model, allowed: Callable[[], str] = lambda: ""
    ) -> None:
        self._primary = primary
        self._reasoner = reasoner
        self._allowed = allowed

    @property
    def name(self) -> str:
        """Who speaks, in the ledger."""
        return self._primary.name

    async def answer(self, ask: Ask) -> Answer:
        """The primary's answer, or the reasoner's."""
        why = self._allowed()
        if not why:
            try:
                return await self._primary.answer(ask)
            except (ModelError, MissingExtraError) as error:
                why = str(error)
        answer = await self._reasoner.answer(ask)
        note = f"{self.name} does not answer: {why}"
        return replace(answer, by=answer.by or self._reasoner.name, note=answer.note or note)

    async def close(self) -> None:
        """Let go of the primary's connections."""
        close = getattr(self._primary, "close", None)
        if close is not None:
            await close()
