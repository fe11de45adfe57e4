"""An answer comes back from the ledger as it was given."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operator_protocols.domain.action import Action
from operator_protocols.domain.diagnosis import (
    Alternative,
    Diagnosis,
    Evidence,
    Hypothesis,
    Option,
)
from operator_protocols.domain.health import Severity
from operator_protocols.domain.run import Answer, Call, Diagnose, Escalate, Finish
from operator_protocols.domain.verdict import Risk
from operator_sre.agent.transcript import answer_from, answer_payload

_TEXT = st.text(st.characters(), max_size=20)
_CHANCE = st.floats(0.0, 1.0)
_VALUES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | _TEXT
)
_ACTIONS = st.builds(
    Action,
    tool=_TEXT,
    arguments=st.dictionaries(_TEXT, _VALUES, max_size=3),
    target=_TEXT,
    reasoning=_TEXT,
    expected=_TEXT,
    cwd=_TEXT,
    timeout_s=st.floats(0.0, 1e6),
)
_EVIDENCE = st.builds(Evidence, _TEXT, st.none() | st.integers(1, 10**9))


def _some(of: st.SearchStrategy[object]) -> st.SearchStrategy[tuple[object, ...]]:
    return st.lists(of, max_size=2).map(tuple)


_DIAGNOSES = st.builds(
    Diagnosis,
    cause=_TEXT,
    target=_TEXT,
    summary=_TEXT,
    severity=st.sampled_from(Severity),
    confidence=_CHANCE,
    timeline=_some(_EVIDENCE),
    affected=_some(_TEXT),
    evidence=_some(_EVIDENCE),
    hypotheses=_some(st.builds(Hypothesis, _TEXT, _TEXT, _CHANCE)),
    alternatives=_some(st.builds(Alternative, _TEXT, _TEXT, _some(_TEXT), _some(_TEXT), _TEXT)),
    options=_some(st.builds(Option, _TEXT, st.sampled_from(Risk), st.booleans(), _TEXT)),
    choice=_TEXT,
    why=_TEXT,
)
_CALLS: st.SearchStrategy[Call] = st.one_of(
    _ACTIONS, st.builds(Diagnose, _DIAGNOSES), st.builds(Finish, _TEXT), st.builds(Escalate, _TEXT)
)


@given(st.builds(Answer, _TEXT, st.lists(_CALLS, max_size=4).map(tuple)))
def test_any_answer_survives_the_ledger(answer: Answer) -> None:
    stored = json.loads(json.dumps(answer_payload(answer)))
    again = answer_from(stored)
    assert again == answer
    assert [type(call) for call in again.calls] == [type(call) for call in answer.calls]


@given(_ACTIONS)
def test_an_action_keeps_its_digest(action: Action) -> None:
    stored = json.loads(json.dumps(answer_payload(Answer("", (action,)))))
    (again,) = answer_from(stored).calls
    assert isinstance(again, Action)
    assert again.digest == action.digest


def test_each_call_says_what_it_is() -> None:
    calls = (Action("t", {}), Finish("f"), Escalate("e"))
    names = [one["call"] for one in answer_payload(Answer("r", calls))["calls"]]
    assert names == ["act", "finish", "escalate"]


@pytest.mark.parametrize("call", ["dance", "", "Act"])
def test_a_call_that_is_not_known_is_not_guessed(call: str) -> None:
    with pytest.raises(KeyError):
        answer_from({"reasoning": "", "calls": [{"call": call, "with": {}}]})
