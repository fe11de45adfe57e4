"""The porter at work: what reaches an engine, what does not, and what of a real one passes."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest

from operator_protocols.domain.action import Outcome
from operator_protocols.errors import OperatorError, UsageError
from operator_protocols.ports import Job
from operator_sre.app.porter import Behind, Post, keep, look_behind, post_of
from operator_sre.executor.docker import Address, EngineError
from operator_sre.executor.docker import Engine as Client
from operator_sre.executor.docker.execs import Inside, run_inside
from operator_sre.executor.porter.lab import PART_LABEL, Lab
from operator_sre.executor.porter.porter import CONNECTIONS_MAX
from operator_sre.executor.porter.relay import BODY_BYTES_MAX, request_of
from tests.engines.dockerd import docker_engine
from tests.executor.porter.standing import (
    LAB,
    LABEL,
    Heard,
    asked,
    labels,
    request,
    standing,
    warnings,
)

pytestmark = pytest.mark.asyncio

ONE, TWO, PROGRAM = "1" * 64, "2" * 64, "3" * 64
DONE = b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"
CREATE = request("POST", "/containers/create", {"Image": "x"})


def _json(told: object) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n" + json.dumps(told).encode()


def _own(full_id: str, project: str = LAB, **host: object) -> bytes:
    labels = {"Labels": {LABEL: project}}
    return _json({"Id": full_id, "Name": "/web", "Config": labels, "HostConfig": host})


async def test_what_passes_is_written_anew_and_only_about_the_id_that_was_found() -> None:
    heard = Heard({"/containers/web/json": _own(ONE), f"/v1.41/containers/{ONE}/stop": DONE})
    async with standing(heard) as place:
        raw = request("POST", "/v1.41/containers/web/stop?t=%35", None, "X-Evil: 1", "Cookie: a")
        assert await asked(place, raw) == (204, b"")
    assert heard.connections[1] == request_of(
        "POST", f"/v1.41/containers/{ONE}/stop?t=5", b"", upgrades=False
    )


async def test_a_name_that_changes_hands_is_looked_up_each_time() -> None:
    inspected = [_own(ONE), _own(TWO, "other")]
    heard = Heard({"/containers/web/json": inspected, f"/containers/{ONE}/kill": DONE})
    async with standing(heard) as place:
        assert (await asked(place, request("POST", "/containers/web/kill")))[0] == 204
        status, told = await asked(place, request("POST", "/containers/web/kill"))
    assert (status, "does not belong to this lab" in told["message"]) == (403, True)
    assert heard.lines[-1] == "GET /containers/web/json HTTP/1.1", "nothing was killed"


async def test_refusals_are_said_as_docker_does_and_are_logged() -> None:
    heard = Heard({})
    with warnings() as said:
        async with standing(heard) as place:
            for raw in (
                CREATE,
                request("POST", "/containers/web/%2e%2e/create"),
                request("POST", "/containers/web/exec", {"Cmd": ["id"], "Privileged": True}),
                request("DELETE", "/containers/web?force=1"),
            ):
                status, told = await asked(place, raw)
                assert (status, list(told)) == (403, ["message"])
            head = request("HEAD", "/info", None, "Connection: close")
            assert await asked(place, head) == (403, b""), "a HEAD has no body"
    assert heard.connections == [], "the engine heard nothing of it"
    assert len(said) == 5
    assert "'POST /containers/create'" in said[0]
    assert "DELETE /containers/web" in said[3]
    assert f"user {os.getuid()}, process {os.getpid()}" in said[0]


async def test_a_second_request_on_a_connection_reaches_nobody() -> None:
    heard = Heard({"/_ping": _json("OK")})
    async with standing(heard) as place:
        status, _ = await asked(place, request("GET", "/_ping") + CREATE)
        chunked = b"POST /containers/web/start HTTP/1.1\r\nHost: d\r\nTransfer-Encoding: chunked"
        assert status == 200
        assert (await asked(place, chunked + b"\r\n\r\n0\r\n\r\n" + CREATE))[0] == 411
    assert heard.lines == ["GET /_ping HTTP/1.1"]
    assert b"create" not in b"".join(heard.connections)


@pytest.mark.parametrize("agrees", [True, False])
async def test_bytes_after_an_upgrade_pass_only_when_the_engine_agreed(agrees: bool) -> None:
    refusal = b"HTTP/1.1 409 Conflict\r\nContent-Length: 2\r\n\r\n{}"
    agreed = b"HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\nhello"
    heard = Heard(
        {
            f"/exec/{PROGRAM}/json": _json({"ContainerID": ONE, "ProcessConfig": {}}),
            f"/containers/{ONE}/json": _own(ONE),
            f"/exec/{PROGRAM}/start": agreed if agrees else refusal,
        }
    )
    upgrade = ("Connection: Upgrade", "Upgrade: tcp")
    raw = request("POST", f"/exec/{PROGRAM}/start", {"Detach": False}, *upgrade) + CREATE
    async with standing(heard) as place:
        reader, writer = await asyncio.open_unix_connection(str(place))
        writer.write(raw)
        writer.write_eof()
        answer = await reader.read()
        writer.close()
        ping = request("GET", "/_ping", None, *upgrade)
        assert (await asked(place, ping))[0] == 403, "nothing else becomes a stream"
    assert answer == (agreed if agrees else refusal)
    assert heard.connections[-1].endswith(CREATE) is agrees


async def test_lists_hold_the_labs_own_whatever_the_engine_says() -> None:
    rows = [
        {"Id": ONE, "Labels": {LABEL: LAB}},
        {"Id": TWO, "Labels": {LABEL: "other"}},
        {"Id": PROGRAM, "Labels": {LABEL: LAB, PART_LABEL: "agent"}},
        {"Id": "x", "Labels": None},
    ]
    heard = Heard({"/containers/json": _json(rows)})
    async with standing(heard) as place:
        assert await asked(place, request("GET", "/containers/json?all=1")) == (200, rows[:1])
        wrong = request("GET", "/containers/json?filters=%7B%22volume%22%3A%5B%22x%22%5D%7D")
        assert (await asked(place, wrong))[0] == 403
    assert f"{LABEL}%3D{LAB}" in heard.lines[0]
    told = Lab(Client(Address(socket="/none.sock")), LAB).own(b"nonsense")
    assert not isinstance(told, bytes)


async def test_programs_of_others_and_privileged_ones_are_not_begun() -> None:
    heard = Heard(
        {
            f"/exec/{ONE}/json": _json({"ContainerID": TWO, "ProcessConfig": {}}),
            f"/containers/{TWO}/json": _own(TWO, "other"),
            f"/exec/{TWO}/json": _json({"ContainerID": ONE, "ProcessConfig": {"privileged": True}}),
            "/containers/strong/json": _own(ONE, Privileged=True),
            f"/containers/{ONE}/restart": DONE,
        }
    )
    async with standing(heard) as place:
        for program in (ONE, TWO):
            assert (await asked(place, request("POST", f"/exec/{program}/start", {})))[0] == 403
        status, told = await asked(
            place, request("POST", "/containers/strong/exec", {"Cmd": ["i"]})
        )
        assert (status, "privileged" in told["message"]) == (403, True)
        assert (await asked(place, request("POST", "/containers/strong/restart")))[0] == 204
    assert not [line for line in heard.lines if "start H" in line and "restart" not in line]


async def test_too_much_too_many_and_nobody_behind() -> None:
    heard = Heard({})
    async with standing(heard) as place:
        large = request("POST", "/containers/web/exec", {"Cmd": ["x" * BODY_BYTES_MAX]})
        assert (await asked(place, large))[0] == 413
        assert (await asked(place, b"GET /" + b"x" * 40_000))[0] == 400
    async with standing(heard, connections_max=1) as place:
        _, holding = await asyncio.open_unix_connection(str(place))
        assert (await asked(place, request("GET", "/_ping")))[0] == 503
        holding.close()
    assert heard.connections == []
    assert CONNECTIONS_MAX > 1
    async with standing("/nowhere/docker.sock") as place:
        for target in ("/_ping", "/containers/json", "/containers/web/json"):
            assert (await asked(place, request("GET", target)))[0] == 502


async def test_where_a_porter_can_stand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///somewhere/docker.sock")
    place = Path(f"/tmp/operator-{os.getpid()}.sock")
    assert post_of(LAB, place) == Post(LAB, place, Path("/somewhere/docker.sock"))
    for project in ("", "Lab", "../x", "a b"):
        with pytest.raises(UsageError, match="compose project"):
            post_of(project, place)
    with pytest.raises(UsageError, match="on the socket of its engine"):
        post_of(LAB, place, place)
    with pytest.raises(UsageError, match="107 bytes"):
        post_of(LAB, tmp_path / ("x" * 120))
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:2375")
    with pytest.raises(UsageError, match="--engine"):
        post_of(LAB, place)
    taken = tmp_path / "file"
    taken.write_text("")
    with pytest.raises(OperatorError, match="already in use"):
        await keep(Post(LAB, taken, place), ready=print)
    with pytest.raises(EngineError):
        await look_behind(place)


@pytest.mark.system
async def test_programs_run_in_the_labs_containers_and_in_no_others(
    pytestconfig: pytest.Config,
) -> None:
    engine = docker_engine(pytestconfig)
    own = engine.run("sleep", "1000", Labels=labels(engine))
    other = engine.run("sleep", "1000")
    async with standing(engine.socket) as place:
        client, job = Client(Address(socket=str(place))), Job(timeout_s=30.0)
        result = await run_inside(client, Inside(own, ("echo", "hello")), job)
        refused = await run_inside(client, Inside(other, ("echo", "hello")), job)
        assert await look_behind(place) == Behind(
            str(place), engine.ask("GET", "/version")["Version"], 1
        )
        create = request("POST", "/containers/create", {"Image": engine.image, "Cmd": ["id"]})
        assert (await asked(place, create))[0] == 403
    engine.clean()
    assert (result.outcome, result.stdout) == (Outcome.RAN, "hello\n")
    assert (refused.ok, "does not belong to this lab" in refused.stderr) == (False, True)
