"""A model that replays recorded answers, for offline use, tests and evaluations."""

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
    """Returns its answers in order, and escalates after the last one.

    The next answer follows from the number of turns of the run, so one script serves any number of
    runs, and an interrupted run continues where it stopped.
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
            raise UsageError(f"The script is longer than {TEXT_CHARS_MAX} characters.")
        try:
            if text.lstrip().startswith("["):
                recorded = json.loads(text)
            else:
                recorded = [json.loads(line) for line in text.split("\n") if line.strip()]
            answers = [parse(answer) for answer in recorded[:ANSWERS_MAX]]
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise UsageError(
                f"The script cannot be read ({type(error).__name__}).",
                next_step="Write a JSON list of recorded answers, or one answer per line.",
            ) from None
        return cls(answers, name=name)

    @property
    def name(self) -> str:
        """Its name in the ledger."""
        return self._name

    async def answer(self, ask: Ask) -> Answer:
        """The next answer of the script: the one after as many turns as the run has had."""
        if len(ask.turns) < len(self._answers):
            return self._answers[len(ask.turns)]
        reason = f"The script ended after {len(self._answers)} answers without a resolution."
        return Answer(reason, (Escalate(reason),))
