"""Since when something holds or not: kept as data, moved by looks alone."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operator_protocols.domain.health import Health, Severity
from operator_protocols.domain.observation import CheckResult, Finding, Observation
from operator_protocols.ports import Condition
from operator_sre.monitor import advance, find_departed, skip_gap, violations_of
from tests.contract.clock import NOON
from tests.contract.plants import Up

HEALTHY, UNKNOWN, BROKEN = Health


def _at(second: float) -> datetime:
    return NOON + timedelta(seconds=second)


def _look(second: float, *healths: Health, target: str = "n") -> CheckResult:
    findings = tuple(Finding("up", target, health, f"at {second}") for health in healths)
    return CheckResult(Observation("shop", _at(second)), findings)


def _after(*healths: Health | None) -> Condition:
    """The condition after one look a second; None is a look that does not speak of it."""
    conditions: tuple[Condition, ...] = ()
    for second, health in enumerate(healths):
        spoken = () if health is None else (health,)
        conditions = advance(conditions, _look(second, *spoken))
    (one,) = conditions
    return one


CASES: list[tuple[str, list[Health | None], Health, int, int | None]] = [
    ("a first look begins both clocks", [BROKEN], BROKEN, 0, 0),
    ("a break keeps its clock", [BROKEN, BROKEN, BROKEN], BROKEN, 0, 0),
    ("a break begins when it is seen", [HEALTHY, HEALTHY, BROKEN], BROKEN, 2, 2),
    ("health ends a break", [BROKEN, HEALTHY], HEALTHY, 1, None),
    ("health keeps its clock", [BROKEN, HEALTHY, HEALTHY], HEALTHY, 1, None),
    ("not seeing a break does not make it younger", [BROKEN, UNKNOWN, BROKEN], BROKEN, 2, 0),
    ("not seeing is no recovery", [BROKEN, UNKNOWN], UNKNOWN, 1, 0),
    ("not seeing health begins it anew", [HEALTHY, UNKNOWN, HEALTHY], HEALTHY, 2, None),
    ("not being spoken of is not seeing", [BROKEN, None, BROKEN], BROKEN, 2, 0),
    ("silence is not health", [HEALTHY, None], UNKNOWN, 1, None),
    ("silence keeps its clock", [HEALTHY, None, UNKNOWN, None], UNKNOWN, 1, None),
    ("a break after silence is new", [HEALTHY, None, BROKEN], BROKEN, 2, 2),
]


@pytest.mark.parametrize(
    ("healths", "health", "since", "broken_since"),
    [case[1:] for case in CASES],
    ids=[case[0] for case in CASES],
)
def test_clocks(
    healths: list[Health | None], health: Health, since: int, broken_since: int | None
) -> None:
    after = _after(*healths)
    assert (after.health, after.since) == (health, _at(since))
    assert after.broken_since == (None if broken_since is None else _at(broken_since))


@pytest.mark.parametrize("order", [(BROKEN, HEALTHY), (HEALTHY, BROKEN), (UNKNOWN, BROKEN)])
def test_two_words_about_one_target_count_as_the_worse(order: tuple[Health, Health]) -> None:
    (one,) = advance((), _look(0, *order))
    assert one.health is BROKEN


def test_conditions_of_other_targets_are_left_alone() -> None:
    first = advance((), _look(0, BROKEN, target="a"))
    both = advance(
        first,
        CheckResult(
            Observation("shop", _at(1)),
            (
                Finding("up", "a", BROKEN),
                Finding("up", "b", HEALTHY),
            ),
        ),
    )
    assert {one.target: one.broken_since for one in both} == {"a": _at(0), "b": None}


@given(st.lists(st.sampled_from([*Health, None]), min_size=1, max_size=30))
def test_the_clocks_tell_the_truth_about_any_history(history: list[Health | None]) -> None:
    if all(health is None for health in history):
        return
    while history[0] is None:
        history = history[1:]
    seen = [UNKNOWN if health is None else health for health in history]
    after = _after(*history)
    assert after.health is seen[-1]
    # `since`: how long the last looks in a row said the same.
    begin = len(seen) - 1
    while begin > 0 and seen[begin - 1] is seen[-1]:
        begin -= 1
    assert after.since == _at(begin)
    # `broken_since`: the first break since it was last seen well, if there is one.
    well = max((at for at, health in enumerate(seen) if health is HEALTHY), default=-1)
    breaks = [at for at, health in enumerate(seen) if health is BROKEN and at > well]
    assert after.broken_since == (_at(breaks[0]) if breaks else None)


def _condition(health: Health, broken_for_s: float | None, invariant: str = "up") -> Condition:
    broken = None if broken_for_s is None else _at(-broken_for_s)
    return Condition("shop", invariant, "n", health, _at(0), broken, "it is down")


@pytest.mark.parametrize(
    ("health", "broken_for_s", "grace_s", "expected"),
    [
        (BROKEN, 10.0, 0.0, 1),
        (BROKEN, 0.0, 0.0, 1),
        (BROKEN, 9.9, 10.0, 0),
        (BROKEN, 10.0, 10.0, 1),
        (UNKNOWN, 99.0, 0.0, 0),
        (HEALTHY, None, 0.0, 0),
        (BROKEN, None, 0.0, 0),
    ],
)
def test_a_break_is_a_violation_after_its_grace(
    health: Health, broken_for_s: float | None, grace_s: float, expected: int
) -> None:
    found = violations_of(
        [_condition(health, broken_for_s)],
        now=_at(0),
        invariants={"up": Up(grace_s=grace_s, severity=Severity.INFO)},
        blind_grace_s=1e9,
    )
    assert len(found) == expected
    for one in found:
        assert (one.key, one.severity) == ("shop/n/up", Severity.INFO)
        assert (one.detail, one.since) == ("it is down", _at(-(broken_for_s or 0.0)))


def test_what_no_invariant_knows_has_the_grace_of_blindness() -> None:
    conditions = [_condition(BROKEN, 5.0, "observable")]
    early = violations_of(conditions, now=_at(0), invariants={}, blind_grace_s=6.0)
    late = violations_of(conditions, now=_at(1), invariants={}, blind_grace_s=6.0)
    assert (len(early), len(late)) == (0, 1)
    assert late[0].severity is Severity.WARNING


def test_what_is_no_more_is_forgotten_unless_it_was_broken() -> None:
    well = _condition(HEALTHY, None)
    lost = _condition(UNKNOWN, 5.0)
    gone = find_departed([well, lost], targets=["other"], invariants=["up"])
    assert gone == (well,)
    assert find_departed([well, lost], targets=["n"], invariants=["up"]) == ()
    assert find_departed([well, lost], targets=["n"], invariants=["other"]) == (well, lost)


def test_what_stays_the_same_is_the_same_thing() -> None:
    first = advance((), _look(0, HEALTHY))
    again = advance(
        first, CheckResult(Observation("shop", _at(1)), (Finding("up", "n", HEALTHY, "at 0"),))
    )
    assert again[0] is first[0]


def _graced(name: str) -> float:
    return 10.0


def test_time_in_which_nobody_looked_counts_for_no_clock() -> None:
    ages = {"young": 4.0, "old": 12.0}
    broken = {
        name: Condition("shop", "up", name, BROKEN, _at(100 - age), _at(100 - age))
        for name, age in ages.items()
    }
    well = Condition("shop", "up", "well", HEALTHY, _at(97), None)
    young, old, healthy = skip_gap(
        (broken["young"], broken["old"], well), last=_at(100), now=_at(4000), grace_of=_graced
    )
    assert (young.since, young.broken_since) == (_at(3996), _at(3996))
    assert old == broken["old"], "it had outlasted its grace before nobody looked"
    assert (healthy.since, healthy.broken_since) == (_at(3997), None)


def test_no_clock_is_moved_beyond_now() -> None:
    late = Condition("shop", "up", "n", BROKEN, _at(105), _at(105))
    (moved,) = skip_gap((late,), last=_at(100), now=_at(200), grace_of=_graced)
    assert moved.broken_since == _at(200)
