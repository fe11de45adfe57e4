"""What a control does around a system, over a real store and a rig that only notes it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from operator_evals.app import trial_agents
from operator_evals.app.trial_agents import ControlOfTrial, VariantAtWork
from operator_evals.app.trial_rig import TRIGGER, Job, RigOfTrial
from operator_evals.campaign import Campaign, Control, Planned, Scenario, Variant
from operator_evals.facts import Snapshot, TicketFact
from operator_protocols.domain.target import Target
from operator_protocols.errors import RigError
from operator_sre.app.wiring import App, open_app
from operator_sre.config import load_config

PARTS = (Target("member-1", "member", port=1), Target("member-2", "member", port=2))
TICKET = TicketFact(1, "open", "member-1", ("member_down",))


class World:
    """A rig, whoever watches it, and a note of all that is done to them."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.broken: list[str] = []
        self.violated: tuple[str, ...] = ()
        self.found: tuple[TicketFact, ...] = ()
        self.noisy = asyncio.Event()
        self.rig = self

    def targets(self) -> tuple[Target, ...]:
        return PARTS

    def unable(self, target: str, ability: str, others: tuple[str, ...] = ()) -> str:
        return ""

    async def pause(self, target: str) -> None:
        self.done.append(f"pause {target}")

    async def resume(self, target: str) -> None:
        self.done.append(f"resume {target}")
        self.noisy.set()

    async def look(self) -> Snapshot:
        return Snapshot(0.0, broken=self.violated)

    def tickets(self) -> tuple[TicketFact, ...]:
        return self.found

    async def stop(self) -> None:
        self.done.append("stop")

    async def work(self) -> None:
        self.done.append("work")


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World()

    async def inject(rig: object, fault: object, *, target: None, rng: object) -> str:
        made.done.append("break")
        made.broken.append("node_kill")
        return "member-1"

    async def heal(rig: object, fault: object) -> str:
        made.done.append("heal")
        made.broken.clear()
        return "member-1"

    fake = SimpleNamespace(
        inject=inject,
        heal=heal,
        unavailable=lambda rig, fault: "",
        broken=lambda rig: [SimpleNamespace(fault=one) for one in made.broken],
    )
    monkeypatch.setattr(trial_agents, "faults", fake)
    return made


Make = Callable[[Control], ControlOfTrial]


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    with open_app(load_config(flags={"home": str(tmp_path)}, environ={}, cwd=tmp_path)) as found:
        yield found


@pytest.fixture
def make(app: App, world: World) -> Make:
    def made(control: Control) -> ControlOfTrial:
        place, variant = cast(RigOfTrial, world), cast(VariantAtWork, world)
        return ControlOfTrial(app, place, variant, _job(control))

    return made


def _job(control: Control) -> Job:
    scenario = Scenario("etcd", control.value)
    campaign = Campaign("c", (scenario,), (Variant("reasoner"),), {}, detect_s_max=0.3)
    planned = Planned(scenario, "reasoner", 0)
    return Job(campaign, planned, "/nowhere", "/nowhere", ("operator",), 0.0)


async def _over(control: ControlOfTrial) -> tuple[str, str]:
    assert control.unavailable() == ""
    hit = await control.inject()
    return hit, await control.still()


@pytest.mark.asyncio
async def test_nothing_is_nothing(make: Make, world: World) -> None:
    assert await _over(make(Control.NOTHING)) == ("", "")
    assert world.done == []


@pytest.mark.asyncio
async def test_what_is_announced_is_silent_before_it_is_done_and_is_taken_back(
    app: App, make: Make, world: World
) -> None:
    control = make(Control.MAINTENANCE)
    assert await _over(control) == ("member-1", "")
    (silence,) = app.store.silences.find(at=app.clock.now())
    assert silence.covers("etcd", "member-1", "member_down")
    assert not silence.covers("postgres", "primary", "server_down")
    await control.heal()
    await control.heal()
    assert world.done == ["break", "heal"]


@pytest.mark.asyncio
async def test_an_alert_misleads_whoever_believes_it(app: App, make: Make, world: World) -> None:
    hit, wrong = await _over(make(Control.MISLEADING))
    (alert,) = app.store.alerts.find(firing=True, subject="etcd", limit=9)
    assert (alert.target, alert.trigger, wrong, world.done) == (hit, TRIGGER, "", [])
    told = _job(Control.MISLEADING).settings_file
    assert f"[triggers.{TRIGGER}]" in told
    assert TRIGGER not in _job(Control.NOISY).settings_file


@pytest.mark.asyncio
async def test_whoever_works_comes_when_it_is_back(make: Make, world: World) -> None:
    world.found = (TICKET,)
    assert await _over(make(Control.RECOVERED)) == ("member-1", "")
    assert world.done == ["break", "stop", "heal", "work"]
    world.found = ()
    with pytest.raises(RigError, match="No ticket was opened"):
        await make(Control.RECOVERED).inject()


@pytest.mark.asyncio
async def test_noise_that_breaks_something_is_told(make: Make, world: World) -> None:
    control = make(Control.NOISY)
    assert await control.inject() == ""
    await asyncio.wait_for(world.noisy.wait(), 30)
    assert await control.still() == ""
    world.violated = ("slow_read@member-2",)
    assert await control.still() == "slow_read@member-2"
    await control.heal()
    paused = [one.split()[1] for one in world.done if one.startswith("pause")]
    resumed = [one.split()[1] for one in world.done if one.startswith("resume")]
    assert paused == resumed
