"""What a real engine tells of a container: its newest lines, its state, and none of its secrets."""

from __future__ import annotations

import json
import re

import pytest

from operator_protocols.domain.action import Outcome
from operator_sre.executor.tools.docker_state import LOGS_BYTES_MAX, TAIL, TAIL_MAX
from tests.engines.dockerd import Engine
from tests.executor.tools.hands import Hands

pytestmark = [pytest.mark.asyncio, pytest.mark.system]


def _said(engine: Engine, line: str, *, tty: bool = False) -> str:
    """A container that said something and ended."""
    made = engine.run("sh", "-c", line, Tty=tty)
    engine.ask("POST", f"/containers/{made}/wait")
    return made


async def test_the_newest_lines_come_with_their_times(engine: Engine, hands: Hands) -> None:
    made = _said(engine, "i=0; while [ $i -lt 250 ]; do i=$((i + 1)); echo line-$i; done")
    result = await hands.do("docker_logs", container=made)
    lines = result.stdout.splitlines()
    assert (result.ok, len(lines), result.data["lines"]) == (True, TAIL, TAIL)
    assert [line.split()[1] for line in lines] == [f"line-{i}" for i in range(151, 251)]
    assert all(re.match(r"\d{4}-\d\d-\d\dT[\d:.]+Z ", line) for line in lines)


async def test_both_streams_in_order_and_without_times(engine: Engine, hands: Hands) -> None:
    made = _said(engine, "echo a; sleep 0.1; echo b >&2; sleep 0.1; printf c")
    result = await hands.do("docker_logs", container=made, timestamps=False, tail=2)
    assert result.stdout == "b\nc\n"


async def test_a_terminal_s_output_is_read_as_it_is(engine: Engine, hands: Hands) -> None:
    made = _said(engine, "echo plain", tty=True)
    result = await hands.do("docker_logs", container=made, timestamps=False)
    assert result.stdout.split() == ["plain"]


async def test_a_container_that_still_speaks_is_not_followed(engine: Engine, hands: Hands) -> None:
    made = engine.run("sh", "-c", "while :; do echo on and on; sleep 0.01; done")
    engine.hear(made, "on and on")
    result = await hands.do("docker_logs", container=made, timeout_s=20.0)
    assert result.ok
    assert 1 <= int(str(result.data["lines"])) <= TAIL


async def test_more_than_the_caps_is_not_kept(engine: Engine, hands: Hands) -> None:
    made = _said(engine, "seq 1 50000")
    many = await hands.do("docker_logs", container=made, tail=TAIL_MAX, timestamps=False)
    assert many.stdout.split() == [str(i) for i in range(40_001, 50_001)]
    too_many = await hands.bare("docker_logs", {"container": made, "tail": TAIL_MAX + 1})
    assert too_many.exit_code == 2
    wide = _said(engine, "i=0; while [ $i -lt 9 ]; do head -c 90000 /dev/zero | tr '\\0' x; echo;"
                 " i=$((i + 1)); done; echo end")  # fmt: skip
    result = await hands.do("docker_logs", container=wide, timestamps=False)
    assert result.ok
    assert result.truncated
    assert len(result.stdout) <= LOGS_BYTES_MAX + 2
    assert result.stdout.endswith("x\nend\n")


async def test_an_inspection_tells_much_and_no_secret(engine: Engine, hands: Hands) -> None:
    network, name = engine.network(), engine.name()
    made = engine.run(
        *("sh", "-c", "while :; do sleep 1000; done", "argument-hunter2"),
        name=name,
        Env=["DB_PASSWORD=hunter2", "MODE=hunter2"],
        Labels={"operator-tests": "x", "token": "hunter2"},
        User="nobody",
        HostConfig={"NetworkMode": network, "Memory": 64 * 1024 * 1024},
    )
    try:
        result = await hands.do("docker_inspect", container=name)
    finally:
        engine.remove(made)
    assert result.ok
    assert "hunter2" not in repr(result)
    told = json.loads(result.stdout)
    assert (told["id"], told["name"], told["user"]) == (made, name, "nobody")
    assert (told["status"], told["running"]) == ("running", True)
    assert {"DB_PASSWORD", "MODE"} <= set(told["variables"])
    assert "token" in told["labels"]
    assert told["memory_bytes_max"] == 64 * 1024 * 1024
    assert list(told["networks"]) == [network]
    assert told["networks"][network]["address"]
    assert result.data["networks"] == network
    assert result.data["image"] == engine.image


async def test_an_inspection_of_another_one_than_proposed_is_refused(
    engine: Engine, hands: Hands
) -> None:
    name = engine.name()
    first = engine.create("true", name=name)
    action = await hands.propose("docker_inspect", container=name)
    engine.remove(first)
    engine.create("true", name=name)
    assert (await hands.call(action)).outcome is Outcome.REFUSED


async def test_a_look_needs_no_id(engine: Engine, hands: Hands) -> None:
    made = engine.create("true")
    result = await hands.bare("docker_inspect", {"container": made[:12]})
    assert (result.ok, result.data["id"], result.data["status"]) == (True, made, "created")
