"""A rig through the use cases that the faces call: up, hurt, healed, down."""

from __future__ import annotations

from pathlib import Path

import pytest

from operator_protocols.errors import NotFoundError
from operator_sre.app.lab import (
    RigView,
    break_rig,
    fault_of,
    heal_rig,
    own_rig,
    rig_down,
    rig_status,
    rig_up,
)
from operator_sre.gate import Profile
from operator_sre.subjects.ratelimiter.rig import FAULTS
from tests.app.home import opened

pytestmark = pytest.mark.asyncio


def _states(view: RigView) -> dict[str, str]:
    return {target.name: str(target.state) for target in view.targets}


async def test_a_rig_is_brought_up_hurt_healed_and_taken_down(tmp_path: Path) -> None:
    with opened(tmp_path, mode="execute") as app:
        try:
            view = await rig_up(app, "ratelimiter")
            assert set(_states(view).values()) == {"running"}
            assert view.faults == tuple(fault.name for fault in FAULTS)
            assert app.subjects() == app.choose([]) == ["ratelimiter"]
            policy = app.care("ratelimiter").gate.policy()
            assert policy.profile is Profile.LAB
            assert policy.boundary_tools == {"restart_node", "resume_node"}
            assert policy.boundary_targets == set(_states(view))
            hit = await break_rig(app, "ratelimiter", "node_pause", target="node-2", seed=None)
            assert hit == "node-2"
            assert _states(rig_status(app, "ratelimiter"))["node-2"] == "paused"
            assert await heal_rig(app, "ratelimiter", "node_pause", target="node-2") == "node-2"
            assert set(_states(rig_status(app, "ratelimiter")).values()) == {"running"}
        finally:
            await rig_down(app, "ratelimiter")
        assert app.subjects() == []
        with pytest.raises(NotFoundError):
            rig_status(app, "ratelimiter")


@pytest.mark.parametrize("use", [rig_up, own_rig, rig_down])
async def test_a_rig_of_something_unknown_is_refused(tmp_path: Path, use: object) -> None:
    assert callable(use)
    with opened(tmp_path) as app, pytest.raises(NotFoundError, match="'nothing'"):
        await use(app, "nothing")


async def test_a_rig_that_is_not_there_is_taken_down_without_a_word(tmp_path: Path) -> None:
    with opened(tmp_path) as app:
        await rig_down(app, "ratelimiter")


async def test_an_unknown_fault_is_refused_with_those_there_are() -> None:
    with pytest.raises(NotFoundError, match="'fire'") as caught:
        fault_of("ratelimiter", "fire")
    assert "node_kill" in caught.value.next_step
    assert fault_of("ratelimiter", "node_kill") == FAULTS[0]
