"""What is wrong with a member follows from what a look and a few questions show of it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from operator_protocols.domain.observation import Value
from operator_protocols.domain.target import Target
from operator_sre.models.reasoner.belief import SURE, Symptoms, first_belief
from operator_sre.models.reasoner.causes import GENERIC, VAGUE
from operator_sre.subjects.etcd.members import KIND
from operator_sre.subjects.etcd.tools import KNOWLEDGE

CAUSES = KNOWLEDGE.causes
MEMBERS = [Target(name, KIND) for name in ("a", "b", "c")]
OWN = {cause.name for cause in CAUSES} | VAGUE
EVERY = (*(cause for cause in GENERIC if cause.name not in OWN), *CAUSES)
DOWN: Mapping[str, Value] = {
    "reachable": False,
    "quorum": True,
    "data_damaged": False,
    "data_present": True,
    "data_intact": True,
    "all_fell": False,
    "disk_is_full": False,
    "log_grown": False,
    "listed": True,
}
UP: Mapping[str, Value] = {"reachable": True, "quorum": True, "has_leader": True}
GONE = {"process": "dead", "port": "refused"}
ALIVE = {"process": "alive", "port": "silent"}

CASES: list[tuple[str, set[str], Mapping[str, Value], Mapping[str, str]]] = [
    ("process_dead", {"member_down"}, DOWN, {**GONE, "log": "quiet"}),
    ("process_dead", {"member_down"}, {**DOWN, "heard": False}, {**GONE, "log": "errors"}),
    (
        "process_dead",
        {"member_down"},
        DOWN,
        {**GONE, "sockets": "deaf", "limits": "unknown", "log": "dependency"},
    ),
    # All members fell together, and then one of them is back.
    ("process_dead", {"member_down"}, {**DOWN, "quorum": None, "all_fell": True}, GONE),
    ("process_dead", {"member_down"}, {**DOWN, "quorum": False, "all_fell": True}, GONE),
    ("data_gone", {"member_down"}, {**DOWN, "data_present": False}, {**GONE, "log": "quiet"}),
    ("data_gone", {"member_down"}, {**DOWN, "data_present": False}, {**GONE, "log": "errors"}),
    ("data_unusable", {"member_down"}, {**DOWN, "data_damaged": True}, {**GONE, "log": "quiet"}),
    ("data_unusable", {"member_down"}, {**DOWN, "data_damaged": True}, {**GONE, "log": "errors"}),
    (
        "disk_full",
        {"member_down", "disk_full"},
        {**DOWN, "disk_is_full": True},
        {**GONE, "log": "no_space"},
    ),
    (
        "disk_full",
        {"member_down", "disk_full"},
        {**DOWN, "disk_is_full": True},
        {**GONE, "log": "quiet", "disk": "full"},
    ),
    ("cut_off", {"member_down"}, {**DOWN, "heard": False}, {**ALIVE, "sockets": "listening"}),
    (
        "process_hung",
        {"member_down"},
        {**DOWN, "heard": True},
        {**ALIVE, "sockets": "waiting", "limits": "room"},
    ),
    (
        "files_used_up",
        {"member_down"},
        {**DOWN, "heard": True},
        {**ALIVE, "sockets": "waiting", "limits": "files"},
    ),
    ("files_used_up", {"member_down"}, DOWN, {**GONE, "log": "files"}),
    (
        "process_paused",
        {"member_down"},
        {**DOWN, "heard": False},
        {"process": "stopped", "port": "silent"},
    ),
    ("port_occupied", {"member_down"}, DOWN, {"process": "dead", "port": "answers"}),
    ("member_removed", {"member_down", "member_removed"}, {**DOWN, "listed": False}, GONE),
    (
        "cut_from_peers",
        {"peer_unreachable", "no_leader"},
        {**UP, "has_leader": False},
        {"process": "alive", "port": "answers", "log": "errors"},
    ),
    (
        "listed_elsewhere",
        {"peer_address"},
        {**UP, "listed_elsewhere": True},
        {"process": "alive", "port": "answers", "log": "quiet"},
    ),
    (
        "log_long",
        {"log_oversized"},
        {**UP, "log_grown": True},
        {"process": "starting", "port": "answers", "log": "quiet"},
    ),
]


@pytest.mark.parametrize(("cause", "broken", "readings", "shown"), CASES)
def test_the_cause_is_told_from_all_others(
    cause: str, broken: set[str], readings: Mapping[str, Value], shown: Mapping[str, str]
) -> None:
    symptoms = Symptoms({"b": frozenset(broken)}, {"b": readings})
    belief = first_belief(["b"], MEMBERS, EVERY, symptoms)
    for probe, outcome in shown.items():
        belief = belief.after(probe, "b", outcome)
    ranked = belief.rank()
    leader, _ = ranked[0]
    assert (leader.cause.name, leader.target) == (cause, "b")
    # A cause may have variants that differ in what is done about them; the diagnosis is the same.
    named = [chance for each, chance in ranked if (each.cause.name, each.target) == (cause, "b")]
    assert sum(named) >= SURE, [(each.cause.name, round(p, 3)) for each, p in ranked[:4]]
