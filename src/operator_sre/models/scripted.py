"""A model that says what was written down: offline, in tests and evaluations."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from operator_protocols.domain.run import Answer, Ask, Escalate
from operator_protocols.errors import UsageError

__all__ = ["Scripted"]

ANSWERS_MAX = 1_000
TEXT_CHARS_MAX = 20_000_000


class Scripted:
    """Gives its answers in their order; past the last one it escalates and says so.

    Which one is next follows from the turns that the run has had, so that one script serves any
    number of runs, and a run that was interrupted goes on where it was.
    """

    def __init__(self, answers: Iterable[Answer], *, name: str = "scripted") -> None:
        self._answers = tuple(answers)
        self._name = name

    @classmethod
    def read(
        cls, text: str, parse: Callable[[Mapping[str, Any]], Answer], *, name: str = "scripted"
    ) -> Scripted:
        """From JSON: a list of recorded answers, or one to a line; `parse` reads one of them."""
        if len(text) > TEXT_CHARS_MAX:
            raise UsageError(f"A script has at most {TEXT_CHARS_MAX} characters.")
        try:
            if text.lstrip().startswith("["):
                recorded = json.loads(text)
            else:
                recorded = [json.loads(line) for line in text.split("\n") if line.strip()]
            answers = [parse(answer) for answer in recorded[:ANSWERS_MAX]]
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise UsageError(
                f"The script cannot be read ({type(error).__name__}).",
                next_step="It is a JSON list of recorded answers, or one of them to a line.",
            ) from None
        return cls(answers, name=name)

    @property
    def name(self) -> str:
        """Who speaks, in the ledger."""
        return self._name

    async def answer(self, ask: Ask) -> Answer:
        """The next answer of the script: the one after as many turns as the run has had."""
        if len(ask.turns) < len(self._answers):
            return self._answers[len(ask.turns)]
        reason = f"The script ends after {len(self._answers)} answers and the trouble is not over."
        return Answer(reason, (Escalate(reason),))
