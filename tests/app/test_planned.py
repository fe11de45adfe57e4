"""A state that a person made on purpose is no incident; one that an agent left behind is."""

from __future__ import annotations

from pathlib import Path

import pytest

from operator_protocols.domain.action import Action, Outcome, Result
from operator_protocols.domain.entry import Actor
from operator_protocols.domain.limits import TargetChange
from operator_protocols.domain.permit import Permit
from operator_protocols.domain.verdict import Mode, Risk
from operator_sre.app.silences import PLANNED, silences_now
from operator_sre.app.wiring import App
from operator_sre.gate import Gate, Policy
from tests.app.home import SUBJECTS, opened

pytestmark = pytest.mark.asyncio

ADA = Actor("ada", "user", "ada@desk:7")
AGENT = Actor("system", "system", "crane:8")
PLACE = ("shop", "node-1", "node_draining")


async def _did(app: App, tool: str, by: Actor, *, exit_code: int = 0, target: str = "") -> None:
    """What the gate and the executor leave behind of one call."""
    specs = app.controls("shop").registry.specs
    policy = Policy(mode=Mode.EXECUTE, auto=frozenset(Risk), tools=specs)
    store = app.store
    gate = Gate(lambda: policy, store.journal, store.approvals, app.clock, app.new_id)
    arguments = {"target": target or "node-1"}
    verdict = gate.judge(Action(tool, arguments))
    permit = await gate.permit(verdict, None, by, subject="shop")
    assert isinstance(permit, Permit), permit
    intent = await store.intents.begin(permit)
    await store.intents.end(intent, Result(Outcome.RAN, exit_code))


def _silent(app: App) -> bool:
    specs = app.controls("shop").registry.specs
    return any(one.covers(*PLACE) for one in silences_now(app, "shop", specs))


async def test_what_a_person_drained_is_planned_until_somebody_takes_it_back(
    tmp_path: Path,
) -> None:
    with opened(tmp_path, SUBJECTS) as app:
        assert not _silent(app)
        await _did(app, "drain_node", ADA)
        assert _silent(app)
        (one,) = silences_now(app, "shop", app.controls("shop").registry.specs)
        assert (one.id, one.by, one.reason) == (PLANNED, "ada", "drain_node by ada")
        assert not one.covers("shop", "node-1", "node_down"), "only what a drain explains"
        assert not one.covers("shop", "node-2", "node_draining")
        quiet = app.engine().pipeline.monitor._quiet
        assert [silence.id for silence in quiet("shop")] == [PLANNED]
        await _did(app, "undrain_node", AGENT)
        assert not _silent(app)
        assert quiet("shop") == []
        await _did(app, "drain_node", ADA)
        assert _silent(app)


async def test_what_an_agent_left_behind_is_an_incident(tmp_path: Path) -> None:
    with opened(tmp_path, SUBJECTS) as app:
        await _did(app, "drain_node", ADA)
        await _did(app, "undrain_node", ADA)
        await _did(app, "drain_node", AGENT)
        assert not _silent(app)


async def test_what_did_not_go_well_plans_nothing_and_ends_nothing(tmp_path: Path) -> None:
    with opened(tmp_path, SUBJECTS) as app:
        await _did(app, "drain_node", ADA, exit_code=1)
        assert not _silent(app)
        await _did(app, "drain_node", ADA)
        await _did(app, "undrain_node", ADA, exit_code=1)
        assert _silent(app)


async def test_the_newest_change_of_each_target_is_told(tmp_path: Path) -> None:
    with opened(tmp_path, SUBJECTS) as app:
        for tool, by, target in [
            ("drain_node", ADA, "node-1"),
            ("drain_node", AGENT, "node-2"),
            ("undrain_node", AGENT, "node-1"),
        ]:
            await _did(app, tool, by, target=target)
        changes = app.store.limit_usage
        found = changes.newest("shop", ["drain_node", "undrain_node"])
        assert isinstance(found[0], TargetChange)
        assert [(one.target, one.tool, one.by, one.planned) for one in found] == [
            ("node-1", "undrain_node", "crane", False),
            ("node-2", "drain_node", "crane", False),
        ]
        assert changes.newest("elsewhere", ["drain_node"]) == []
        assert changes.newest("shop", []) == []
