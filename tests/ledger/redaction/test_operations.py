"""Secrets in operational text: log lines, flags, URLs, messages, tables, in every shape."""

from __future__ import annotations

from collections import Counter

import pytest

from operator_sre.ledger.redaction import Redactor
from tests.ledger.redaction.measuring import Recall, leaks
from tests.ledger.redaction.operations import (
    FILES,
    formats,
    is_held_out,
    operational,
)

SEED = 640_231
EACH = 4


def _measure(redactor: Redactor, file: str, *, held_out: bool) -> Recall:
    recall = Recall()
    for sample in operational(SEED, EACH, held_out=held_out, file=file):
        redacted = redactor.text(sample.text)
        recall.total[sample.context] += 1
        if leaks(sample, redacted):
            recall.leaked[sample.context] += 1
            recall.examples.append(f"{sample.context}: {sample.text!r} -> {redacted!r}")
    return recall


def test_a_third_of_the_formats_of_each_family_is_held_out() -> None:
    total = Counter(family for family, _ in formats())
    held_out = Counter(family for family, form in formats() if is_held_out(form))
    assert total.total() >= 600
    assert 0.28 <= held_out.total() / total.total() <= 0.38
    assert set(held_out) == set(total)


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize(("held_out", "at_least"), [(False, 0.98), (True, 0.92)])
def test_at_least_so_many_secrets_are_gone(
    redactor: Redactor, file: str, *, held_out: bool, at_least: float
) -> None:
    recall = _measure(redactor, file, held_out=held_out)
    # Held-out examples are not shown: whoever reads them would tune on them.
    examples = [] if held_out else recall.examples[:10]
    overall, samples = recall.overall, recall.total.total()
    del recall
    assert samples >= 400
    assert overall >= at_least, examples


@pytest.mark.parametrize(("file", "at_least"), [("systems", 0.98), ("later", 0.95)])
def test_formats_of_real_systems_keep_their_secrets(
    redactor: Redactor, file: str, at_least: float
) -> None:
    recall = _measure(redactor, file, held_out=file == "later")
    assert recall.total.total() >= 4 * 30
    assert recall.overall >= at_least, [] if file == "later" else recall.examples[:10]
