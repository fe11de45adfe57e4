"""What an engine lists, in our words; and how those ask it who cannot wait."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from operator_lab.ports import reserve_ports
from operator_lab.stacks.containers import SERVICE_LABEL, Containers, Disks, Row, at_once
from operator_lab.stacks.keeper import Kept, keep
from operator_lab.stacks.keeper import main as keep_main
from operator_lab.stacks.record import prepare, remove
from operator_protocols.domain.stack import ServiceState, StackSpec
from operator_protocols.errors import RigError
from operator_sre.executor.docker import Address, Engine, EngineError
from tests.every import every
from tests.lab.conftest import is_reserved
from tests.processes.waiting import eventually

STATES = [
    ("running", "Up 3 seconds (healthy)", ServiceState.HEALTHY),
    ("running", "Up 3 seconds (unhealthy)", ServiceState.UNHEALTHY),
    ("running", "Up 1 second (health: starting)", ServiceState.STARTING),
    ("running", "Up 2 hours", ServiceState.RUNNING),
    ("paused", "Up 2 hours (Paused)", ServiceState.PAUSED),
    ("restarting", "Restarting (1) 2 seconds ago", ServiceState.UNHEALTHY),
    ("exited", "Exited (137) 2 seconds ago", ServiceState.EXITED),
    ("created", "Created", ServiceState.EXITED),
    ("dead", "Dead", ServiceState.EXITED),
]


def _row(state: str, status: str) -> Row:
    told = {
        "Id": "f" * 64,
        "Names": ["/mine-node-1-1"],
        "Image": "redis:7",
        "State": state,
        "Status": status,
        "Labels": {SERVICE_LABEL: "node-1"},
        "Ports": [
            {"IP": "127.0.0.1", "PrivatePort": 8000, "PublicPort": 8001, "Type": "tcp"},
            {"PrivatePort": 9000, "Type": "tcp"},
        ],
    }
    return msgspec.convert(told, Row)


@every(("state", "status", "wanted"), STATES)
def test_every_state_has_its_word(state: str, status: str, wanted: ServiceState) -> None:
    told = _row(state, status).to_status()
    assert told.state is wanted
    assert told.exit_code == (137 if "137" in status else None)
    assert (told.name, told.container, told.ports) == ("node-1", "mine-node-1-1", (8001,))


@pytest.mark.asyncio
async def test_who_cannot_wait_asks_all_the_same(tmp_path: Path) -> None:
    """Also where a loop runs already; and an engine that is not there is told as always."""

    async def seven() -> int:
        return 7

    assert at_once(seven()) == 7
    nobody = Containers("mine", Engine(Address(socket=str(tmp_path / "nobody.sock"))))
    with pytest.raises(EngineError, match="No Docker engine answers"):
        at_once(nobody.rows())
    with pytest.raises((EngineError, RigError)):
        await Disks(nobody, "disks").drain("/disks/store")


@pytest.mark.slow
def test_a_keeper_of_nothing_ends_when_it_is_let_go(tmp_path: Path) -> None:
    kept = keep(tmp_path / "nothing", owned=True, holding=())
    assert isinstance(kept, Kept)
    kept.release()
    assert callable(keep_main)


@pytest.mark.asyncio
async def test_the_ports_of_containers_are_reserved_until_their_rig_is_gone(tmp_path: Path) -> None:
    spec = StackSpec("any", "/x", (), {"NODE_PORT": 1})
    with reserve_ports(list(spec.ports)) as reserved:
        prepare(spec, tmp_path / "rig", project="any", ports=reserved.ports)
        keep(tmp_path / "rig", owned=False, holding=reserved.files).release()
    port = reserved.ports["NODE_PORT"]
    assert await asyncio.to_thread(is_reserved, port)
    remove(tmp_path / "rig")
    await eventually(lambda: not is_reserved(port))
