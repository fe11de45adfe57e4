"""A port belongs to one rig until it is gone, also while its server is dead."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from operator_lab import ports
from operator_lab.manifest import HOST
from operator_lab.ports import ReservePorts, is_taken, reserve_ports
from operator_lab.rig import Rig
from operator_protocols.domain.rig import LoadSpec
from operator_protocols.errors import RigError
from operator_sre.processes.identity import alive
from operator_sre.processes.tree import send
from tests.lab.conftest import Up, is_reserved, rig_spec
from tests.processes.waiting import eventually

_ROOT = Path(__file__).parents[2]
_DEFAULTS = {2379, 5432, 6379, 26379, 27017}
_PROCESSES, _PORTS = 4, 40
NOBODY = 65534
# Takes ports until its input ends, and prints them.
_HOLDER = """
import sys
from operator_lab.ports import reserve_ports
sys.stdin.readline()
with reserve_ports([str(number) for number in range(int(sys.argv[1]))]) as reserved:
    print(*reserved.ports.values(), flush=True)
    sys.stdin.read()
"""


@pytest.fixture(params=[True, False], ids=["by name", "by UDP port"])
def reserve(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ReservePorts:
    """Both ways to hold a port."""
    monkeypatch.setattr(ports, "_HAS_ABSTRACT_NAMES", request.param)
    return reserve_ports


@pytest.fixture
def few_places(monkeypatch: pytest.MonkeyPatch) -> tuple[int, ...]:
    """Only ten ports are left to choose from."""
    with reserve_ports([str(number) for number in range(10)]) as reserved:
        places = tuple(reserved.ports.values())
    monkeypatch.setattr(ports, "_places", lambda: list(places))
    return places


def _names(count: int) -> list[str]:
    return [f"n{number}" for number in range(count)]


def test_ports_are_distinct_free_and_never_a_default(reserve: ReservePorts) -> None:
    with reserve(_names(200)) as reserved:
        ports = reserved.ports
        assert list(ports) == _names(200)
        assert len(set(ports.values())) == 200
        assert not _DEFAULTS & set(ports.values())
        assert not any(is_taken(port) for port in ports.values())


@pytest.mark.parametrize(
    ("kernel", "lowest", "highest"),
    [
        ("32768\t60999\n", 20_000, 32_000),
        ("15000 25000\n", 25_001, 32_000),
        ("10000 50000\n", 50_001, 65_535),
        ("1024 65535\n", 20_000, 32_000),
        ("nonsense\n", 20_000, 32_000),
    ],
)
def test_ports_are_not_those_of_outgoing_connections_where_others_are_left(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kernel: str, lowest: int, highest: int
) -> None:
    (tmp_path / "range").write_text(kernel)
    monkeypatch.setattr(ports, "_KERNEL_RANGE", tmp_path / "range")
    with reserve_ports(_names(100)) as reserved:
        assert lowest <= min(reserved.ports.values())
        assert max(reserved.ports.values()) <= highest


def test_a_reserved_port_is_given_once_until_it_is_released(
    reserve: ReservePorts, few_places: tuple[int, ...]
) -> None:
    with reserve(_names(4)) as first:
        with reserve(_names(6)) as second:
            both = {*first.ports.values(), *second.ports.values()}
            assert both == set(few_places)
            with pytest.raises(RigError, match=r"no 1 free ports .* operator lab down"):
                reserve(["one more"])
        # Refused, it kept none of those that it had found.
        with pytest.raises(RigError, match="no 7 free ports"):
            reserve(_names(7))
        reserve(_names(6)).release()
    reserve(_names(10)).release()


def test_a_port_on_which_somebody_listens_is_not_given(few_places: tuple[int, ...]) -> None:
    with socket.create_server((HOST, few_places[0])):
        with reserve_ports(_names(9)) as reserved:
            assert set(reserved.ports.values()) == set(few_places[1:])
        with pytest.raises(RigError, match="no 10 free ports"):
            reserve_ports(_names(10))


def test_a_server_listens_on_its_reserved_port_also_a_second_time(reserve: ReservePorts) -> None:
    with reserve(["server"]) as reserved:
        for _ in range(2):
            with (
                socket.create_server((HOST, reserved.ports["server"])) as server,
                socket.create_connection(server.getsockname()),
            ):
                assert is_taken(reserved.ports["server"])


def _holder(count: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", _HOLDER, str(count)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=_ROOT,
        text=True,
    )


def test_of_processes_that_choose_at_once_no_two_have_the_same_port() -> None:
    with ExitStack() as stack:
        holders = [stack.enter_context(_holder(_PORTS)) for _ in range(_PROCESSES)]
        for holder in holders:
            stack.callback(holder.kill)
        chosen: list[str] = []
        for holder in holders:
            assert holder.stdin is not None
            holder.stdin.write("go\n")
            holder.stdin.flush()
        for holder in holders:
            assert holder.stdout is not None
            chosen += holder.stdout.readline().split()
    assert len(chosen) == _PROCESSES * _PORTS
    assert len(set(chosen)) == len(chosen)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_users_do_not_get_the_ports_of_each_other(few_places: tuple[int, ...]) -> None:
    with reserve_ports(_names(len(few_places))):
        child = os.fork()
        if not child:
            os.setuid(NOBODY)
            try:
                reserve_ports(["one"])
            except RigError:
                os._exit(0)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_reservation_ends_when_its_process_is_killed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with _holder(1) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        holder.stdin.write("go\n")
        holder.stdin.flush()
        port = int(holder.stdout.readline())
        monkeypatch.setattr(ports, "_places", lambda: [port])
        with pytest.raises(RigError):
            reserve_ports(["mine"])
        holder.kill()
    reserve_ports(["mine"]).release()


def _port_of(rig: Rig, name: str) -> int:
    return rig.manifest().ports[name]


@pytest.mark.asyncio
@pytest.mark.parametrize("owned", [True, False], ids=["owned", "detached"])
async def test_the_port_of_a_killed_node_is_kept_until_its_rig_is_gone(up: Up, owned: bool) -> None:
    rig = await up(rig_spec(1, load=LoadSpec("node", "/check", {"key": "k"}, 20.0)), owned=owned)
    port = _port_of(rig, "node-1")
    await rig.kill("node-1")
    assert not is_taken(port)
    assert await asyncio.to_thread(is_reserved, port)
    await rig.restart("node-1")
    await rig.kill("node-1")
    assert await asyncio.to_thread(is_reserved, port)
    await rig.down()
    assert not await asyncio.to_thread(is_reserved, port)


@pytest.mark.asyncio
async def test_nothing_of_a_rig_holds_its_ports_but_its_supervisor(up: Up) -> None:
    rig = await up(rig_spec(1), owned=False)
    port = _port_of(rig, "node-1")
    await rig.kill("node-1")
    supervisor = rig.manifest().supervisor
    assert supervisor is not None
    send(supervisor, signal.SIGKILL)
    await eventually(lambda: not alive(supervisor))
    # The store is still there, and has nothing to do with the port of the node.
    assert is_taken(_port_of(rig, "store"))
    assert not await asyncio.to_thread(is_reserved, port)
