"""Both images, really built, and the services around them, really up beside a lab."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from operator_sre import __version__
from operator_sre.executor.porter.lab import PART_LABEL
from tests.deploy.built import COMMIT, FOLDER, IMAGES, build_image, hand_over, take_in
from tests.engines.base import Base, base_or_why
from tests.engines.dockerd import Engine, PrivateEngine, private_engine
from tests.executor.porter.standing import LAB, labels
from tests.lab.stacks.engines import compose_for, engine_to_publish

pytestmark = [
    pytest.mark.slow,
    pytest.mark.system,
    pytest.mark.timeout(3600),
    pytest.mark.group("built"),
]

UP_S_MAX = 300.0
TOOLS = ("curl", "jq", "dig", "nc", "ping", "tcpdump", "docker", "kubectl")
PROJECT = """\
[subjects.limiter]
plugin = "ratelimiter"

[[subjects.limiter.targets]]
name = "node-1"
kind = "node"
host = "node-1"
port = 8000
runs_at = "docker://lab-node-1"
"""


@pytest.fixture(scope="module")
def base() -> Base:
    """The stand-in that both images are built on."""
    found, why = base_or_why()
    return found or pytest.skip(why)


@pytest.fixture(scope="module")
def engine(pytestconfig: pytest.Config, base: Base) -> Iterator[PrivateEngine]:
    """An engine that has both images, made by another one that reached the packages."""
    builder = private_engine(pytestconfig, outward=True)
    try:
        take_in(builder, base.tar)
        for target in IMAGES:
            build_image(builder, target)
        engine = engine_to_publish(pytestconfig)
        try:
            hand_over(builder, engine)
            builder.end()
            yield engine
        finally:
            engine.end()
    finally:
        builder.end()


def _told(engine: Engine, image: str, *words: str, entrypoint: str = "") -> tuple[int, str]:
    """How such a container ends and what it says, in the narrow place that the services have."""
    narrow = {
        "ReadonlyRootfs": True,
        "CapDrop": ["ALL"],
        "SecurityOpt": ["no-new-privileges:true"],
        "NetworkMode": "none",
        "Tmpfs": {"/tmp": "mode=1777,size=64m"},
    }
    begun_by = [entrypoint] if entrypoint else None
    made = engine.run(*words, Image=image, HostConfig=narrow, Tty=True, Entrypoint=begun_by)
    ended = engine.ask("POST", f"/containers/{made}/wait", timeout_s=120.0)
    said = engine.ask("GET", f"/containers/{made}/logs?stdout=true&stderr=true")
    engine.remove(made)
    return int(ended["StatusCode"]), said.decode() if isinstance(said, bytes) else str(said)


@pytest.mark.parametrize("target", IMAGES)
def test_it_runs_as_nobody_special_on_a_root_that_it_cannot_write(
    engine: PrivateEngine, base: Base, target: str
) -> None:
    image = IMAGES[target]
    assert _told(engine, image, "--version") == (
        0,
        f"operator {__version__} (commit {COMMIT[:12]})\r\n",
    )
    assert _told(engine, image, "docs", "gate")[0] == 0, "the documentation is inside"
    script = "id -u; python --version; touch /x /opt/operator/x; touch ~/x && echo at home"
    _, said = _told(engine, image, "-c", script, entrypoint="sh")
    assert said.startswith(f"10001\r\nPython {base.python}."), said
    assert said.count("Read-only file system") == 2, said
    assert said.endswith("at home\r\n"), said


def test_the_agent_has_every_tool_and_the_other_has_none_of_dockers(engine: PrivateEngine) -> None:
    script = "for each in $0; do command -v $each >/dev/null || echo no $each; done"
    assert _told(engine, IMAGES["agent"], "-c", script, " ".join(TOOLS), entrypoint="sh") == (0, "")
    _, said = _told(engine, IMAGES["operator"], "-c", script, "docker kubectl", entrypoint="sh")
    assert said == "no docker\r\nno kubectl\r\n"
    begin = (
        "curl --version && jq --version && dig -v && tcpdump --version && docker --version"
        " && kubectl version --client && ping -c 1 127.0.0.1 && nc -h"
    )
    code, said = _told(engine, IMAGES["agent"], "-c", begin, entrypoint="sh")
    assert code in (0, 1), said  # nc says how it is used, and ends with 1
    assert "OpenBSD netcat" in said


def test_its_health_check_tells_well_from_unwell(engine: PrivateEngine) -> None:
    told = engine.ask("GET", f"/images/{IMAGES['agent']}/json")["Config"]["Healthcheck"]["Test"]
    assert told == ["CMD", "operator", "porter", "test"]
    code, said = _told(engine, IMAGES["agent"], "porter", "test")
    assert code != 0, "there is no porter"
    assert "No Docker engine answers" in said
    told = engine.ask("GET", f"/images/{IMAGES['operator']}/json")["Config"]["Healthcheck"]["Test"]
    assert _told(engine, IMAGES["operator"], *told[2:])[0] == 0


@dataclass
class Beside:
    """The services beside a lab of two containers, and somebody else's container."""

    engine: PrivateEngine
    own: str
    other: str

    def asked(self, service: str, *words: str) -> tuple[int, str]:
        """What a program in one of the services says, and how it ends."""
        container = f"{LAB}-operator-{service}-1"
        body = {"Cmd": list(words), "AttachStdout": True, "AttachStderr": True, "Tty": True}
        made = self.engine.ask("POST", f"/containers/{container}/exec", body)["Id"]
        start = {"Detach": False, "Tty": True}
        said = self.engine.ask("POST", f"/exec/{made}/start", start, timeout_s=120.0)
        code = self.engine.ask("GET", f"/exec/{made}/json")["ExitCode"]
        return int(code), said.decode() if isinstance(said, bytes) else str(said)

    def health(self) -> dict[str, str]:
        """That of every service."""
        names = ("operator", "agent", "porter")
        return {
            name: self.engine.inspect(f"{LAB}-operator-{name}-1")["State"]["Health"]["Status"]
            for name in names
        }


