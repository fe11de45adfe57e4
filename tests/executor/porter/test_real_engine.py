"""A real engine behind the porter: asked by Docker's own command line, and by our tools."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from operator_protocols.domain.action import Outcome
from operator_protocols.errors import OperatorError
from operator_sre.app.porter import keep, post_of
from operator_sre.executor.porter.lab import PART_LABEL
from tests.engines.dockerd import Engine, docker_engine
from tests.executor.porter.standing import LAB, asked, labels, request, standing
from tests.executor.tools.hands import hands_on

pytestmark = [pytest.mark.asyncio, pytest.mark.slow, pytest.mark.system]

CREATE = request("POST", "/containers/create", {"Image": "x"})


@pytest.fixture
def engine(pytestconfig: pytest.Config) -> Iterator[Engine]:
    """The engine of this process; what a test made in it is removed."""
    engine = docker_engine(pytestconfig)
    yield engine
    engine.clean()


class _Docker:
    """Docker's own command line, through a porter."""

    def __init__(self, place: Path, settings: Path) -> None:
        self._environment = {
            "DOCKER_HOST": f"unix://{place}",
            "DOCKER_CONFIG": str(settings),
            "PATH": os.environ["PATH"],
        }

    async def __call__(self, *words: str, told: bytes = b"") -> tuple[int, str, str]:
        running = await asyncio.create_subprocess_exec(
            "docker",
            *words,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=self._environment,
        )
        async with asyncio.timeout(60.0):
            out, err = await running.communicate(told)
        assert running.returncode is not None
        return running.returncode, out.decode(), err.decode()

    async def does(self, *words: str, told: bytes = b"") -> str:
        """What it says, when it does it."""
        code, out, err = await self(*words, told=told)
        assert code == 0, (words, out, err)
        return out

    async def refuses(self, *words: str) -> None:
        """It says that the porter refused."""
        code, out, err = await self(*words)
        assert code != 0, (words, out)
        assert "operator porter: " in out + err or "received 403" in err, (words, out, err)


async def test_the_command_line_of_docker_works_on_the_labs_own(
    engine: Engine, tmp_path: Path
) -> None:
    if shutil.which("docker") is None:
        pytest.skip("needs the command line of Docker (Debian: apt install docker.io)")
    name = engine.name()
    script = "trap 'exit 0' TERM; echo begun; while :; do sleep 0.1; done"
    own = engine.run("sh", "-c", script, name=name, Labels=labels(engine))
    engine.hear(own, "begun")
    other = engine.run("sleep", "1000")
    async with standing(engine.socket) as place:
        docker = _Docker(place, tmp_path)
        listed = await docker.does("ps", "--all", "--no-trunc", "--quiet")
        assert listed.split() == [own], "and nothing of others"
        assert await docker.does("ps", "--quiet", "--filter", f"id={other}") == ""
        assert json.loads(await docker.does("inspect", name))[0]["Id"] == own
        assert "begun" in await docker.does("logs", "--tail", "5", name)
        assert "sleep" in await docker.does("top", name)
        assert name in await docker.does("stats", "--no-stream", name)
        assert await docker.does("exec", name, "echo", "hi") == "hi\n"
        assert await docker.does("exec", "-i", name, "cat", told=b"x" * 200_000) == "x" * 200_000
        code, _, _ = await docker(
            "exec", "--user", "nobody", "-w", "/tmp", name, "sh", "-c", "exit 7"
        )
        assert code == 7
        for verb in ("pause", "unpause", "restart", "kill", "start", "stop"):
            assert name in await docker.does(verb, name)
        assert not engine.is_running(own)
        await docker.does("start", own[:12])
        assert engine.is_running(own)


