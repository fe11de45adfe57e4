"""Secrets in the places where operators meet them, and ordinary lines, both made from a seed.

Every sample is a text around one secret, so a test can say what must be gone and what must stay.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from tests.ledger.redaction import documents, keys, places
from tests.ledger.redaction.making import CONTEXTS

__all__ = ["CONTEXTS", "Sample", "samples"]

# Importing them is what registers their contexts.
_REGISTERED = (documents, keys, places)


@dataclass(frozen=True, slots=True)
class Sample:
    """One text: what stands before the secret, the secret as it is written there, what follows."""

    context: str
    before: str
    written: str
    after: str
    secret: str

    @property
    def text(self) -> str:
        """The whole text."""
        return self.before + self.written + self.after


def samples(seed: int, each: int) -> Iterator[Sample]:
    """So many samples of each context, the same for the same seed."""
    for name, makers in CONTEXTS.items():
        chance = random.Random(f"{seed} {name}")
        for _ in range(each):
            before, written, after, secret = chance.choice(makers)(chance)
            yield Sample(name, before, written, after, secret)
