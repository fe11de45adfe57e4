"""What goes over the control socket, and what may not."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from operator_protocols.domain.target import Process
from operator_protocols.errors import RigError
from operator_sre.processes.control import Control, Launched, base_environment
from operator_sre.processes.nursery import Nursery
from operator_sre.processes.server import Reply, Request, Server, forget_socket
from operator_sre.processes.supervision import (
    Child,
    ChildState,
    Orders,
    Supervised,
    Supervision,
    read_orders,
    read_state,
    write_orders,
    write_state,
)
from operator_sre.processes.supervisor import Supervisor, main
from operator_sre.processes.tree import Tree
from tests.processes.conftest import Supervise

SLEEP = ["sleep", "300"]


async def _raw(control: Control, line: bytes) -> Reply:
    state = read_state(control.directory)
    assert state is not None
    reader, writer = await asyncio.open_unix_connection(state.socket)
    writer.write(line)
    answer = await reader.readline()
    writer.close()
    return Reply.from_line(answer)


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"\n", "cannot be read"),
        (b"[]\n", "cannot be read"),
        (b'{"command": "status", "surprise": 1}\n', "cannot be read"),
        (b"\xff\xfe\n", "cannot be read"),
        (b'{"command": "reboot"}\n', "Unknown supervisor command 'reboot'"),
        (b"x" * 10_000 + b"\n", "longer than 4096 bytes"),
    ],
)
async def test_a_bad_request_is_refused_in_words(
    supervise: Supervise, line: bytes, why: str
) -> None:
    control = await supervise(a=SLEEP)
    assert why in (await _raw(control, line)).error
    assert (await control.status()).child("a").state is ChildState.RUNNING


@pytest.mark.asyncio
async def test_silent_clients_do_not_stand_in_the_way(supervise: Supervise) -> None:
    control = await supervise(a=SLEEP)
    state = await control.status()
    silent = [await asyncio.open_unix_connection(state.socket) for _ in range(10)]
    assert (await control.restart("a")).child("a").restarts == 1
    await control.down()
    for _, writer in silent:
        writer.close()


@pytest.mark.asyncio
async def test_too_many_clients_are_turned_away(supervise: Supervise) -> None:
    control = await supervise(a=SLEEP)
    state = await control.status()
    clients = [await asyncio.open_unix_connection(state.socket) for _ in range(40)]
    ends = [asyncio.create_task(reader.read()) for reader, _ in clients]
    done, waiting = await asyncio.wait(ends, timeout=30, return_when=asyncio.FIRST_COMPLETED)
    assert done
    assert waiting
    for task in waiting:
        task.cancel()
    for _, writer in clients:
        writer.close()


@pytest.mark.asyncio
async def test_without_a_supervisor_the_error_says_so(tmp_path: Path) -> None:
    with pytest.raises(RigError, match="No supervisor has ever run"):
        await Control(tmp_path).status()


@pytest.mark.asyncio
async def test_a_detached_supervisor_that_is_let_go_goes_on(supervise: Supervise) -> None:
    control = await supervise(a=SLEEP)
    before = await control.status()
    await Launched(before.supervisor).wait_until_gone(0.0)
    assert await control.status() == before


def test_state_survives_the_file(tmp_path: Path) -> None:
    child = Child("a", ChildState.EXITED, Process(5, 1.25), -9, 2)
    state = Supervision(Process(4, 1.0), "/s", "mark", (child, Child("b")))
    write_state(tmp_path, state)
    assert read_state(tmp_path) == state
    assert read_state(tmp_path / "none") is None
    with pytest.raises(RigError, match="Unknown process 'c'"):
        state.child("c")


def test_orders_survive_the_file(tmp_path: Path) -> None:
    orders = (Supervised("a", ("x", "y z"), "/", "/log", {"K": "v"}, start=False),)
    write_orders(tmp_path, orders, grace_s=0.5)
    assert read_orders(tmp_path) == Orders(orders, grace_s=0.5)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"supervisor": {"pid": 1}}'])
def test_a_damaged_state_is_an_error_in_words(text: str) -> None:
    with pytest.raises(RigError, match="cannot be read"):
        Supervision.from_json(text)


def test_a_request_is_one_line() -> None:
    request = Request("signal", "a\nb", "KILL")
    assert request.to_line().count(b"\n") == 1
    assert Request.from_line(request.to_line()) == request
    assert json.loads(Reply("s", "e").to_line()) == {"state": "s", "error": "e"}


def test_secrets_are_not_passed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    environ = {"PATH": "/bin", "ANTHROPIC_API_KEY": "k", "AWS_SECRET": "s", "PYTHONPATH": "a:/b"}
    expected = {"PATH": "/bin", "PYTHONPATH": f"{tmp_path}/a:/b"}
    assert base_environment(environ) == expected


def test_only_a_socket_of_ours_is_forgotten(tmp_path: Path) -> None:
    other = tmp_path / "precious"
    other.touch()
    forget_socket(str(other))
    forget_socket("")
    assert other.exists()


def test_the_parts_of_a_supervisor_have_names() -> None:
    for part in (Nursery, Server, Supervisor, Tree, main):
        assert part.__doc__