@pytest.fixture(scope="module")
def beside(engine: PrivateEngine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    """All three services up by their own file, and gone with it afterwards."""
    network = engine.network(f"{LAB}_lab")
    inside = {"NetworkMode": network}
    own = engine.run("sleep", "100000", name="lab-node-1", Labels=labels(engine), HostConfig=inside)
    other = engine.run("sleep", "100000")
    before = _all_of(engine)
    project = tmp_path_factory.mktemp("project")
    project.chmod(0o755)
    (project / "operator.toml").write_text(PROJECT)
    compose = compose_for(engine)
    environment = {
        **os.environ,
        **compose.environment,
        "LAB": LAB,
        "DOCKER_GID": str(Path(engine.socket).stat().st_gid),
        "DOCKER_SOCKET": engine.socket,
        "OPERATOR_PROJECT": str(project),
    }
    words = [*compose.words, "--file", str(FOLDER / "compose.yaml")]

    def do(*more: str) -> None:
        done = subprocess.run(
            [*words, *more],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=UP_S_MAX,
        )
        assert done.returncode == 0, done.stderr[-3000:]

    try:
        do("up", "--detach", "--no-build", "--wait")
        yield Beside(engine, own, other)
    finally:
        do("down", "--volumes", "--timeout", "5")
    assert _all_of(engine) == before, "it resets everything"


def _all_of(engine: Engine) -> tuple[set[str], set[str], set[str]]:
    containers = engine.ask("GET", "/containers/json?all=true")
    volumes = engine.ask("GET", "/volumes")["Volumes"] or []
    networks = engine.ask("GET", "/networks")
    return (
        {one["Id"] for one in containers},
        {one["Name"] for one in volumes},
        {one["Id"] for one in networks},
    )


def test_all_three_become_well_and_join_the_network_of_the_lab(beside: Beside) -> None:
    assert beside.health() == dict.fromkeys(("operator", "agent", "porter"), "healthy")
    code, said = beside.asked("agent", "sh", "-c", "ping -c 1 node-1 || ping -c 1 lab-node-1")
    assert code == 0, said
    joined = beside.engine.inspect(f"{LAB}-operator-porter-1")["NetworkSettings"]["Networks"]
    assert set(joined) == {"none"}
    for name in ("operator", "agent", "porter"):
        told = beside.engine.inspect(f"{LAB}-operator-{name}-1")
        assert told["Config"]["Labels"][PART_LABEL] == name
        assert told["HostConfig"]["ReadonlyRootfs"]
        sockets = [one for one in told["Mounts"] if one["Destination"] == "/var/run/docker.sock"]
        assert bool(sockets) is (name == "porter"), "only the porter sees the engine"


def test_the_agent_lists_and_restarts_what_is_the_labs(beside: Beside) -> None:
    code, said = beside.asked("agent", "docker", "ps", "--quiet", "--no-trunc")
    assert (code, said.split()) == (0, [beside.own]), "and nothing of others"
    before = beside.engine.inspect(beside.own)["State"]["StartedAt"]
    code, said = beside.asked("agent", "docker", "restart", "--time", "0", "lab-node-1")
    assert (code, said.strip()) == (0, "lab-node-1")
    assert beside.engine.inspect(beside.own)["State"]["StartedAt"] != before
    assert beside.asked("agent", "docker", "exec", "lab-node-1", "echo", "hi") == (0, "hi\r\n")


def test_the_agent_is_refused_whatever_would_give_it_more(beside: Beside) -> None:
    image = beside.engine.image
    for words in (
        ("create", image, "id"),
        ("run", "--rm", image, "id"),
        ("run", "--rm", "--volume", "/:/host", image, "id"),
        ("run", "--rm", "--privileged", image, "id"),
        ("exec", "--privileged", "lab-node-1", "id"),
        ("exec", beside.other, "id"),
        ("exec", f"{LAB}-operator-porter-1", "id"),
        ("restart", beside.other),
        ("stop", f"{LAB}-operator-operator-1"),
        ("rm", "--force", "lab-node-1"),
        ("cp", "lab-node-1:/etc/passwd", "/tmp/taken"),
        ("volume", "ls"),
    ):
        code, said = beside.asked("agent", "docker", *words)
        assert code != 0, (words, said)
        assert "operator porter: " in said or "403" in said, (words, said)
    assert beside.engine.is_running(beside.other)
    assert beside.health()["porter"] == "healthy"
