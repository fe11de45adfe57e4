"""Does a port answer? Asked of real sockets."""

from __future__ import annotations

import asyncio
import socket

import pytest

from operator_protocols.domain.action import Result
from operator_protocols.domain.target import Target
from operator_sre.executor.tools import host as port_module
from operator_sre.executor.tools.host import CheckPort
from tests.contract.servers import Behave, closes, hangs, http, resets, says, serving, unused_port
from tests.executor.jobs import new_job

pytestmark = pytest.mark.asyncio


async def _check(port: int, host: str = "127.0.0.1") -> Result:
    tool = CheckPort(lambda: [Target("node-1", "node", host=host, port=port)])
    return await tool.call({"target": "node-1"}, new_job())


@pytest.mark.parametrize(
    ("behave", "state"),
    [
        (says(b"+PONG\r\n"), "answers"),
        (says(b"x"), "answers"),
        (http(200, {}), "answers"),
        (http(500, b""), "answers"),
        (closes, "closed"),
        (resets, "closed"),
    ],
    ids=["store", "one byte", "200", "500", "closes", "resets"],
)
async def test_what_a_port_does_is_told(behave: Behave, state: str) -> None:
    async with serving(behave) as port:
        result = await _check(port)
    assert result.ok
    assert result.data == {"port": state}
    assert f"127.0.0.1:{port}" in result.stdout


async def test_nobody_listening_is_told_as_refused() -> None:
    with unused_port() as port:
        result = await _check(port)
    assert (result.exit_code, result.data) == (0, {"port": "refused"})
    assert "refuses" in result.stdout


async def test_a_port_that_accepts_and_says_nothing_is_silent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(port_module, "WAIT_S", 0.2)
    async with serving(hangs) as port:
        result = await _check(port)
    assert result.data == {"port": "silent"}
    assert result.duration_s >= 0.2


async def test_a_port_that_does_not_even_accept_is_silent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A stopped process: the kernel takes the connection, nobody else does."""
    monkeypatch.setattr(port_module, "WAIT_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        result = await _check(listener.getsockname()[1])
    assert result.data == {"port": "silent"}


async def test_the_wait_is_short_enough_for_a_person() -> None:
    assert 0.5 <= port_module.WAIT_S <= 3.0


async def test_two_ports_are_tried_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(port_module, "WAIT_S", 0.3)
    told: list[object] = []

    async def check(port: int) -> None:
        told.append((await _check(port)).data["port"])

    async with serving(hangs) as silent, serving(says(b"x")) as lively:
        await asyncio.gather(check(silent), check(silent), check(lively))
    assert told == ["answers", "silent", "silent"]  # who is asked last need not wait for the others


async def test_the_target_is_looked_up_at_every_call() -> None:
    targets: list[Target] = []
    tool = CheckPort(lambda: targets)
    assert not (await tool.call({"target": "node-1"}, new_job())).ok
    async with serving(says(b"x")) as port:
        targets.append(Target("node-1", "node", port=port))
        assert (await tool.call({"target": "node-1"}, new_job())).data == {"port": "answers"}
