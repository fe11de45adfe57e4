"""Truth has three values, and merging takes the worst."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operator_protocols.domain.health import Health, Ranked, Severity, worst
from operator_protocols.domain.verdict import Level, Mode, Risk

ORDERS: list[tuple[type[Ranked], list[str]]] = [
    (Health, ["healthy", "unknown", "broken"]),
    (Severity, ["info", "warning", "critical"]),
    (Level, ["safe", "review", "blocked"]),
    (Risk, ["low", "medium", "high", "critical"]),
]


@pytest.mark.parametrize(("kind", "order"), ORDERS)
def test_members_compare_by_their_order_and_not_by_their_letters(
    kind: type[Ranked], order: list[str]
) -> None:
    members = [kind(word) for word in order]
    assert list(kind) == members
    assert [member.rank for member in members] == list(range(len(members)))
    for (low, a), (high, b) in itertools.product(enumerate(members), repeat=2):
        assert (a < b) is (low < high)
        assert (a <= b) is (low <= high)
        assert (a > b) is (low > high)
        assert (a >= b) is (low >= high)
        assert max(a, b) is members[max(low, high)]
    assert sorted(members, key=str) == sorted(map(str, members))
    backwards = list(reversed(members))
    assert sorted(backwards) == members


def test_a_member_compares_with_its_word() -> None:
    assert Health.BROKEN > "healthy"
    assert Level.SAFE <= "safe"
    with pytest.raises(ValueError, match="nonsense"):
        _ = Risk.LOW < "nonsense"


def test_silence_is_not_health() -> None:
    assert worst([]) is Health.UNKNOWN
    assert worst(iter(())) is Health.UNKNOWN


@given(st.lists(st.sampled_from(Health), min_size=1))
def test_the_worst_wins(healths: list[Health]) -> None:
    merged = worst(healths)
    assert merged in healths
    assert all(health <= merged for health in healths)
    assert (merged is Health.HEALTHY) is (set(healths) == {Health.HEALTHY})


def test_modes_are_the_words_of_the_configuration() -> None:
    assert [str(mode) for mode in Mode] == ["observe", "approve", "execute"]
