"""Bringing a rig up: all of it answers, or nothing of it stays."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from operator_lab.manifest import HOST, LOAD, own_home
from operator_lab.plan import alone_in, take
from operator_lab.ports import Reservation, reserve_ports
from operator_lab.rig import Rig, RunState
from operator_lab.startup import answers, raise_rig, retire
from operator_protocols.domain.rig import LoadSpec, ProcessSpec, RigSpec
from operator_protocols.errors import NotFoundError, PortTakenError, RigError
from operator_sre.processes.identity import alive
from operator_sre.processes.tree import send
from tests.lab.conftest import NODE, STORE, Up, rig_spec
from tests.processes.waiting import eventually, names_in, processes_in


@pytest.fixture
def stranger() -> Iterator[int]:
    """A port on which somebody else listens."""
    with reserve_ports(["stranger"]) as reserved, socket.socket() as listener:
        listener.bind((HOST, reserved.ports["stranger"]))
        listener.listen()
        yield reserved.ports["stranger"]


@pytest.mark.asyncio
async def test_every_process_answers_when_up_returns(up: Up, tmp_path: Path) -> None:
    rig = await up()
    targets = {target.name: target for target in rig.targets()}
    assert list(targets) == ["node-1", "node-2", "store"]
    for target in targets.values():
        assert target.port is not None
        assert target.process is not None
        assert alive(target.process)
        assert await answers(target.port, path="" if target.kind == "store" else "/health")
        assert Path(target.data_dir) == tmp_path / "rig" / target.name
        assert Path(target.log).parent == Path(target.data_dir)
    assert targets["node-1"].depends_on == ("store",)
    assert rig.subject == "tiny"
    assert len({target.port for target in targets.values()}) == 3


@pytest.mark.asyncio
async def test_status_tells_of_every_process(up: Up) -> None:
    rig = await up(rig_spec(1, load=LoadSpec("node", "/check", {"key": "k"}, 20.0)))
    status = rig.status()
    assert status.supervised
    assert {each.name: (each.kind, each.state) for each in status.processes} == {
        "node-1": ("node", RunState.RUNNING),
        "store": ("store", RunState.RUNNING),
        LOAD: (LOAD, RunState.RUNNING),
    }
    assert LOAD not in [target.name for target in rig.targets()]


@pytest.mark.asyncio
async def test_another_process_can_attach_and_end_it(up: Up, tmp_path: Path) -> None:
    rig = await up(owned=False)
    other = Rig.attach(tmp_path / "rig")
    assert other.targets() == rig.targets()
    await other.down()
    assert not (tmp_path / "rig").exists()
    with pytest.raises(NotFoundError, match="operator lab up"):
        Rig.attach(tmp_path / "rig")


@pytest.mark.asyncio
async def test_two_rigs_at_once_do_not_interfere(up: Up, tmp_path: Path) -> None:
    one, two = await asyncio.gather(
        up(directory=tmp_path / "one"), up(directory=tmp_path / "two", owned=False)
    )
    ports = [target.port for rig in (one, two) for target in rig.targets()]
    assert len(set(ports)) == 6
    before = two.targets()
    await one.kill("node-1")
    await one.down()
    assert two.targets() == before
    assert all(each.state is RunState.RUNNING for each in two.status().processes)


@pytest.mark.asyncio
async def test_a_taken_port_is_chosen_anew(stranger: int, tmp_path: Path) -> None:
    rounds: list[dict[str, int]] = []

    def reserve(names: Sequence[str]) -> Reservation:
        reservation = reserve_ports(names)
        # Once the store cannot bind and says so; once a node meets somebody who answers.
        wrong = [{"store": stranger}, {"node-1": stranger}, {}][len(rounds)]
        rounds.append({**reservation.ports, **wrong})
        return replace(reservation, ports=rounds[-1])

    rig = await Rig.up(rig_spec(), tmp_path / "rig", owned=True, reserve=reserve)
    assert len(rounds) == 3
    assert {target.name: target.port for target in rig.targets()} == rounds[-1]
    await rig.down()


@pytest.mark.asyncio
async def test_a_port_that_is_always_taken_is_told_in_one_sentence(
    stranger: int, tmp_path: Path
) -> None:
    rounds = 0

    def reserve(names: Sequence[str]) -> Reservation:
        nonlocal rounds
        rounds += 1
        reservation = reserve_ports(names)
        return replace(reservation, ports={**reservation.ports, "store": stranger})

    with pytest.raises(PortTakenError, match=str(stranger)):
        await Rig.up(rig_spec(), tmp_path / "rig", owned=False, reserve=reserve)
    assert rounds == 3
    assert names_in(tmp_path) == []
    assert processes_in(tmp_path) == []


_SAYS_WHY = (sys.executable, "-c", "import sys; sys.exit('the licence has run out')")
_SLOW = (sys.executable, "-c", "import time; print('warming up'); time.sleep(300)")


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("broken", "why", "owned"),
    [
        (replace(NODE, argv=_SAYS_WHY), "exited during startup.* 'the licence has run out'", True),
        (replace(NODE, argv=("no-such-command",)), "no-such-command", False),
        (replace(NODE, argv=_SLOW, ready_s_max=0.5), "within 0.5 s; .* 'warming up'", False),
        (replace(NODE, ready_path="/broken", ready_s_max=0.5), "not answer within 0.5 s", True),
    ],
    ids=["dies", "cannot start", "is silent", "is not well"],
)
async def test_a_failed_start_leaves_nothing(
    tmp_path: Path, broken: ProcessSpec, why: str, owned: bool
) -> None:
    with pytest.raises(RigError, match=why) as failure:
        await Rig.up(RigSpec("tiny", (STORE, broken)), tmp_path / "rig", owned=owned)
    assert "\n" not in str(failure.value)
    assert names_in(tmp_path) == []
    assert processes_in(tmp_path) == []


@pytest.mark.asyncio
@pytest.mark.parametrize("owned", [True, False])
async def test_a_cancelled_start_leaves_nothing(tmp_path: Path, owned: bool) -> None:
    spec = RigSpec("tiny", (STORE, replace(NODE, argv=_SLOW)))
    task = asyncio.create_task(Rig.up(spec, tmp_path / "rig", owned=owned))
    await eventually(lambda: (own_home(tmp_path / "rig", "node-1") / "node-1.log").exists())
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert names_in(tmp_path) == []
    assert processes_in(tmp_path) == []


@pytest.mark.asyncio
async def test_a_start_cancelled_at_any_moment_leaves_nothing(tmp_path: Path) -> None:
    for after_s in (0.0, 0.02, 0.06, 0.1, 0.15, 0.2):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(after_s):
                await Rig.up(
                    RigSpec("tiny", (STORE, replace(NODE, argv=_SLOW))),
                    tmp_path / "rig",
                    owned=False,
                )
        assert names_in(tmp_path) == []
        # One that was just being born sees that its directory is gone, and goes as well.
        await eventually(lambda: processes_in(tmp_path) == [])


@pytest.mark.asyncio
async def test_a_rig_that_is_up_is_not_started_over(up: Up, tmp_path: Path) -> None:
    rig = await up(owned=False)
    before = rig.targets()
    with pytest.raises(RigError, match=r"already up .* operator lab down"):
        await up()
    assert Rig.attach(tmp_path / "rig").targets() == before


@pytest.mark.asyncio
async def test_of_two_who_start_the_same_rig_one_wins(tmp_path: Path) -> None:
    starts = [Rig.up(rig_spec(1), tmp_path / "rig", owned=False) for _ in range(2)]
    results = await asyncio.gather(*starts, return_exceptions=True)
    (rig,) = [each for each in results if isinstance(each, Rig)]
    (error,) = [each for each in results if isinstance(each, RigError)]
    assert "already up" in str(error)
    assert all(each.state is RunState.RUNNING for each in rig.status().processes)
    await rig.down()


@pytest.mark.asyncio
async def test_a_directory_is_taken_by_one_at_a_time(tmp_path: Path) -> None:
    directory = tmp_path / "rig"
    async with alone_in(tmp_path):
        assert take(rig_spec(1), directory) is False
        assert names_in(tmp_path) == ["rig"]
    with pytest.raises(RigError, match="already up"):
        take(rig_spec(1), directory)
    await retire(directory)
    assert names_in(tmp_path) == []


@pytest.mark.asyncio
async def test_a_dead_leftover_is_reaped_first(up: Up, tmp_path: Path) -> None:
    first = await up(owned=False)
    old = [target.process for target in first.targets()]
    supervisor = first.manifest().supervisor
    assert supervisor is not None
    send(supervisor, signal.SIGKILL)
    await eventually(lambda: not alive(supervisor))
    with pytest.raises(RigError, match=r"dead\. .* operator lab down"):
        Rig.attach(tmp_path / "rig")
    second = await up()
    assert not any(process is not None and alive(process) for process in old)
    assert all(each.state is RunState.RUNNING for each in second.status().processes)


@pytest.mark.asyncio
async def test_somebody_elses_directory_is_left_alone(tmp_path: Path) -> None:
    precious = tmp_path / "home" / "precious"
    precious.parent.mkdir()
    precious.touch()
    with pytest.raises(RigError, match="not empty and is not a rig"):
        await Rig.up(rig_spec(), tmp_path / "home", owned=True)
    await Rig(tmp_path / "home").down()
    await retire(tmp_path / "home")
    assert precious.exists()


@pytest.mark.asyncio
async def test_a_spec_that_makes_no_sense_touches_nothing(tmp_path: Path) -> None:
    with pytest.raises(RigError, match="cannot be built"):
        await raise_rig(RigSpec("tiny", (NODE,)), tmp_path / "r", owned=True, reserve=reserve_ports)
    assert names_in(tmp_path) == []


@pytest.mark.asyncio
async def test_a_place_that_cannot_be_used_is_told_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RigError, match=r"cannot be made .* --home"):
        await Rig.up(rig_spec(), tmp_path / "file" / "rig", owned=True)
    with pytest.raises(RigError, match="cannot be made"):
        await Rig.up(rig_spec(), tmp_path / "file", owned=True)
    assert names_in(tmp_path) == ["file"]


@pytest.mark.asyncio
async def test_long_paths_and_spaces_work(up: Up, tmp_path: Path) -> None:
    directory = tmp_path / "with space and ünïcode" / ("x" * 110) / "rig"
    rig = await up(rig_spec(1), directory=directory, owned=False)
    assert len(os.fsencode(directory)) > 108
    await rig.kill("node-1")
    await Rig.attach(directory).restart("node-1")
    await rig.down()
    assert not directory.exists()
