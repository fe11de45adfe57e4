"""What is wrong with a cluster follows from what a look and a few questions show of its parts."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from operator_protocols.domain.observation import Value
from operator_protocols.domain.target import Target
from operator_sre.models.reasoner.belief import SURE, Symptoms, first_belief
from operator_sre.models.reasoner.causes import GENERIC, VAGUE
from operator_sre.models.reasoner.outcomes import OUTCOMES
from operator_sre.subjects.tikv.invariants import invariants_of
from operator_sre.subjects.tikv.kinds import CLUSTER, PD, PROMETHEUS, STORE
from operator_sre.subjects.tikv.knowledge import KNOWLEDGE
from operator_sre.subjects.tikv.options import Options
from operator_sre.subjects.tikv.tools import tikv_tools
from tests.subjects.tikv.small_pd import SmallPd

CAUSES = KNOWLEDGE.causes
OWN = {cause.name for cause in CAUSES} | VAGUE
EVERY = (*(cause for cause in GENERIC if cause.name not in OWN), *CAUSES)
Readings = Mapping[str, Value]
UP: Readings = {
    "reachable": True,
    "heard": True,
    "evicting": False,
    "eviction_left": False,
    "late": False,
    "disk_slow": False,
    "disk_is_full": False,
    "cut_from_peers": False,
    "clock_skewed": False,
    "version_differs": False,
    "log_grown": False,
}
DOWN: Readings = {
    "reachable": False,
    "heard": False,
    "evicting": False,
    "eviction_left": False,
    "disk_is_full": False,
    "log_grown": False,
}
PD_UP: Readings = {"reachable": True, "quorum": True, "disk_is_full": False, "log_grown": False}
PD_DOWN: Readings = {**PD_UP, "reachable": False}
WHOLE: Readings = {
    "quorum": True,
    "has_leader": True,
    "settled": True,
    "stores_silent": "",
    "hot": False,
    "leaders_uneven": False,
    "balance_is_paused": False,
    "balance_is_missing": False,
    "scheduler_is_stray": False,
    "operator_is_stuck": False,
}
ASKED_BY_TURNS = ("hot", "operator_is_stuck")
UNASKED: Readings = {name: one for name, one in WHOLE.items() if name not in ASKED_BY_TURNS}
GONE = {"process": "dead", "port": "refused"}
MUTE = {"process": "alive", "port": "silent"}
WELL = {"process": "alive", "port": "answers", "log": "quiet"}
AWAY = {"store_down", "store_disconnected"}
SHORT = {"under_replicated", "regions_without_leader"}

# Which cause, where, what is broken by target, what a look shows by target, what probes show.
Case = tuple[str, str, dict[str, set[str]], dict[str, Readings], Mapping[str, str]]
CASES: list[Case] = [
    ("process_dead", "s2", {"s2": AWAY}, {"s2": DOWN}, {**GONE, "log": "quiet"}),
    ("process_dead", "s2", {"s2": AWAY, CLUSTER: SHORT}, {"s2": DOWN}, {**GONE, "log": "errors"}),
    ("process_paused", "s2", {"s2": AWAY}, {"s2": DOWN}, {"process": "stopped", "port": "silent"}),
    (
        "process_hung",
        "s2",
        {"s2": {"store_unreachable"}},
        {"s2": {**DOWN, "heard": True}},
        {**MUTE, "sockets": "waiting", "limits": "room"},
    ),
    ("files_used_up", "s2", {"s2": AWAY}, {"s2": DOWN}, {**MUTE, "limits": "files"}),
    ("memory_used_up", "s2", {"s2": AWAY}, {"s2": DOWN}, {**GONE, "log": "memory"}),
    (
        "port_occupied",
        "s2",
        {"s2": AWAY},
        {"s2": DOWN},
        {"process": "dead", "port": "answers", "log": "address"},
    ),
    ("cut_off", "s2", {"s2": AWAY, CLUSTER: SHORT}, {"s2": DOWN}, {**MUTE, "sockets": "listening"}),
    ("cut_from_pd", "s2", {"s2": {"store_disconnected"}}, {"s2": {**UP, "heard": False}}, WELL),
    (
        "cut_from_peers",
        "s2",
        {"s2": {"peers_unreachable"}, CLUSTER: {"under_replicated"}},
        {"s2": {**UP, "cut_from_peers": True}},
        {**WELL, "log": "dependency"},
    ),
    ("disk_full", "s2", {"s2": {"low_disk_space"}}, {"s2": {**UP, "disk_is_full": True}}, WELL),
    (
        "disk_slow",
        "s2",
        {"s2": {"high_latency"}},
        {"s2": {**UP, "late": True, "disk_slow": True}},
        WELL,
    ),
    ("store_slow", "s2", {"s2": {"high_latency"}}, {"s2": {**UP, "late": True}}, WELL),
    (
        "eviction_left",
        "s2",
        {"s2": {"scheduler_left"}, CLUSTER: {"leader_imbalance"}},
        {"s2": {**UP, "evicting": True, "eviction_left": True}},
        WELL,
    ),
    ("clock_skewed", "s2", {"s2": {"clock_skew"}}, {"s2": {**UP, "clock_skewed": True}}, WELL),
    (
        "version_differs",
        "s2",
        {"s2": {"versions_differ"}},
        {"s2": {**UP, "version_differs": True}},
        WELL,
    ),
    ("log_long", "s2", {"s2": {"log_oversized"}}, {"s2": {**UP, "log_grown": True}}, WELL),
    (
        "scrape_missing",
        "s2",
        {"s2": {"prometheus_target_missing"}},
        {"s2": {**UP, "prometheus_up": False}},
        WELL,
    ),
    ("process_dead", "p1", {"p1": {"pd_member_down"}}, {"p1": PD_DOWN}, {**GONE, "log": "quiet"}),
    (
        "process_dead",
        "p1",
        {"p1": {"pd_member_down"}, CLUSTER: {"pd_no_leader"}},
        {"p1": PD_DOWN, CLUSTER: {**WHOLE, "has_leader": False}},
        {**GONE, "log": "errors"},
    ),
    (
        "process_paused",
        "p1",
        {"p1": {"pd_member_down"}},
        {"p1": PD_DOWN},
        {"process": "stopped", "port": "silent"},
    ),
    (
        "majority_gone",
        CLUSTER,
        {
            "p1": {"pd_member_down"},
            "p2": {"pd_member_down"},
            CLUSTER: {"pd_no_leader"},
        },
        {
            "p1": {**PD_DOWN, "quorum": False},
            "p2": {**PD_DOWN, "quorum": False},
            CLUSTER: {"quorum": False, "has_leader": False},
        },
        {},
    ),
    (
        "majority_gone",
        "p1",
        {"p1": {"pd_member_down"}},
        {"p1": {**PD_DOWN, "quorum": False}, CLUSTER: {"quorum": False, "has_leader": False}},
        {**GONE, "log": "quiet", "sockets": "deaf", "limits": "unknown"},
    ),
    (
        "pd_unled",
        CLUSTER,
        {CLUSTER: {"pd_no_leader"}},
        {CLUSTER: {**WHOLE, "has_leader": False}},
        {},
    ),
    (
        "balance_paused",
        CLUSTER,
        {CLUSTER: {"leader_imbalance", "schedulers_idle"}},
        {CLUSTER: {**WHOLE, "leaders_uneven": True, "balance_is_paused": True}},
        {},
    ),
    (
        "balance_missing",
        CLUSTER,
        {CLUSTER: {"leader_imbalance"}},
        {CLUSTER: {**WHOLE, "leaders_uneven": True, "balance_is_missing": True}},
        {},
    ),
    (
        "leaders_uneven",
        CLUSTER,
        {CLUSTER: {"leader_imbalance"}},
        {CLUSTER: {**WHOLE, "leaders_uneven": True}},
        {},
    ),
    (
        "scheduler_stray",
        CLUSTER,
        {CLUSTER: {"scheduler_left"}},
        {CLUSTER: {**WHOLE, "scheduler_is_stray": True}},
        {},
    ),
    (
        "operator_stuck",
        CLUSTER,
        {CLUSTER: {"operator_stuck"}},
        {CLUSTER: {**WHOLE, "operator_is_stuck": True}},
        {},
    ),
    ("region_hot", CLUSTER, {CLUSTER: {"hot_region"}}, {CLUSTER: {**WHOLE, "hot": True}}, {}),
    # A first look does not tell what is hot.
    ("region_hot", CLUSTER, {CLUSTER: {"hot_region"}}, {CLUSTER: UNASKED}, {}),
    (
        "prometheus_gone",
        "m1",
        {"m1": {"prometheus_down"}},
        {"m1": {"reachable": False}},
        {},
    ),
    ("copies_lost", CLUSTER, {CLUSTER: {"under_replicated"}}, {CLUSTER: WHOLE}, {}),
]


def _targets(readings: Mapping[str, Readings]) -> list[Target]:
    """Three of each, and the cluster, which needs those that are gone or emptied."""
    away = tuple(
        name
        for name, one in readings.items()
        if name not in (CLUSTER, "m1")
        and not (one["reachable"] and one.get("heard", True) and not one.get("evicting"))
    )
    parts = [Target(f"s{turn}", STORE) for turn in (1, 2, 3)]
    parts += [Target(f"p{turn}", PD) for turn in (1, 2, 3)]
    parts += [Target("m1", PROMETHEUS)]
    return [*parts, Target(CLUSTER, CLUSTER, depends_on=away)]


@pytest.mark.parametrize(("cause", "where", "broken", "seen", "shown"), CASES)
def test_the_cause_is_told_from_all_others(
    cause: str,
    where: str,
    broken: dict[str, set[str]],
    seen: dict[str, Readings],
    shown: Mapping[str, str],
) -> None:
    stores = dict.fromkeys(("s1", "s2", "s3"), UP)
    members = dict.fromkeys(("p1", "p2", "p3"), PD_UP)
    readings: dict[str, Readings] = {**stores, **members, CLUSTER: WHOLE, **seen}
    found = Symptoms({name: frozenset(one) for name, one in broken.items()}, readings)
    belief = first_belief(list(broken), _targets(readings), EVERY, found)
    for probe, outcome in shown.items():
        belief = belief.after(probe, where, outcome)
    leader, chance = belief.rank()[0]
    ranked = [(one.cause.name, one.target, round(p, 3)) for one, p in belief.rank()[:4]]
    assert (leader.cause.name, leader.target) == (cause, where), ranked
    assert chance >= SURE, ranked


def test_who_fell_silent_a_moment_ago_and_takes_in_what_comes_is_not_restarted() -> None:
    """For a while nobody knows whether PD still hears it."""
    silent = {name: one for name, one in DOWN.items() if name != "heard"}
    broken = {"s2": frozenset({"store_unreachable"})}
    readings: dict[str, Readings] = {"s2": silent, CLUSTER: WHOLE}
    belief = first_belief(["s2"], _targets(readings), EVERY, Symptoms(broken, readings))
    for probe, outcome in {**MUTE, "sockets": "listening", "limits": "room"}.items():
        belief = belief.after(probe, "s2", outcome)
    leader, _ = belief.rank()[0]
    assert (leader.cause.name, leader.target) == ("cut_off", "s2")
    assert sum(p for one, p in belief.rank() if one.cause.remedies) < 0.2


def test_no_copies_are_called_lost_while_the_leader_of_pd_is_new() -> None:
    """A store that died before PD's leader did, by a look at the new one, or at nobody."""
    looks: list[tuple[tuple[str, ...], Readings]] = [
        (("s1",), {"stores_silent": "s1"}),
        ((), {"settled": False}),
    ]
    for away, told in looks:
        gone: Readings = {"kind": STORE, "reachable": False, "state": "Unheard"}
        readings: dict[str, Readings] = {CLUSTER: {"quorum": True, **told}, "s1": gone}
        broken = {CLUSTER: frozenset({"under_replicated"}), "s1": frozenset({"store_down"})}
        parts = [Target("s1", STORE), Target(CLUSTER, CLUSTER, depends_on=away)]
        belief = first_belief(list(broken), parts, EVERY, Symptoms(broken, readings))
        for probe, outcome in GONE.items():
            belief = belief.after(probe, "s1", outcome)
        leader, _ = belief.rank()[0]
        assert (leader.cause.name, leader.target) == ("process_dead", "s1"), told
        lost = sum(p for one, p in belief.rank() if one.cause.name == "copies_lost")
        assert lost < 0.02, told


