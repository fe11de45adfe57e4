"""Whether probabilities of diagnoses are trusted as far as they deserve."""

from __future__ import annotations

from dataclasses import replace

import pytest

from operator_evals.facts import DiagnosisFact, TrialFacts, TrialState
from operator_evals.generated.calibration import (
    Band,
    Calibration,
    calibrate,
    cross_validate,
    fit,
)
from tests.evals.generated.generated_samples import trial


def _stating(*stated: tuple[str, str, float]) -> TrialFacts:
    """A trial of a fault at till-2 with these diagnoses of one ticket: cause, target, certainty."""
    diagnoses = [
        DiagnosisFact(at, float(at), 1, cause, target, confidence=confidence)
        for at, (cause, target, confidence) in enumerate(stated)
    ]
    return replace(trial(), diagnoses=tuple(diagnoses))


def test_a_sure_diagnosis_of_the_wrong_part_costs_most() -> None:
    right, wrong = _stating(("dead", "till-2", 1.0)), _stating(("dead", "till-1", 1.0))
    found = calibrate([right, right, right, wrong])
    (band,) = found.bands
    assert isinstance(band, Band)
    assert (band.low, band.high, band.mean) == (0.97, 1.0, 1.0)
    assert (band.right.count, band.right.of) == (3, 4)
    assert found.brier == pytest.approx(0.25)
    assert found.base == pytest.approx(0.75 * 0.25)


def test_honest_doubt_scores_as_well_as_it_can() -> None:
    doubt = [_stating(("dead", name, 0.5)) for name in ("till-1", "till-2")]
    found = calibrate(doubt)
    assert found.brier == pytest.approx(found.base)
    assert [(band.low, band.right.of) for band in found.bands] == [(0.5, 2)]


def test_the_last_named_cause_of_a_ticket_counts_and_an_abstention_does_not() -> None:
    changed = _stating(("dead", "till-1", 0.9), ("hung", "till-2", 0.8), ("unexplained", "x", 0.4))
    found = calibrate([changed, _stating(("unexplained", "till-2", 0.2))])
    assert found.diagnoses == 1
    assert [(band.mean, band.right.count) for band in found.bands] == [(0.8, 1)]


def test_what_was_not_injected_proves_nothing() -> None:
    void = replace(_stating(("dead", "till-2", 0.9)), state=TrialState.INVALID)
    refused = replace(trial(refused="it is not running"), diagnoses=void.diagnoses)
    assert calibrate([void, refused]).diagnoses == 0
    assert calibrate([]) == Calibration((), 0, 0.0, 0.0)


def test_what_is_fitted_follows_the_counts_and_without_any_keeps_what_was_stated() -> None:
    assert fit([]) == (1.0, 0.0)
    coin = [(0.99, number % 2 == 0) for number in range(400)]
    slope, intercept = fit(coin)
    stated = slope * 4.595 + intercept  # the log odds of 99 %
    assert stated == pytest.approx(0.0, abs=0.05)
    honest = [(0.8, number % 5 != 0) for number in range(400)]
    assert fit(honest) == pytest.approx((1.0, 0.0), abs=0.01)


def test_a_diagnosis_is_judged_by_what_was_fitted_without_it() -> None:
    """In each half the stated certainty tells everything, the other way round in the other half."""
    right, wrong = (("dead", name, 0.9) for name in ("till-2", "till-1"))
    doubted = ("dead", "till-2", 0.1)
    cases = [
        *[replace(_stating(right), seed=0), replace(_stating(wrong), seed=1)] * 20,
        *[replace(_stating(doubted), seed=1)] * 20,
    ]
    fitted, constant = cross_validate(cases, lambda trial: trial.seed)
    alike, _ = cross_validate(cases, lambda trial: id(trial))
    assert fitted > 0.25, "each half is judged by the other one"
    assert 0.0 < alike < fitted
    assert constant > 0.0
    assert cross_validate([], lambda trial: trial.seed) == (0.0, 0.0)
