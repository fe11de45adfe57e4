"""Load: it comes as it should, and counts what really came back."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path

import pytest

from operator_lab.load import STATS_FILE, Load, LoadStats, Sample, main, read_load
from operator_lab.manifest import LOAD
from operator_lab.rig import Rig, RunState
from operator_protocols.domain.rig import LoadSpec
from operator_protocols.errors import RigError
from operator_sre.processes.control import Control
from tests.contract.servers import serving
from tests.lab.conftest import Up, rig_spec
from tests.processes.waiting import eventually, names_in

RATE_PER_S = 50.0
# Of what as many bare requests cost; a loop that never waits would need five hundred times that.
LIGHT_TIMES_MAX = 50.0


def _spec(path: str = "/check") -> LoadSpec:
    return LoadSpec("node", path, {"key": "k"}, RATE_PER_S)


def _stats(rig: Rig) -> LoadStats:
    stats = read_load(rig.directory)
    assert stats is not None
    return stats


def _last(rig: Rig) -> Sample:
    samples = _stats(rig).samples
    return samples[-1] if samples else Sample(0.0, 0, 0)


def _is_halved(sample: Sample) -> bool:
    return sample.failed >= 0.4 * RATE_PER_S and sample.ok >= 0.3 * RATE_PER_S


def _cpu_s(pid: int) -> float:
    """The processor time of all its threads."""
    spent = (file.read_text().split()[0] for file in Path(f"/proc/{pid}/task").glob("*/schedstat"))
    return sum(map(int, spent)) / 1e9


async def _bare_s(port: int, count: int) -> float:
    """The processor time of as many requests on one connection, with nothing counted."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    begun = time.thread_time()
    for _ in range(count):
        writer.write(b"POST /check HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")
        head = await reader.readuntil(b"\r\n\r\n")
        length = head.lower().partition(b"content-length:")[2].split()[0]
        await reader.readexactly(int(length))
    spent_s = time.thread_time() - begun
    writer.close()
    await writer.wait_closed()
    return spent_s


@pytest.mark.asyncio
async def test_it_is_steady_and_shows_when_nodes_are_hurt(up: Up) -> None:
    rig = await up(rig_spec(2, load=_spec()))
    await eventually(lambda: _last(rig).ok >= 0.8 * RATE_PER_S)
    await eventually(lambda: 0.8 * RATE_PER_S <= _stats(rig).ops_per_s <= 1.2 * RATE_PER_S)
    first = _stats(rig)
    assert first.failed == 0
    assert first.total == first.ok

    await rig.kill("node-1")
    await eventually(lambda: _is_halved(_last(rig)))
    assert _stats(rig).total > first.total

    await rig.restart("node-1")
    await eventually(lambda: _last(rig).failed == 0 and _last(rig).ok >= 0.8 * RATE_PER_S)

    await rig.pause("node-2")
    await eventually(lambda: _last(rig).failed >= 0.3 * RATE_PER_S)
    await rig.resume("node-2")
    await eventually(lambda: _last(rig).failed == 0 and _last(rig).ok >= 0.8 * RATE_PER_S)


@pytest.mark.asyncio
async def test_it_is_light_and_uses_its_connections_again(up: Up) -> None:
    rig = await up(rig_spec(2, load=_spec()))
    process = next(each.process for each in rig.status().processes if each.name == LOAD)
    assert process is not None
    await eventually(lambda: len(_stats(rig).samples) >= 1)
    first, spent_s = _stats(rig).total, _cpu_s(process.pid)
    await eventually(lambda: _stats(rig).total - first >= 2 * RATE_PER_S)
    spent_s, count = _cpu_s(process.pid) - spent_s, _stats(rig).total - first
    port = next(one.port for one in rig.targets() if one.name == "node-1")
    assert port is not None
    bare_s = min([await _bare_s(port, count) for _ in range(3)])
    assert spent_s < LIGHT_TIMES_MAX * bare_s
    assert len(names_in(Path(f"/proc/{process.pid}/fd"))) < 20


@pytest.mark.asyncio
async def test_an_answer_of_500_is_a_failure(up: Up) -> None:
    rig = await up(rig_spec(1, load=_spec("/broken")))
    await eventually(lambda: _last(rig).failed >= 0.8 * RATE_PER_S)
    assert _stats(rig).ok == 0


@pytest.mark.asyncio
async def test_it_ends_at_once_when_told(up: Up) -> None:
    rig = await up(rig_spec(1, load=_spec()))
    await Control(rig.directory).stop(LOAD)
    (status,) = [each for each in rig.status().processes if each.name == LOAD]
    assert (status.state, status.exit_code) == (RunState.EXITED, 0)


@pytest.mark.asyncio
async def test_every_request_has_its_number_and_the_nodes_take_turns(tmp_path: Path) -> None:
    heard: list[tuple[int, str]] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        port = writer.get_extra_info("sockname")[1]
        while head := await reader.readuntil(b"\r\n\r\n"):
            length = int(head.lower().partition(b"content-length: ")[2].split()[0])
            heard.append((port, json.loads(await reader.readexactly(length))["key"]))
            writer.write(b"HTTP/1.1 429 Too Many\r\nContent-Length: 0\r\n\r\n")

    async with serving(answer) as one, serving(answer) as other:
        ports = [one, other]
        (tmp_path / LOAD).mkdir()
        body = {"key": "tenant-{n}"}
        stats = tmp_path / LOAD / STATS_FILE
        load = Load(stats, host="127.0.0.1", ports=ports, path="/", body=body, rate_per_s=200)
        task = asyncio.create_task(load.run())
        await eventually(lambda: len(heard) >= 110)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert sorted(heard[:100], key=lambda each: int(each[1].split("-")[1])) == [
        (ports[number % 2], f"tenant-{number}") for number in range(100)
    ]


@pytest.mark.asyncio
async def test_only_the_last_seconds_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("operator_lab.load.REPORT_S", 0.01)
    (tmp_path / LOAD).mkdir()
    load = Load(
        tmp_path / LOAD / STATS_FILE, host="127.0.0.1", ports=[1], path="/", body={}, rate_per_s=100
    )
    task = asyncio.create_task(load.run())
    samples = 0

    def full() -> bool:
        nonlocal samples
        stats = read_load(tmp_path)
        samples = len(stats.samples) if stats is not None else 0
        return stats is not None and stats.total > 60 and samples == 30

    await eventually(full)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    stats = read_load(tmp_path)
    assert stats is not None
    assert stats.ok == 0
    assert len(stats.samples) == 30


def test_no_load_has_no_figures_and_damaged_ones_are_an_error(tmp_path: Path) -> None:
    assert read_load(tmp_path) is None
    (tmp_path / LOAD).mkdir()
    (tmp_path / LOAD / STATS_FILE).write_text("{")
    with pytest.raises(RigError, match="cannot be read"):
        read_load(tmp_path)
    assert main.__doc__
