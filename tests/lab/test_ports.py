"""Knowing whether a port is taken, and who answers on it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from operator_lab.manifest import HOST, Layout, Manifest
from operator_lab.ports import is_taken, listening, listens, reserve_ports
from operator_lab.startup import answers, wait_ready
from operator_protocols.domain.rig import ProcessSpec, RigSpec
from operator_protocols.domain.target import Process
from operator_protocols.errors import PortTakenError, RigError
from operator_sre.processes.identity import process_of
from tests.lab.conftest import NODE


def test_a_bound_port_is_taken() -> None:
    with socket.socket() as holder:
        holder.bind((HOST, 0))
        holder.listen()
        port = holder.getsockname()[1]
        assert is_taken(port)
        me = process_of(os.getpid())
        assert me is not None
        assert listens(me, port)
        assert port in (listening() or ())
    assert port not in (listening() or ())
    assert not is_taken(port)
    assert not listens(me, port)


@pytest.mark.asyncio
async def test_an_accepted_connection_answers_and_http_needs_200() -> None:
    with socket.socket() as holder:
        holder.bind((HOST, 0))
        holder.listen()
        port = holder.getsockname()[1]
        assert await answers(port)
        assert not await answers(port, path="/health")
    assert not await answers(port)


def _layout(directory: Path, port: int) -> Layout:
    spec = RigSpec("tiny", (NODE,))
    made = datetime(2031, 1, 2, tzinfo=UTC)
    return Layout(directory, Manifest(spec, made, Process(1, 2.5), {"node-1": port}))


def _sleeper() -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"])


@pytest.mark.asyncio
async def test_somebody_else_who_answers_is_not_us(tmp_path: Path) -> None:
    with socket.socket() as holder, _sleeper() as sleeper:
        holder.bind((HOST, 0))
        holder.listen()
        port = holder.getsockname()[1]
        process = process_of(sleeper.pid)
        assert process is not None
        spec = ProcessSpec("node-1", "node", ("x",))
        layout = _layout(tmp_path, port)
        with pytest.raises(PortTakenError, match="Another process answers"):
            await wait_ready(layout, spec, process=process)
        sleeper.kill()
        sleeper.wait()
        with pytest.raises(PortTakenError, match="was taken"):
            await wait_ready(layout, spec, process=process)
    with pytest.raises(RigError, match="exited during startup") as failure:
        await wait_ready(layout, spec, process=process)
    assert not isinstance(failure.value, PortTakenError)


@pytest.mark.asyncio
async def test_last_words_tell_of_a_thief_who_is_gone(tmp_path: Path) -> None:
    with reserve_ports(["a"]) as reserved, _sleeper() as sleeper:
        layout = _layout(tmp_path, reserved.ports["a"])
        layout.home("node-1").mkdir()
        layout.log("node-1").write_text(
            "[Errno 98] error while attempting to bind: Address already in use\n"
        )
        process = process_of(sleeper.pid)
        sleeper.kill()
        sleeper.wait()
        assert process is not None
        with pytest.raises(PortTakenError):
            await wait_ready(layout, NODE, process=process)
