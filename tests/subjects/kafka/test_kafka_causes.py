"""What is wrong with a broker follows from what a check and a few questions show of it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from operator_protocols.domain.observation import Value
from operator_protocols.domain.target import Target
from operator_sre.models.reasoner.belief import SURE, Symptoms, first_belief
from operator_sre.models.reasoner.causes import GENERIC, VAGUE
from operator_sre.subjects.kafka.kinds import BROKER
from operator_sre.subjects.kafka.tools import KNOWLEDGE

BROKERS = [Target(name, BROKER) for name in ("a", "b", "c")]
OWN = {cause.name for cause in KNOWLEDGE.causes} | VAGUE
EVERY = (*(cause for cause in GENERIC if cause.name not in OWN), *KNOWLEDGE.causes)
RUNS: Mapping[str, Value] = {
    "reachable": False,
    "running": True,
    "paused": False,
    "data_present": True,
    "data_intact": True,
    "log_damaged": False,
    "disk_is_full": False,
    "log_grown": False,
}
ENDED: Mapping[str, Value] = {**RUNS, "running": False}
ALIVE = {"process": "alive", "log": "quiet", "disk": "room", "limits": "room"}
UNREACHED = {**ALIVE, "port": "silent", "sockets": "listening"}
GONE = {"process": "dead", "port": "refused", "log": "quiet"}

CASES: list[tuple[str, Mapping[str, Value], Mapping[str, str]]] = [
    ("process_dead", {**ENDED, "registered": False}, GONE),
    # The controllers are still electing, so nobody knows yet who is registered.
    ("cut_off", RUNS, UNREACHED),
    ("cut_off", {**RUNS, "registered": False}, UNREACHED),
    ("process_paused", {**RUNS, "paused": True}, {"process": "stopped", "port": "silent"}),
    (
        "process_paused",
        {**RUNS, "paused": True, "registered": False},
        {"process": "stopped", "port": "silent"},
    ),
    (
        "process_hung",
        {**RUNS, "registered": True},
        {**ALIVE, "port": "silent", "sockets": "waiting"},
    ),
    # The others do not let it join.
    (
        "data_unusable",
        {**RUNS, "log_damaged": True},
        {**ALIVE, "log": "errors", "port": "refused", "sockets": "elsewhere"},
    ),
    ("data_unusable", {**ENDED, "log_damaged": True}, {**GONE, "log": "errors"}),
    ("data_gone", {**ENDED, "data_present": False, "data_intact": False}, GONE),
]


@pytest.mark.parametrize(("cause", "readings", "shown"), CASES)
def test_the_cause_of_a_silent_broker_is_told_from_all_others(
    cause: str, readings: Mapping[str, Value], shown: Mapping[str, str]
) -> None:
    symptoms = Symptoms({"b": frozenset({"broker_down"})}, {"b": readings})
    belief = first_belief(["b"], BROKERS, EVERY, symptoms)
    for probe, outcome in shown.items():
        belief = belief.after(probe, "b", outcome)
    leader, chance = belief.rank()[0]
    ranked = [(each.cause.name, round(p, 3)) for each, p in belief.rank()[:4]]
    assert (leader.cause.name, leader.target) == (cause, "b"), ranked
    assert chance >= SURE, ranked