async def test_the_command_line_of_docker_does_nothing_else(engine: Engine, tmp_path: Path) -> None:
    if shutil.which("docker") is None:
        pytest.skip("needs the command line of Docker (Debian: apt install docker.io)")
    own = engine.run("sleep", "1000", Labels=labels(engine))
    other = engine.run("sleep", "1000")
    part = engine.run("sleep", "1000", Labels=labels(engine, **{PART_LABEL: "agent"}))
    bound = {"Binds": ["/tmp:/host"]}
    seeing = engine.run("sleep", "1000", Labels=labels(engine), HostConfig=bound)
    strong = {"Privileged": True}
    # Made and not begun: not every machine on which tests run may begin such a one.
    privileged = engine.create("sleep", "1000", Labels=labels(engine), HostConfig=strong)
    before = {one["Id"] for one in engine.ask("GET", "/containers/json?all=true")}
    async with standing(engine.socket) as place:
        docker = _Docker(place, tmp_path)
        await docker.refuses("run", "--rm", "--volume", "/:/host", engine.image, "id")
        await docker.refuses("create", "--privileged", engine.image, "id")
        await docker.refuses("exec", "--privileged", own, "id")
        for container in (other, part):
            for verb in ("inspect", "logs", "stop", "kill", "restart", "pause", "top"):
                await docker.refuses(verb, container)
        for container in (other, part, seeing, privileged):
            await docker.refuses("exec", container, "id")
        await docker.refuses("cp", f"{own}:/etc/passwd", str(tmp_path / "taken"))
        for words in (
            ("rm", "--force", own),
            ("rename", own, "x"),
            ("update", "--memory", "1g", own),
            ("commit", own, "x"),
            ("export", own, "-o", str(tmp_path / "out")),
            ("attach", own),
            ("images",),
            ("pull", "busybox"),
            ("volume", "ls"),
            ("volume", "create", "x"),
            ("network", "ls"),
            ("network", "connect", "host", own),
            ("swarm", "init"),
            ("plugin", "ls"),
            ("system", "df"),
            ("container", "prune", "--force"),
            ("events", "--since", "1m", "--until", "1s"),
        ):
            await docker.refuses(*words)
    after = {one["Id"] for one in engine.ask("GET", "/containers/json?all=true")}
    assert after == before
    assert all(engine.is_running(one) for one in (own, other, part, seeing))


async def test_our_own_tools_work_through_it(engine: Engine) -> None:
    name = engine.name()
    engine.run("sleep", "1000", name=name, Labels=labels(engine))
    other = engine.name()
    engine.run("sleep", "1000", name=other)
    async with standing(engine.socket) as place:
        hands = hands_on(str(place))
        for tool in ("docker_inspect", "docker_logs", "docker_start"):
            assert (await hands.do(tool, container=name)).ok, tool
        assert (await hands.do("docker_restart", container=name, grace_s=1)).ok
        said = await hands.do("docker_exec", container=name, argv=("echo", "hi"))
        assert said.stdout == "hi\n"
        late = await hands.do("docker_exec", timeout_s=1.0, container=name, argv=("sleep", "99"))
        assert (late.outcome, late.data["ended"]) == (Outcome.TIMED_OUT, True)
        assert (await hands.do("docker_stop", container=name, grace_s=1)).ok
        refused = await hands.bare("docker_inspect", {"container": other})
        assert not refused.ok
        assert "not one of this lab" in refused.stderr


async def test_a_log_that_is_followed_ends_with_whoever_follows_it(engine: Engine) -> None:
    own = engine.run("sh", "-c", "echo begun; sleep 1000", Labels=labels(engine))
    async with standing(engine.socket, connections_max=1) as place:
        reader, writer = await asyncio.open_unix_connection(str(place))
        writer.write(request("GET", f"/containers/{own}/logs?stdout=1&follow=1"))
        async with asyncio.timeout(20.0):
            await reader.readuntil(b"begun")
        writer.close()
        async with asyncio.timeout(20.0):  # the one connection there may be is free again
            while (await asked(place, request("GET", "/_ping")))[0] != 200:
                pass


async def test_the_command_stands_there_until_it_is_stopped(engine: Engine, tmp_path: Path) -> None:
    engine.run("sleep", "1000", Labels=labels(engine))
    place = Path(f"/tmp/operator-porter-{os.getpid()}.sock")
    words = ("--socket", str(place), "--engine", engine.socket, "--project", LAB, "--json")
    environment = {"PATH": os.environ["PATH"], "OPERATOR_HOME": str(tmp_path)}
    serving = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "operator_sre", "porter", "serve", *words),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment,
    )
    assert serving.stdout is not None
    async with asyncio.timeout(60.0):
        told = json.loads(await serving.stdout.readline())
        assert told["listening"] == [f"unix://{place}"]
        with pytest.raises(OperatorError, match="is taken"):
            await keep(post_of(LAB, place, Path(engine.socket)), ready=print)
        assert (await asked(place, CREATE))[0] == 403
        asking = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "operator_sre", "porter", "test"),
            *("--socket", str(place), "--json"),
            stdout=asyncio.subprocess.PIPE,
            env=environment,
        )
        out, _ = await asking.communicate()
        assert json.loads(out)["porter"]["containers"] == 1
        serving.terminate()
        _, said = await serving.communicate()
    assert (asking.returncode, serving.returncode) == (0, 128 + signal.SIGTERM)
    assert b"refused 'POST /containers/create'" in said
    assert not place.exists()
