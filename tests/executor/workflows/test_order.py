"""Which step comes when, and when one is tried again."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from operator_protocols.domain.action import Outcome, Result
from operator_protocols.domain.category import FailureCategory
from operator_sre.executor.workflows import order_of
from operator_sre.executor.workflows.carrier import ATTEMPTS_MAX, back_off_s, may_try_again
from operator_sre.executor.workflows.progress import cycle_in, ready

NAMES = [f"s{number}" for number in range(12)]
FAILED = Result(Outcome.RAN, 1)


@st.composite
def _acyclic(draw: st.DrawFn) -> dict[str, list[str]]:
    """Steps that need only those before them in some order, written down in another."""
    names = draw(st.permutations(NAMES))
    needs = {
        name: draw(st.lists(st.sampled_from(names[:at]), unique=True, max_size=3)) if at else []
        for at, name in enumerate(names)
    }
    return {name: needs[name] for name in draw(st.permutations(names))}


_ANY = st.fixed_dictionaries(
    {name: st.lists(st.sampled_from(NAMES), unique=True, max_size=2) for name in NAMES}
)


@given(_acyclic())
def test_every_step_comes_behind_all_that_it_needs(needs: dict[str, list[str]]) -> None:
    order = order_of(needs)
    assert sorted(order) == sorted(needs)
    assert cycle_in(needs) == ()
    for at, step in enumerate(order):
        assert set(needs[step]) <= set(order[:at])


@given(_ANY)
def test_a_circle_is_found_exactly_when_some_step_can_never_begin(
    needs: dict[str, list[str]],
) -> None:
    circle = cycle_in(needs)
    assert bool(circle) is (len(order_of(needs)) < len(needs))
    if circle:
        assert circle[0] == circle[-1]
        assert all(later in needs[step] for step, later in pairwise(circle))


@given(_acyclic(), st.data())
def test_running_what_is_ready_runs_everything_once(
    needs: dict[str, list[str]], data: st.DataObject
) -> None:
    completed: list[str] = []
    running: list[str] = []
    while len(completed) < len(needs):
        for step in ready(needs, completed, running)[: 4 - len(running)]:
            assert set(needs[step]) <= set(completed)
            running.append(step)
        completed.append(running.pop(data.draw(st.integers(0, len(running) - 1))))
    assert sorted(completed) == sorted(needs)


def test_a_step_that_is_not_there_is_never_waited_out() -> None:
    assert order_of({"a": ["gone"], "b": []}) == ("b",)
    assert cycle_in({"a": ["gone"], "b": []}) == ()


def test_waiting_doubles_up_to_a_minute_and_is_spread() -> None:
    assert [back_off_s(attempt, 0.0) for attempt in range(1, 9)] == [
        *(1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0),
    ]
    assert back_off_s(1, 1.0) == 1.5
    assert back_off_s(2, 0.5) == 2.5
    assert back_off_s(7, 1.0) == 60.0


def test_only_what_is_harmless_is_tried_again_by_itself() -> None:
    assert ATTEMPTS_MAX == 3
    tries = [may_try_again(FAILED, attempt, 0, harmless=True) for attempt in (1, 2, 3)]
    assert tries == [True, True, False]
    assert not may_try_again(FAILED, 1, 0, harmless=False)


def test_whoever_says_retry_gets_it_as_often_as_they_say() -> None:
    assert may_try_again(FAILED, 1, 2, harmless=False)
    assert not may_try_again(FAILED, 2, 2, harmless=False)
    assert not may_try_again(FAILED, 1, 1, harmless=True)


def test_what_another_attempt_cannot_mend_is_left() -> None:
    for category in (FailureCategory.SYNTAX, FailureCategory.NOT_FOUND):
        assert not may_try_again(Result(Outcome.RAN, 127, category=category), 1, 3, harmless=True)
    assert not may_try_again(Result(Outcome.REFUSED), 1, 3, harmless=True)
    assert may_try_again(Result(Outcome.TIMED_OUT, 124), 1, 3, harmless=False)


def test_what_nobody_knows_the_end_of_is_done_again_only_if_that_does_no_harm() -> None:
    for outcome in (Outcome.UNKNOWN, Outcome.CANCELLED):
        assert not may_try_again(Result(outcome), 1, 3, harmless=False)
        assert may_try_again(Result(outcome), 1, 0, harmless=True)
