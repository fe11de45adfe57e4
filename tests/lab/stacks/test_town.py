"""Our own limiter in containers on a real engine: watched, hurt, healed, and gone for good."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import pytest
import pytest_asyncio

from operator_lab import faults
from operator_lab.app.rig_logs import follow_logs, read_logs
from operator_lab.app.rigs import break_rig, faults_of, heal_all, rig_down, rig_report, rig_status
from operator_lab.rig import AnyRig, attach, retire_any
from operator_lab.stacks.containers import PROJECT_LABEL, SERVICE_LABEL
from operator_lab.stacks.rig import OwnedStackRig, StackRig, project_of, raise_stack
from operator_protocols.domain.action import Action, Outcome
from operator_protocols.domain.health import Health
from operator_protocols.domain.stack import StackService, StackSpec
from operator_protocols.errors import NotFoundError, RigError, UsageError
from operator_protocols.ports import Ability, Job
from operator_sre.app.wiring import App
from operator_sre.plugins import find_plugin
from operator_sre.subjects.ratelimiter.rig import server_path
from tests.app.home import opened
from tests.engines.dockerd import PrivateEngine
from tests.lab.stacks.engines import TOWN, engine_to_publish, on_path
from tests.lab.stacks.owner import plain_spec
from tests.processes.waiting import eventually, processes_in

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.slow,
    pytest.mark.system,
    pytest.mark.timeout(900),
    pytest.mark.group("stacks"),
]

NAME = "ratelimiter"
ROOT = Path(__file__).resolve().parents[3]
LOAD = ROOT / "src/operator_sre/subjects/ratelimiter/compose/load.py"
# How long the slowest of them takes on a busy machine.
SEEN_S_MAX, LOOK_EVERY_S = 150.0, 0.5
PORTS = ("STORE_PORT", "RELAY_PORT", "NODE_1_PORT", "NODE_2_PORT")


@dataclass
class Town:
    """A rig of containers under a home, and the engine below it."""

    app: App
    engine: PrivateEngine

    @property
    def rig(self) -> AnyRig:
        """A new handle, as every command has its own."""
        return attach(self.app.rig_directory(NAME))

    @property
    def containers(self) -> dict[str, str]:
        """The state of every container of the project, by its service."""
        rows = self.engine.ask("GET", "/containers/json?all=true")
        return {row["Labels"].get(SERVICE_LABEL, row["Names"][0]): row["State"] for row in rows}

    async def broken(self) -> set[str]:
        """What the real monitor finds wrong at this moment, as `invariant@target`."""
        controls = self.app.controls(NAME)
        check = await self.app.engine().pipeline.monitor.check(controls.subject)
        return {
            f"{one.invariant}@{one.target}" for one in check.findings if one.health is Health.BROKEN
        }

    async def until(self, condition: Callable[[set[str]], bool]) -> None:
        """Look at the pace of a monitor until what is broken is as it should be."""
        ends = time.monotonic() + SEEN_S_MAX
        while not condition(found := await self.broken()):
            assert time.monotonic() < ends, found
            await asyncio.sleep(LOOK_EVERY_S)


def _spec(engine: PrivateEngine) -> StackSpec:
    needs = ("store",)
    return StackSpec(
        subject=NAME,
        folder=str(TOWN),
        services=(
            StackService(
                *("store", "store", "STORE_PORT"),
                endpoints=("relay:6379",),
                disk="/disks/store",
                relay=True,
                opened_by="redis",
            ),
            StackService("node-1", "node", "NODE_1_PORT", depends_on=needs),
            StackService("node-2", "node", "NODE_2_PORT", depends_on=needs),
        ),
        ports=dict.fromkeys(PORTS, 1),
        settings={
            "TEST_IMAGE": engine.image,
            "TEST_PYTHON": sys.base_prefix,
            "TEST_VENV": sys.prefix,
            "TEST_CHECKOUT": str(ROOT),
            "TEST_STORE": server_path(),
            "TEST_LOAD": str(LOAD),
        },
        secrets=("redis", "relay"),
        keeper="disks",
        relay="relay",
    )


@pytest.fixture(scope="module")
def engine(pytestconfig: pytest.Config) -> Iterator[PrivateEngine]:
    """An engine of our own; this process is in its network as long as there is one."""
    patch = pytest.MonkeyPatch()
    engine = engine_to_publish(pytestconfig)
    try:
        with engine.entered(), on_path(engine, patch):
            yield engine
    finally:
        engine.end()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def town(
    engine: PrivateEngine, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Town]:
    with opened(tmp_path_factory.mktemp("home"), mode="execute") as app:
        await raise_stack(_spec(engine), app.rig_directory(NAME), owned=False)
        yield Town(app, engine)
        await rig_down(app, NAME)
        assert engine.ask("GET", "/containers/json?all=true") == []
        assert not engine.ask("GET", "/volumes")["Volumes"]
        assert not app.rig_directory(NAME).exists()


async def test_it_is_a_rig_like_any_other(town: Town) -> None:
    view = rig_status(town.app, NAME)
    assert [one.name for one in view.targets] == ["store", "node-1", "node-2"]
    assert {str(one.state) for one in view.targets} == {"running"}
    assert NAME in town.app.subjects()
    assert isinstance(town.rig, StackRig)
    port = next(one.port for one in view.targets if one.name == "node-1")
    assert port == town.rig.own_ports()["node-1"]
    project = project_of(NAME, town.app.rig_directory(NAME))
    target = next(one for one in town.rig.targets() if one.name == "node-1")
    assert target.runs_at == f"docker://{project}-node-1-1"
    rows = town.engine.ask("GET", "/containers/json")
    assert {row["Labels"][PROJECT_LABEL] for row in rows} == {project}


async def test_a_second_one_in_the_same_place_is_refused(town: Town) -> None:
    with pytest.raises(RigError, match="already up"):
        await raise_stack(_spec(town.engine), town.app.rig_directory(NAME), owned=False)
    assert town.containers["node-1"] == "running"


async def test_no_password_is_in_what_others_can_see(town: Town) -> None:
    rig = town.rig
    assert isinstance(rig, StackRig)
    folder = rig.directory / "secrets"
    words = [place.read_text() for place in folder.iterdir()]
    assert len(words) == 2
    assert folder.stat().st_mode & 0o777 == 0o700
    rows = town.engine.ask("GET", "/containers/json")
    told = json.dumps([town.engine.inspect(row["Id"]) for row in rows])
    told += json.dumps([town.engine.processes(row["Id"]) for row in rows])
    assert not [word for word in words if word in told]


async def test_its_monitor_sees_it_well(town: Town) -> None:
    await town.until(lambda found: not found)


@pytest.mark.parametrize(
    ("fault", "breaks"),
    [
        ("node_kill", "node_down"),
        ("node_pause", "node_down"),
        ("node_cut", "node_down"),
        ("network_partition", "redis_disconnected"),
        ("latency", "high_latency"),
        ("store_kill", "redis_disconnected"),
        ("disk_pressure", "store_refuses_writes"),
    ],
)
async def test_a_fault_is_seen_and_is_undone(town: Town, fault: str, breaks: str) -> None:
    before = {one.name: one for one in rig_status(town.app, NAME).targets}
    hit = await break_rig(town.app, NAME, fault, target=None, seed=1)
    (one,) = (await rig_report(town.app, NAME)).broken
    assert (one.fault, one.target, one.over) == (fault, hit, False)
    others = {name: state for name, state in town.containers.items() if name != hit}
    assert set(others.values()) == {"running"}, "somebody else was hit"

    await town.until(lambda found: any(each.startswith(f"{breaks}@") for each in found))
    assert await heal_all(town.app, NAME, target=None)
    for name in before:
        assert town.rig.damage(name) == frozenset()
    await town.until(lambda found: not found)
    assert set(town.containers.values()) == {"running"}


async def test_what_containers_cannot_do_is_known_before(town: Town) -> None:
    known = {one.name: one for one in faults_of(town.app, NAME)}
    assert known["node_kill"].available
    assert known["disk_pressure"].available
    assert "fixed when it is created" in known["file_limit"].why_not
    assert "held by the engine" in known["port_taken"].why_not
    assert "no relay" in town.rig.unable("node-1", Ability.SLOW)
    assert "no relay is" in town.rig.unable("node-1", Ability.CUT, ("node-2",))
    assert town.rig.unable("node-1", Ability.CUT, ("store",)) == ""
    assert "no volume" in town.rig.unable("node-1", Ability.FILL)
    for deed in (
        town.rig.limit("node-1", files=8),
        town.rig.unlimit("node-1"),
        town.rig.occupy("node-1"),
        town.rig.vacate("node-1"),
        town.rig.fill("node-1"),
        town.rig.slow("node-1", 0.1),
    ):
        with pytest.raises(RigError):
            await deed
    with pytest.raises(NotFoundError, match="no target"):
        await town.rig.kill("node")


async def test_data_survives_a_kill_because_somebody_keeps_the_disk(town: Town) -> None:
    rows = town.engine.ask("GET", "/containers/json")
    keeper = next(row["Id"] for row in rows if row["Labels"][SERVICE_LABEL] == "disks")

    def size() -> int:
        command = ["du", "-sk", "/disks/store"]
        body = {"Cmd": command, "AttachStdout": True, "Tty": True}
        made = town.engine.ask("POST", f"/containers/{keeper}/exec", body)
        start = {"Detach": False, "Tty": True}
        told = town.engine.ask("POST", f"/exec/{made['Id']}/start", start)
        return int(told.split()[0])

    before = size()
    assert before > 0
    await town.rig.kill("store")
    assert size() >= before, "its volume went with it"
    await town.rig.restart("store")
    assert "KILL" not in str(town.rig.damage("store"))


async def test_a_mind_restarts_by_the_tool_of_the_rig(town: Town) -> None:
    await town.rig.kill("node-2")
    controls = town.app.controls(NAME)
    action = Action(tool="restart_node", arguments={"target": "node-2"}, reasoning="it is dead")
    tool = next(one for one in controls.registry.tools if one.spec.name == "restart_node")
    result = await tool.call(action.arguments, Job(id="t-1"))
    assert (result.outcome, result.exit_code) == (Outcome.RAN, 0)
    assert town.containers["node-2"] == "running"


async def test_what_they_say_is_told(town: Town) -> None:
    (view,) = read_logs(town.app, NAME, target="node-1", lines=5)
    assert view.target == "node-1"
    assert 0 < len(view.lines) <= 5
    with pytest.raises(UsageError, match="cannot follow the logs"):
        async for _ in follow_logs(town.app, NAME, target=None, lines=5):
            pass


def _owner(directory: Path, image: str) -> subprocess.Popen[str]:
    words = ["-m", "tests.lab.stacks.owner", str(directory), image]
    return subprocess.Popen(
        [sys.executable, *words], cwd=ROOT, stdout=subprocess.PIPE, env=dict(os.environ), text=True
    )


async def test_an_owned_rig_ends_with_its_owner(engine: PrivateEngine, tmp_path: Path) -> None:
    directory = tmp_path / "rig"
    chosen = {"label": [f"{PROJECT_LABEL}={project_of('plain', directory)}"]}
    mine = f"/containers/json?all=true&filters={quote(json.dumps(chosen))}"
    with _owner(directory, engine.image) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline().strip() == OwnedStackRig.__name__
        assert len(engine.ask("GET", mine)) == 3
        owner.send_signal(signal.SIGKILL)
    await eventually(lambda: engine.ask("GET", mine) == [], within_s=120)
    await eventually(lambda: not directory.exists(), within_s=60)
    await eventually(lambda: processes_in(directory) == [], within_s=60)


async def test_what_does_not_come_up_leaves_nothing(engine: PrivateEngine, tmp_path: Path) -> None:
    with pytest.raises(RigError, match="failed"):
        await raise_stack(
            plain_spec("operator-tests/nobody-has-this:1"), tmp_path / "rig", owned=False
        )
    assert not (tmp_path / "rig").exists()
    await retire_any(tmp_path / "rig")


async def test_a_fault_of_a_rig_is_remembered_across_handles(town: Town) -> None:
    fault = next(one for one in find_plugin(NAME).faults if one.name == "node_pause")
    hit = await faults.inject(town.rig, fault, target="node-1", rng=random.Random(1))
    assert [one.target for one in faults.broken(town.rig)] == [hit]
    assert await faults.is_over(town.rig, fault) != ""
    await faults.heal(town.rig, fault)
    assert faults.broken(town.rig) == ()
