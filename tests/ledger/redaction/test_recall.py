"""The figures that we promise, on seeds that nothing was tuned on."""

from __future__ import annotations

import pytest

from operator_sre.ledger.redaction import Redactor
from tests.ledger.redaction.generator import CONTEXTS, samples
from tests.ledger.redaction.measuring import Recall, leaks, measure_recall

# The first test measures for all, with one core or less.
pytestmark = pytest.mark.timeout(900)

HELD_OUT_SEED = 902_411
EACH = 120


@pytest.fixture(scope="module")
def recall(redactor: Redactor) -> Recall:
    return measure_recall(redactor, seed=HELD_OUT_SEED, each=EACH)


def test_there_are_many_contexts_and_secrets(recall: Recall) -> None:
    assert len(CONTEXTS) >= 24
    assert recall.total.total() == len(CONTEXTS) * EACH


def test_overall_at_least_95_of_100_secrets_are_gone(recall: Recall) -> None:
    assert recall.overall >= 0.95, recall.examples[:10]


@pytest.mark.parametrize("context", sorted(CONTEXTS))
def test_in_each_context_at_least_90_of_100_are_gone(recall: Recall, context: str) -> None:
    examples = [one for one in recall.examples if one.startswith(f"{context}:")]
    assert recall.of(context) >= 0.90, examples[:5]


def test_the_sentence_around_a_secret_stays(recall: Recall) -> None:
    assert recall.sentences_broken.total() <= 0.01 * recall.total.total(), recall.examples[:10]


def test_the_measure_notices_a_leak() -> None:
    sample = next(iter(samples(HELD_OUT_SEED, 1)))
    assert leaks(sample, sample.text)
    part = sample.secret[: int(len(sample.secret) * 0.7) + 1]
    assert leaks(sample, f"{sample.before}{part}...")
    assert not leaks(sample, f"{sample.before}[REDACTED:password:00000000]{sample.after}")


def test_the_same_seed_makes_the_same_samples() -> None:
    assert list(samples(7, 2)) == list(samples(7, 2))
    assert list(samples(7, 2)) != list(samples(8, 2))