def test_every_cause_is_tried_above_and_names_what_exists() -> None:
    assert {case[0] for case in CASES} == {cause.name for cause in CAUSES}
    tools = {one.spec.name: one.spec for one in tikv_tools(SmallPd().settings)}
    invariants = {one.name for one in invariants_of(Options())}
    for cause in CAUSES:
        assert set(cause.breaks) <= invariants, cause.name
        for remedy in cause.remedies:
            if remedy.tool == "resume_node":  # of a rig
                continue
            spec = tools[remedy.tool]
            assert (remedy.risk, remedy.reversible) == (spec.risk, spec.reversible), cause.name
            given = {*remedy.arguments, "target"}
            assert {one.name for one in spec.parameters if one.required} <= given, cause.name


def test_what_probes_predict_is_what_they_can_show() -> None:
    assert any(cause.predicts for cause in CAUSES)
    for cause in CAUSES:
        for probe, table in cause.predicts.items():
            assert set(table) <= set(OUTCOMES[probe]), (cause.name, probe)
            assert sum(table.values()) == pytest.approx(1.0), (cause.name, probe)


def test_nobody_is_told_to_force_anything() -> None:
    """A remedy takes nothing away for good; the notes say what is Operator never uses them."""
    words = ("force", "unsafe", "delete", "recover", "tombstone")
    for cause in CAUSES:
        for remedy in cause.remedies:
            assert not any(word in f"{remedy.tool} {remedy.sentence}" for word in words)
    assert not next(one for one in CAUSES if one.name == "majority_gone").remedies
    assert "Operator never uses them" in KNOWLEDGE.notes
    undone = {name: KNOWLEDGE.tools[name].undo for name in ("drain_store", "undrain_store")}
    assert undone == {"drain_store": "undrain_store", "undrain_store": "drain_store"}
