"""How a redactor does on generated samples: what leaks, what stays, what changes for nothing."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field

from operator_sre.ledger.redaction import Redactor
from tests.ledger.redaction.generator import Sample, samples
from tests.ledger.redaction.ordinary import ordinary_texts

__all__ = ["LEAKED_PART", "Recall", "changed_lines", "leaks", "measure_recall"]

# A secret of which this much can still be read has leaked.
LEAKED_PART = 0.6


@dataclass(slots=True)
class Recall:
    """How many secrets were there, and how many leaked, by context."""

    total: Counter[str] = field(default_factory=Counter)
    leaked: Counter[str] = field(default_factory=Counter)
    sentences_broken: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)

    def of(self, context: str) -> float:
        """The part that was found in one context."""
        return 1 - self.leaked[context] / self.total[context]

    @property
    def overall(self) -> float:
        """The part that was found at all."""
        return 1 - self.leaked.total() / self.total.total()


def leaks(sample: Sample, redacted: str) -> bool:
    """Whether the secret, as it is or as it was written, can be read in what is left."""
    for form in {sample.secret, sample.written}:
        size = max(4, math.ceil(len(form) * LEAKED_PART))
        parts = {form[at : at + size] for at in range(len(form) - size + 1)}
        if any(part in redacted for part in parts):
            return True
    return False


def measure_recall(redactor: Redactor, *, seed: int, each: int) -> Recall:
    """Redact so many samples of each context."""
    recall = Recall()
    for sample in samples(seed, each):
        redacted = redactor.text(sample.text)
        recall.total[sample.context] += 1
        if leaks(sample, redacted):
            recall.leaked[sample.context] += 1
            recall.examples.append(f"{sample.context}: {sample.text!r} -> {redacted!r}")
        elif not (redacted.startswith(sample.before) and redacted.endswith(sample.after)):
            recall.sentences_broken[sample.context] += 1
            recall.examples.append(f"{sample.context}: {sample.text!r} -> {redacted!r}")
    return recall


def changed_lines(redactor: Redactor, *, seed: int, count: int) -> tuple[int, int, list[str]]:
    """Of so many ordinary texts: how many lines changed, how many there are, and examples."""
    lines = changed = 0
    examples: list[str] = []
    for family, text in ordinary_texts(seed, count):
        redacted = redactor.text(text)
        lines += text.count("\n") + 1
        if redacted != text:
            pairs = zip(text.split("\n"), redacted.split("\n"), strict=False)
            changed += sum(before != after for before, after in pairs)
            examples.append(f"{family}: {text!r} -> {redacted!r}")
    return changed, lines, examples
