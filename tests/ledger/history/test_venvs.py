"""Commands of Python that ran without an environment."""

from __future__ import annotations

from operator_sre.ledger.history.templates import (
    VenvViolation,
    venv_of,
    venv_violations,
)
from tests.ledger.history.attempts import attempt


def test_what_was_recorded_counts_first() -> None:
    assert venv_of(attempt(".venv/bin/pip install x")) == ".venv"
    assert venv_of(attempt("pip install x", venv="/srv/v")) == "/srv/v"


def test_only_what_ran_outside_of_any_is_a_violation() -> None:
    wrong = attempt("pip install requests")
    history = [
        wrong,
        attempt("pip install requests", venv="/srv/v"),
        attempt(".venv/bin/pip install requests"),
        attempt("pip install requests", outcome="refused", exit_code=None),
        attempt("df -h"),
    ]
    advice = "Run it as .venv/bin/pip, or activate one first."
    assert venv_violations(history) == [VenvViolation(wrong, "pip", advice)]
