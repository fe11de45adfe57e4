"""Whoever looks hears a command that another process has started, without its secrets."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from operator_protocols.domain.entry import Entry
from operator_sre.app.commands import Wanted, execute_command
from operator_sre.app.history import RunningOutput, running_output
from operator_sre.app.wiring import App
from operator_sre.executor.jobs import PIECES_MAX, JobOutput
from tests.app.home import opened
from tests.processes.waiting import eventually

pytestmark = pytest.mark.asyncio


async def test_what_runs_elsewhere_is_heard_as_it_comes_without_secrets(tmp_path: Path) -> None:
    secret = "AKIA" + "Q3EGRZ7TYUPLMN4X"
    command = f"echo aws_access_key_id = {secret}; echo careful >&2; sleep 60"
    heard: list[tuple[int, bytes]] = []

    def show(number: int, data: bytes) -> None:
        heard.append((number, data))

    with opened(tmp_path) as app:
        assert running_output(app, 99, show) is None, "there is no such command"
        doing = asyncio.ensure_future(
            execute_command(app, Wanted(command), on_request=lambda approval: None)
        )
        await eventually(lambda: any(one.kind == "tool_call" for one in _entries(app)))
        (call,) = [one for one in _entries(app) if one.kind == "tool_call"]
        assert running_output(app, call.seq - 1, show) is None, "an entry of another kind is none"
        output = running_output(app, call.seq, show)
        assert isinstance(output, RunningOutput)
        await eventually(lambda: output.advance() or len(heard) >= 2)
        assert output.is_there
        output.end()
        doing.cancel()
        await asyncio.gather(doing, return_exceptions=True)
    said = b"".join(data for _, data in heard)
    assert secret.encode() not in said
    assert (2, b"careful\n") in heard
    assert b"[REDACTED:" in said


async def test_much_of_it_comes_in_bounded_steps_and_in_order(tmp_path: Path) -> None:
    folder = tmp_path / "output" / "job"
    folder.mkdir(parents=True)
    heard = bytearray()
    growing = JobOutput(tmp_path, "job", lambda number, data: heard.extend(data))
    assert growing.is_there
    assert growing.advance() is False
    data = bytes(range(256)) * 256 * (2 * PIECES_MAX + 1)
    (folder / "1").write_bytes(data)
    steps = 1
    while growing.advance():
        steps += 1
        assert len(heard) <= steps * PIECES_MAX * 65_536
    assert (steps, bytes(heard)) == (3, data)


def _entries(app: App) -> Sequence[Entry]:
    return app.store.entries.newest(limit=50)
