"""Every tool that starts what holds data asks for its data, its role and the room on its disk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from operator_lab.tools import RESTART_NODE
from operator_protocols.domain.observation import Observation, Seen, Value
from operator_protocols.domain.precondition import Precondition, find_unmet
from operator_protocols.domain.target import Target
from operator_sre.plugins import find_plugin
from tests.contract.clock import NOON

MB = 1 << 20
RESTART = RESTART_NODE.name


@dataclass(frozen=True, slots=True)
class _Data:
    """One kind of target that holds data, and what is so when its start harms nothing."""

    subject: str
    kind: str
    tools: tuple[str, ...]
    well: Mapping[str, Value]
    free_bytes_min: int


INTACT: Mapping[str, Value] = {"data_present": True, "data_intact": True}
SERVER = {"data_present": True, "start_second_writer": False, "start_data_older": False}
STORE = {"failover_due": False, "start_loses_data": False, "start_second_writer": False}
BROKER = {**INTACT, "sheltered": True, "controller_last": True, "quorum_kept": True}
FORMER = {"start_second_writer": True}
HOLDERS = [
    _Data("postgres", "server", (RESTART,), SERVER, 32 * MB),
    _Data("ratelimiter", "store", (RESTART,), STORE, 4 * MB),
    _Data("ratelimiter", "replica", (RESTART,), STORE, 4 * MB),
    _Data("ratelimiter", "store", ("start_as_replica",), FORMER, 4 * MB),
    _Data("ratelimiter", "replica", ("start_as_replica",), FORMER, 4 * MB),
    _Data("etcd", "member", (RESTART, "align_settings"), INTACT, 16 * MB),
    _Data("kafka", "broker", (RESTART, "restart_broker"), BROKER, 32 * MB),
    _Data("tikv", "store", (RESTART, "restart_store"), INTACT, 64 * MB),
    _Data("tikv", "pd", (RESTART, "restart_pd"), INTACT, 16 * MB),
]
CASES = [(holder, tool) for holder in HOLDERS for tool in holder.tools]
IDS = [f"{holder.subject}-{holder.kind}-{tool}" for holder, tool in CASES]


def _requires(holder: _Data, tool: str) -> tuple[Precondition, ...]:
    """What the plug-in hands on to the rig and the registry."""
    return find_plugin(holder.subject).requires[tool]


def _unmet(holder: _Data, tool: str, free: Value, runs_at: str = "") -> list[tuple[str, bool]]:
    target = Target("a", holder.kind, port=1, data_dir="/srv/a", runs_at=runs_at)
    readings = {**holder.well, "disk_free_bytes": free}
    observation = Observation("shop", NOON, (Seen("a", readings),))
    found = find_unmet(_requires(holder, tool), "a", [target], observation)
    return [(each.precondition.reading, each.known) for each in found]


@pytest.mark.parametrize(("holder", "tool"), CASES, ids=IDS)
def test_nothing_that_holds_data_is_started_on_a_full_disk(holder: _Data, tool: str) -> None:
    enough = holder.free_bytes_min
    assert _unmet(holder, tool, enough) == []
    assert _unmet(holder, tool, enough - 1) == [("disk_free_bytes", True)]
    assert _unmet(holder, tool, 0) == [("disk_free_bytes", True)]
    assert _unmet(holder, tool, None) == [("disk_free_bytes", False)]
    assert _unmet(holder, tool, None, runs_at="ssh://a") == []


@pytest.mark.parametrize(("holder", "tool"), CASES, ids=IDS)
def test_without_any_other_answer_nothing_is_started(holder: _Data, tool: str) -> None:
    target = Target("a", holder.kind, port=1, data_dir="/srv/a")
    asked = {each.reading for each in _requires(holder, tool)} - {"disk_free_bytes"}
    assert asked
    assert asked <= set(holder.well)
    for reading in sorted(asked):
        rest = {name: value for name, value in holder.well.items() if name != reading}
        seen = Seen("a", {**rest, "disk_free_bytes": 1 << 40})
        unmet = find_unmet(
            _requires(holder, tool), "a", [target], Observation("shop", NOON, (seen,))
        )
        assert [(each.precondition.reading, each.known) for each in unmet] == [(reading, False)]


@pytest.mark.parametrize("subject", ["postgres", "ratelimiter", "etcd", "kafka"])
def test_every_process_with_a_volume_is_one_of_these(subject: str) -> None:
    rig = find_plugin(subject).rig
    assert rig is not None
    kinds = {process.kind for process in rig().processes if process.volume_mb}
    assert kinds == {holder.kind for holder in HOLDERS if holder.subject == subject}


@pytest.mark.parametrize("tool", ["restart_node", "resume_node"])
@pytest.mark.parametrize(("subject", "kind"), [("postgres", "server"), ("ratelimiter", "store")])
def test_no_second_writer_starts_or_continues(tool: str, subject: str, kind: str) -> None:
    target = Target("a", kind, port=1, data_dir="/srv/a")
    seen = Seen("a", {"start_second_writer": True})
    requires = find_plugin(subject).requires[tool]
    unmet = find_unmet(requires, "a", [target], Observation("shop", NOON, (seen,)))
    assert ("start_second_writer", True) in [
        (each.precondition.reading, each.known) for each in unmet
    ]
