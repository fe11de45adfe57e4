"""A runner is up before its first job is wanted."""

from __future__ import annotations

import asyncio
import secrets
from pathlib import Path

import pytest

from operator_protocols.errors import ExecutorError
from operator_sre.processes.runner.client import RunnerClient
from operator_sre.processes.runner.records import live_claims
from operator_sre.processes.runner.wire import Order
from tests.processes.runners import runner_of

pytestmark = [pytest.mark.asyncio, pytest.mark.usefixtures("real_runner")]
ECHO = (b"/bin/echo", b"fine")


def _order() -> Order:
    return Order(secrets.token_hex(8), ECHO, env=(), cwd=b"/", timeout_s=60.0, grace_s=0.3)


async def test_a_client_that_got_ready_has_a_runner_before_its_first_job(tmp_path: Path) -> None:
    folder = tmp_path / "runner"
    client = RunnerClient(folder)
    await asyncio.gather(client.get_ready(), client.get_ready())
    assert not live_claims(folder), "nothing starts by this"
    runner = runner_of(folder)
    assert runner is not None
    assert (await client.run(_order())).stdout == b"fine\n"
    assert runner_of(folder) == runner


async def test_a_runner_that_cannot_start_is_reported_by_the_job_that_needs_it(
    tmp_path: Path,
) -> None:
    (tmp_path / "runner").write_text("a file where its folder would be")
    client = RunnerClient(tmp_path / "runner")
    await client.get_ready()
    with pytest.raises(ExecutorError):
        await client.run(_order())
