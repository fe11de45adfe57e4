"""Beliefs are probabilities, and evidence moves them the right way."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operator_protocols.domain.cause import Cause, Remedy
from operator_protocols.domain.observation import Value
from operator_protocols.domain.target import Target
from operator_sre.models.reasoner.belief import Belief, Suspect, Symptoms, first_belief
from operator_sre.models.reasoner.causes import GENERIC, UNEXPLAINED
from operator_sre.models.reasoner.outcomes import (
    CHANGES,
    HEALTHY,
    ISOLATED_SHARE,
    OUTCOMES,
    WORDS,
    chance,
)
from operator_sre.models.reasoner.probes import PROBES

TARGETS = [
    Target("store", "store"),
    Target("node-1", "node", depends_on=("store",)),
    Target("node-2", "node", depends_on=("store",)),
]
TABLES = [
    ("healthy", HEALTHY),
    *((cause.name, cause.predicts) for cause in (*GENERIC, UNEXPLAINED)),
]


@pytest.mark.parametrize(("name", "predicts"), TABLES, ids=[name for name, _ in TABLES])
def test_every_table_is_a_distribution_over_the_known_outcomes(
    name: str, predicts: Mapping[str, Mapping[str, float]]
) -> None:
    assert set(predicts) <= {CHANGES, WORDS, *(probe.name for probe in PROBES)}
    assert {"process", "port", "log"} <= set(predicts)
    for probe, table in predicts.items():
        assert set(table) == set(OUTCOMES[probe])
        assert math.isclose(sum(table.values()), 1.0, abs_tol=1e-6)
        assert all(0.0 < chance < 1.0 for chance in table.values())


def test_whoever_is_on_no_network_is_cut_off_and_nothing_else() -> None:
    found = {
        cause.name: chance(cause.predicts["process"], "process", "isolated") for cause in GENERIC
    }
    assert found.pop("cut_off") > 0.3
    assert max(found.values()) <= ISOLATED_SHARE
    silent = {"alive": 0.97, "dead": 0.01, "stopped": 0.01, "unknown": 0.01}
    assert chance(silent, "process", "isolated") < ISOLATED_SHARE
    assert chance(silent, "process", "alive") > 0.9


def test_the_causes_have_names_of_their_own_and_possible_priors() -> None:
    names = [cause.name for cause in (*GENERIC, UNEXPLAINED)]
    assert len(set(names)) == len(names)
    assert all(0.0 < cause.prior < 1.0 for cause in (*GENERIC, UNEXPLAINED))
    assert UNEXPLAINED.remedies == ()
    remedies: list[Remedy] = [remedy for cause in GENERIC for remedy in cause.remedies]
    assert all(remedy.sentence and remedy.trade_off for remedy in remedies)


def _sum(belief: Belief) -> float:
    return sum(belief.weights.values())


_EVIDENCE = st.lists(
    st.sampled_from(sorted(HEALTHY)).flatmap(
        lambda probe: st.tuples(
            st.just(probe),
            st.sampled_from(["store", "node-1", "node-2", "elsewhere"]),
            st.sampled_from([*HEALTHY[probe], "never heard of"]),
        )
    ),
    max_size=40,
)


@given(
    st.lists(st.sampled_from(["store", "node-1", "node-2", "ghost"]), min_size=1, unique=True),
    _EVIDENCE,
    st.lists(st.tuples(st.sampled_from([c.name for c in GENERIC]), st.just("node-1"))),
)
def test_a_belief_stays_a_distribution_whatever_is_seen(
    violated: list[str], evidence: list[tuple[str, str, str]], tried: list[tuple[str, str]]
) -> None:
    belief = first_belief(violated, TARGETS, GENERIC).without(tried)
    assert math.isclose(_sum(belief), 1.0, abs_tol=1e-6)
    for probe, target, outcome in evidence:
        belief = belief.after(probe, target, outcome)
        assert math.isclose(_sum(belief), 1.0, abs_tol=1e-6)
        assert all(0.0 <= weight <= 1.0 for weight in belief.weights.values())
    assert belief.entropy() >= 0.0
    ranked = [weight for _, weight in belief.rank()]
    assert ranked == sorted(ranked, reverse=True)


@given(_EVIDENCE)
def test_a_question_is_never_expected_to_do_harm(evidence: list[tuple[str, str, str]]) -> None:
    belief = first_belief(["node-1"], TARGETS, GENERIC)
    for probe, target, outcome in evidence[:10]:
        belief = belief.after(probe, target, outcome)
    for probe in HEALTHY:
        for one in TARGETS:
            assert -1e-9 <= belief.gain(probe, one.name) <= belief.entropy() + 1e-9


def _names(belief: Belief) -> set[tuple[str, str]]:
    return {(suspect.cause.name, suspect.target) for suspect in belief.weights}


def test_what_is_broken_and_what_it_depends_on_are_suspects() -> None:
    names = _names(first_belief(["node-1"], TARGETS, GENERIC))
    assert ("process_dead", "node-1") in names
    assert ("process_dead", "store") in names
    assert not any(target == "node-2" for _, target in names)
    assert ("unexplained", "node-1") in names


def _chance(belief: Belief, cause: str, target: str) -> float:
    return sum(
        weight
        for suspect, weight in belief.weights.items()
        if (suspect.cause.name, suspect.target) == (cause, target)
    )


def test_one_cause_that_explains_everything_is_preferred() -> None:
    belief = first_belief(["node-1", "node-2", "store"], TARGETS, GENERIC)
    assert _chance(belief, "process_dead", "store") > 5 * _chance(belief, "process_dead", "node-1")


def test_a_part_whose_own_invariants_hold_is_rarely_to_blame() -> None:
    belief = first_belief(["node-1"], TARGETS, GENERIC)
    assert _chance(belief, "process_dead", "node-1") > _chance(belief, "process_dead", "store")


def test_what_was_tried_in_vain_is_believed_less() -> None:
    before = first_belief(["node-1"], TARGETS, GENERIC)
    after = before.without([("process_dead", "node-1")])
    assert _chance(after, "process_dead", "node-1") < 0.1 * _chance(
        before, "process_dead", "node-1"
    )


def test_equal_suspects_are_ranked_by_name() -> None:
    twin = Cause("twin", "s", 0.5, {})
    weights = {Suspect(twin, "b"): 0.5, Suspect(twin, "a"): 0.5}
    assert [suspect.target for suspect, _ in Belief(weights).rank()] == ["a", "b"]


def test_what_could_not_be_read_is_no_contradiction() -> None:
    stale = Cause("stale", "s", 0.5, breaks=("odd",), shows={"old": True, "reachable": True})
    broken = {"node-1": frozenset({"odd"})}

    def chance(**readings: Value) -> float:
        shown = Symptoms(broken, {"node-1": {"reachable": True, **readings}})
        belief = first_belief(["node-1"], TARGETS, (*GENERIC, stale), shown)
        return _chance(belief, "stale", "node-1")

    assert chance(old=None) == chance() < chance(old=True)
    assert chance(old=False) < chance(old=None)


def test_who_answered_a_look_is_hardly_one_that_answers_nobody() -> None:
    broken = {"node-1": frozenset({"odd"})}
    unseen, reached, unreached = (
        first_belief(["node-1"], TARGETS, GENERIC, Symptoms(broken, {"node-1": readings}))
        for readings in ({}, {"reachable": True}, {"reachable": False})
    )

    def chance(belief: Belief, name: str) -> float:
        return sum(
            weight
            for one, weight in belief.weights.items()
            if (one.cause.name, one.target) == (name, "node-1")
        )

    for name in ("process_dead", "process_paused", "process_hung", "cut_off"):
        assert chance(reached, name) < chance(unseen, name) / 3
        assert chance(unreached, name) == chance(unseen, name)
    for name in ("process_starting", "overloaded", "disk_full"):
        assert chance(reached, name) > chance(unseen, name)
