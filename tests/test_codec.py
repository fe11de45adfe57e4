"""Domain types survive JSON."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from operator_protocols.domain.action import Action, Outcome, Result
from operator_protocols.domain.category import FailureCategory
from operator_protocols.domain.observation import Observation, Seen
from operator_protocols.domain.permit import Approval
from operator_protocols.domain.proof import Proof
from operator_protocols.domain.ticket import Ticket
from operator_sre.codec import from_json, to_json
from tests.contract.clock import NOON
from tests.contract.samples import approval, proof, ticket, violation

VALUES = [
    Action("t", {"a": 1, "b": 1.0, "c": True, "d": None, "e": "x"}, target="n", timeout_s=3.0),
    Result(Outcome.TIMED_OUT, 124, "o", "e", True, 0.25, FailureCategory.TIMEOUT, {"a": 1}),
    Observation("s", NOON + timedelta(microseconds=1), (Seen("n", {"a": 1.5}, "p"),), "why"),
    proof(held=False),
    ticket(violation(), violation("node-2")),
    approval(),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_value_comes_back_as_it_was(value: Any) -> None:
    text = json.dumps(to_json(value))
    again = from_json(type(value), json.loads(text))
    assert again == value
    assert repr(again) == repr(value)


def test_the_kinds_above_are_those_that_are_stored() -> None:
    assert {type(value) for value in VALUES} == {
        *(Action, Approval, Observation, Proof, Result, Ticket)
    }


def test_enums_are_lower_case_words_and_times_say_their_zone() -> None:
    shown = to_json(ticket())
    assert (shown["state"], shown["severity"]) == ("claimed", "critical")
    assert shown["opened_at"] in {"2026-03-04T12:00:00Z", "2026-03-04T12:00:00+00:00"}


def test_what_a_later_version_added_is_passed_over() -> None:
    body = {**to_json(proof()), "added_later": {"a": [1]}}
    assert from_json(Proof, body) == proof()


@pytest.mark.parametrize("change", [{"held": "yes"}, {"health": "fine"}, {"looks": None}])
def test_what_is_of_another_type_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(msgspec.ValidationError):
        from_json(Proof, {**to_json(proof()), **change})
