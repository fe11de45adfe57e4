"""Rigs that serve one trial after another, and only while they are whole."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from operator_evals.app import rig_pool
from operator_evals.app.campaigns import Jobs
from operator_evals.app.rig_pool import RigPool
from operator_evals.campaign import Campaign, Control, Planned, Scenario, Variant
from operator_evals.facts import TrialFacts, TrialState
from operator_lab.rig import RunState
from operator_protocols.errors import RigError

pytestmark = pytest.mark.asyncio


@dataclass(eq=False)
class FakeRig:
    """A rig that is only a directory; `state` is that of its one part."""

    directory: Path
    state: RunState = RunState.RUNNING
    ended: bool = False
    broken: tuple[str, ...] = ()

    def targets(self) -> tuple[Any, ...]:
        """Its part."""
        return (SimpleNamespace(name="part"),)

    def status(self) -> Any:
        """How its part is; the load is no part."""
        rows = (("part", self.state), ("load", RunState.EXITED))
        return SimpleNamespace(processes=[SimpleNamespace(name=n, state=s) for n, s in rows])

    async def down(self) -> None:
        """End it."""
        self.ended = True


@dataclass
class Maker:
    """Makes rigs, and remembers them."""

    made: list[FakeRig] = field(default_factory=list)

    async def raise_rig(self, subject: str, directory: Path, **how: Any) -> FakeRig:
        """The next rig."""
        assert how == {"make": None, "owned": True}
        self.made.append(FakeRig(directory))
        return self.made[-1]


@pytest.fixture
def maker(monkeypatch: pytest.MonkeyPatch) -> Maker:
    """Where rigs come from."""
    found = Maker()
    monkeypatch.setattr(rig_pool, "raise_rig", found.raise_rig)
    monkeypatch.setattr("operator_lab.faults.broken", lambda rig: rig.broken)
    return found


async def test_a_whole_rig_serves_the_next_trial_and_all_end_with_the_campaign(
    maker: Maker, tmp_path: Path
) -> None:
    async with RigPool(tmp_path) as pool:
        async with pool.lend("shop") as first:
            assert not first.used
            async with pool.lend("shop") as beside:
                beside.keep = True
            first.keep = True
        assert len(maker.made) == 2
        async with pool.lend("shop") as again:
            assert again.used
            again.keep = True
        assert len(maker.made) == 2
        async with pool.lend("other") as other:
            assert not other.used
        assert [rig.ended for rig in maker.made] == [False, False, True], "it was not to be kept"
    assert all(rig.ended for rig in maker.made)


@pytest.mark.parametrize("damage", ["unhealed", "dead part", "error"])
async def test_a_rig_that_is_not_whole_serves_nobody_again(
    damage: str, maker: Maker, tmp_path: Path
) -> None:
    async with RigPool(tmp_path) as pool:
        try:
            async with pool.lend("shop") as lent:
                lent.keep = True
                if damage == "unhealed":
                    maker.made[0].broken = ("image_missing",)
                elif damage == "dead part":
                    maker.made[0].state = RunState.EXITED
                else:
                    raise RigError("The trial failed.")
        except RigError:
            assert damage == "error"
        assert maker.made[0].ended
        async with pool.lend("shop") as fresh:
            assert not fresh.used


async def test_a_trial_that_could_not_begin_on_a_used_rig_has_another(
    maker: Maker, tmp_path: Path
) -> None:
    scenario = Scenario("shop", Control.NOTHING.value)
    campaign = Campaign("c", (scenario,), (Variant("none"),), {}, reuse_rigs=True)
    planned = Planned(scenario, "none", 0)
    facts = TrialFacts("c", planned.key, scenario, "none", 0, TrialState.DONE)
    rigs: list[str] = []

    class Trials:
        """The second trial finds its rig sick."""

        async def run(self, job: Any) -> TrialFacts:
            """The facts of a trial."""
            rigs.append(job.rig)
            state = TrialState.INVALID if len(rigs) == 2 else TrialState.DONE
            return replace(facts, state=state)

    config = SimpleNamespace(models=(), file=None)
    async with RigPool(tmp_path) as pool:
        places = (("operator",), tmp_path, tmp_path, Trials())
        jobs = Jobs(config, campaign, *places, rigs=pool)  # type: ignore[arg-type]
        assert (await jobs.run(planned)).state is TrialState.DONE
        assert (await jobs.run(planned)).state is TrialState.DONE
    assert [Path(each).name for each in rigs] == ["r1", "r1", "r2"]
