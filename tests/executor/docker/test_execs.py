"""Programs in containers: what is told when the engine lies, and what reaches them."""

from __future__ import annotations

import asyncio
import json

import pytest

from operator_protocols.domain.action import Outcome
from operator_protocols.domain.category import FailureCategory
from operator_protocols.ports import Job
from operator_sre.executor.docker import Address, Answer, Engine, EngineError
from operator_sre.executor.docker.answers import Attached, Container, Created, Waited
from operator_sre.executor.docker.engine import ANSWER_S
from operator_sre.executor.docker.execs import (
    OUTPUT_BYTES_MAX,
    Inside,
    end_marked,
    new_mark,
    run_inside,
)
from tests.engines.dockerd import docker_engine
from tests.executor.docker.impostor import ID, Script, answer, endless, listening, says

pytestmark = pytest.mark.asyncio

RAW = b"HTTP/1.1 200 OK\r\nContent-Type: application/vnd.docker.raw-stream\r\n\r\n"
HEAD = b"\x01\0\0\0" + (60_000).to_bytes(4, "big")
MADE = answer(b'{"Id":"e1"}', status="201 Created")
RUNS, OVER = b'{"Running":true}', b'{"Running":false,"ExitCode":5}'


def _lying(start: Script, look: bytes, *, made: bytes = MADE) -> Script:
    async def script(request: str, writer: asyncio.StreamWriter) -> None:
        if "/start" in request:
            await start(request, writer)
        elif "/exec/" in request:
            await says(answer(look))(request, writer)
        else:
            await says(made)(request, writer)

    return script


def _inside(*argv: str) -> Inside:
    return Inside(ID, argv or ("id",))


PIECE = HEAD + b"z" * 60_000


@pytest.mark.parametrize(
    "start",
    [says(RAW, *[PIECE] * 50), pytest.param(endless(RAW, PIECE), marks=pytest.mark.slow)],
    ids=["much, and no end", "more and more"],
)
async def test_output_without_an_end_is_bounded_by_the_time_out(start: Script) -> None:
    async with listening(_lying(start, RUNS), hangs=True) as path:
        engine = Engine(Address(socket=path))
        result = await run_inside(engine, _inside(), Job(timeout_s=3.0))
    assert result.outcome is Outcome.TIMED_OUT
    assert result.truncated
    assert len(result.stdout) <= OUTPUT_BYTES_MAX
    assert result.data["ended"] is False


async def test_a_frame_that_is_none_leaves_it_unknown() -> None:
    async with listening(_lying(says(RAW, b"garbage, no frame"), RUNS)) as path:
        result = await run_inside(Engine(Address(socket=path)), _inside(), Job(timeout_s=5.0))
    assert (result.outcome, result.exit_code) == (Outcome.UNKNOWN, None)
    assert result.category is FailureCategory.NETWORK


async def test_an_end_that_the_engine_knows_is_believed_over_an_open_stream() -> None:
    async with listening(_lying(says(RAW, HEAD + b"said"), OVER), hangs=True) as path:
        result = await run_inside(Engine(Address(socket=path)), _inside(), Job(timeout_s=30.0))
    assert (result.exit_code, result.stdout) == (5, "said")


async def test_what_is_said_late_is_heard_all_the_same() -> None:
    async def late(request: str, writer: asyncio.StreamWriter) -> None:
        writer.write(RAW)
        await writer.drain()
        await looked.wait()  # it has ended, and what it said is still on its way
        writer.write(b"\x01\0\0\0" + (4).to_bytes(4, "big") + b"late")

    async def script(request: str, writer: asyncio.StreamWriter) -> None:
        if request.startswith("GET /exec/"):
            looked.set()
        await _lying(late, OVER)(request, writer)

    looked = asyncio.Event()
    async with listening(script) as path:
        result = await run_inside(Engine(Address(socket=path)), _inside(), Job(timeout_s=30.0))
    assert (result.exit_code, result.stdout) == (5, "late")


async def test_a_refusal_before_the_start_is_a_failure_and_not_unknown() -> None:
    refused = answer(b'{"message":"is paused"}', status="409 Conflict")
    async with listening(_lying(says(), RUNS, made=refused)) as path:
        result = await run_inside(Engine(Address(socket=path)), _inside(), Job(timeout_s=5.0))
    assert (result.outcome, result.exit_code) == (Outcome.RAN, 1)
    assert "is paused" in result.stderr


async def test_a_start_that_is_refused_started_nothing() -> None:
    refused = says(answer(b"{}", status="500 Oops"))
    async with listening(_lying(refused, RUNS)) as path:
        with pytest.raises(EngineError, match="did not start the command") as caught:
            await run_inside(Engine(Address(socket=path)), _inside(), Job(timeout_s=5.0))
    assert caught.value.sent is False


async def test_marks_differ_and_who_cannot_be_ended_is_told() -> None:
    assert new_mark() != new_mark()
    async with listening(_lying(says(), RUNS, made=answer(b"{}", status="404 No"))) as path:
        left = await end_marked(Engine(Address(socket=path)), ID, new_mark(), user="")
    assert "no shell" in left
    away = await end_marked(Engine(Address(socket="/none.sock")), ID, new_mark(), user="")
    assert "could not be stopped" in away


@pytest.mark.system
async def test_variables_are_given_to_the_program(pytestconfig: pytest.Config) -> None:
    real = docker_engine(pytestconfig)
    home = real.run("sleep", "1000")
    inside = Inside(home, ("sh", "-c", "echo $COLOUR; pwd"), environment={"COLOUR": "a b;c"})
    result = await run_inside(Engine(Address(socket=real.socket)), inside, Job(timeout_s=30.0))
    real.clean()
    assert (result.ok, result.stdout) == (True, "a b;c\n/\n")


async def test_what_is_read_of_an_answer() -> None:
    attached = {"Aliases": None, "IPAddress": "10.0.0.2", "NetworkID": "n"}
    told = {
        "Id": ID,
        "Name": "/web",
        "State": {},
        "Config": {},
        "NetworkSettings": {"Networks": {"net": attached}},
    }
    container = Answer(200, json.dumps(told).encode()).read(Container)
    assert container.networks == {"net": Attached(address="10.0.0.2", network="n")}
    assert Answer(201, b'{"Id":"e1","More":1}').read(Created).id == "e1"
    assert Answer(200, b'{"StatusCode":3,"Error":null}').read(Waited).status_code == 3
    assert ANSWER_S > 0
