"""What tools refuse before they change anything, and the jars of the rig."""

from __future__ import annotations

import hashlib
import http.server
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from operator_lab.artifacts import REPOSITORY_VARIABLE, fetch_artifacts, repository_of
from operator_protocols.domain.action import Argument, Result
from operator_protocols.domain.rig import Artifact
from operator_protocols.domain.target import Process, Target
from operator_protocols.errors import MissingProgramError, RigError
from operator_protocols.ports import Job, SubjectSettings, Tool
from operator_sre.clock import SystemClock
from operator_sre.subjects.kafka import plugin
from operator_sre.subjects.kafka.rig import artifacts, rig
from operator_sre.subjects.kafka.tools import kafka_tools
from tests.subjects.kafka.fake_broker import World, serve, spread

NODES = (1, 2, 3)


class Life:
    """Restarts nothing, and remembers what it was asked to."""

    def __init__(self) -> None:
        self.restarted: list[str] = []

    async def kill(self, target: str) -> None:
        raise AssertionError(target)

    async def restart(self, target: str) -> Process:
        self.restarted.append(target)
        return Process(1, 0.0)


async def _call(
    targets: tuple[Target, ...], name: str, life: Life, **arguments: Argument
) -> Result:
    settings = SubjectSettings("kafka", lambda: targets, SystemClock(), 4.0, {}, life=life)
    tools = {tool.spec.name: tool for tool in kafka_tools(settings)}
    return await tools[name].call(arguments, Job("call", timeout_s=10.0))


@pytest.mark.asyncio
async def test_no_broker_is_restarted_whose_partitions_would_take_no_writes() -> None:
    world, life = World(spread(2, 3, NODES)), Life()
    async with serve(world, NODES) as targets:
        done = await _call(targets, "restart_broker", life, target="broker-2")
        assert (done.ok, life.restarted) == (True, ["broker-2"])
        world.partitions[0] = replace(world.partitions[0], in_sync=(1, 2))
        refused = await _call(targets, "restart_broker", life, target="broker-2")
        assert not refused.ok
        assert "topic-0-0" in refused.stderr
        assert life.restarted == ["broker-2"]


@pytest.mark.asyncio
async def test_a_silent_broker_that_may_still_serve_others_is_not_restarted() -> None:
    world, life = World(spread(1, 3, NODES)), Life()
    world.partitions[0] = replace(world.partitions[0], in_sync=(1, 2))
    async with serve(world, NODES) as targets:
        world.silent = {2}
        refused = await _call(targets, "restart_broker", life, target="broker-2")
        assert "topic-0-0" in refused.stderr
        world.silent = set(NODES)
        refused = await _call(targets, "restart_broker", life, target="broker-2")
        assert "unknown partitions" in refused.stderr
    assert life.restarted == []


@pytest.mark.parametrize(
    ("setting", "topic", "brokers", "why"),
    [
        ("min.insync.replicas", "3", "1", "could be lost"),
        ("min.insync.replicas", "2", "1", "could be lost"),
        ("min.insync.replicas", "9", "1", "could be lost"),
        ("unclean.leader.election.enable", "false", "true", "could be lost"),
        ("unclean.leader.election.enable", "true", "", "could be lost"),
    ],
)
@pytest.mark.asyncio
async def test_a_default_that_could_lose_records_is_not_restored(
    setting: str, topic: str, brokers: str, why: str
) -> None:
    world = World(
        spread(1, 3, NODES),
        topics={"topic-0": {setting: topic}},
        brokers={node: {setting: brokers} for node in NODES},
    )
    async with serve(world, NODES) as targets:
        refused = await _call(
            targets, "reset_topic_setting", Life(), topic="topic-0", setting=setting
        )
    assert not refused.ok
    assert why in refused.stderr


@pytest.mark.parametrize(
    ("setting", "own", "others", "why"),
    [
        ("log.retention.ms", "604800000", "1000", "could lose"),
        ("log.retention.bytes", "-1", "1000", "could lose"),
        ("min.insync.replicas", "2", "1", "could lose"),
        ("unclean.leader.election.enable", "false", "true", "could lose"),
        ("message.max.bytes", "7", "7", "does not differ"),
    ],
)
@pytest.mark.asyncio
async def test_a_setting_of_one_broker_is_not_reset_to_one_that_loses_records(
    setting: str, own: str, others: str, why: str
) -> None:
    rows = {node: {setting: own if node == 2 else others} for node in NODES}
    async with serve(World(spread(1, 3, NODES), brokers=rows), NODES) as targets:
        refused = await _call(
            targets, "reset_broker_setting", Life(), target="broker-2", setting=setting
        )
    assert not refused.ok
    assert why in refused.stderr


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("cancel_reassignment", {}),
        ("clear_throttle", {}),
        ("raise_replication", {"topic": "topic-0"}),
        ("move_replica", {"topic": "topic-0", "partition": 0, "from_broker": "broker-1",
                          "to_broker": "broker-2"}),
    ],
)  # fmt: skip
@pytest.mark.asyncio
async def test_nothing_is_changed_while_reassignments_cannot_be_read(
    tool: str, arguments: dict[str, Argument]
) -> None:
    async with serve(World(spread(1, 3, NODES), moves_code=29), NODES) as targets:
        refused = await _call(targets, tool, Life(), **arguments)
    assert not refused.ok
    assert "cannot be read" in refused.stderr


@pytest.mark.asyncio
async def test_a_broker_with_other_data_is_not_started(tmp_path: Path) -> None:
    world, life = World(spread(1, 3, NODES)), Life()
    async with serve(world, NODES) as targets:
        emptied = tuple(replace(each, data_dir=str(tmp_path)) for each in targets)
        refused = await _call(emptied, "restart_broker", life, target="broker-2")
    assert not refused.ok
    assert "not what it left" in refused.stderr
    assert life.restarted == []


@pytest.mark.parametrize(
    ("name", "arguments", "why"),
    [
        ("reset_topic_setting", {"topic": "topic-0", "setting": "retention.ms"}, "could be lost"),
        ("reset_topic_setting", {"topic": "no", "setting": "min.insync.replicas"}, "no topic"),
        ("set_quota", {"entity": "all", "quota": "producer_byte_rate"}, "is not user=NAME"),
        ("move_replica", {"topic": "topic-0", "partition": 9, "from_broker": "broker-1",
                          "to_broker": "broker-2"}, "no partition"),
        ("skip_offset", {"group": "no", "topic": "topic-0", "partition": 0, "offset": 1},
         "no group"),
    ],
)  # fmt: skip
@pytest.mark.asyncio
async def test_what_could_lose_records_or_names_nothing_is_refused(
    name: str, arguments: dict[str, Argument], why: str
) -> None:
    async with serve(World(spread(1, 3, NODES)), NODES) as targets:
        refused = await _call(targets, name, Life(), **arguments)
    assert not refused.ok
    assert why in refused.stderr


@pytest.mark.asyncio
async def test_without_a_controller_nothing_is_changed() -> None:
    async with serve(World(spread(1, 3, NODES), leader=-1), NODES) as targets:
        for name in ("elect_preferred_leaders", "cancel_reassignment", "clear_throttle"):
            refused = await _call(targets, name, Life())
            assert "No controller leads" in refused.stderr, name


def test_no_tool_elects_an_unclean_leader_and_the_lossy_ones_are_critical() -> None:
    tools = {tool.spec.name: tool.spec for tool in _tools()}
    assert {name for name, spec in tools.items() if spec.risk == "critical"} == {
        "lower_retention",
        "skip_offset",
    }
    data = ("data_present", "data_intact", "disk_free_bytes")
    starts = (*data, "sheltered", "controller_last", "quorum_kept")
    for name in ("restart_node", "restart_broker"):
        assert {need.reading for need in plugin.requires[name]} == set(starts)


def _tools() -> list[Tool]:
    settings = SubjectSettings("kafka", tuple, SystemClock(), 1.0, {})
    return list(kafka_tools(settings))


CONTENT = b"the jar"


@pytest.fixture
def repository() -> Iterator[str]:
    """A Maven repository that has one file, and lies about another."""

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content = {"/m/good.jar": CONTENT, "/m/bad.jar": b"the jaw"}.get(self.path)
            self.send_response(200 if content else 404)
            self.end_headers()
            self.wfile.write(content or b"")

        def log_message(self, *words: object) -> None:
            """Say nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/m"
        server.shutdown()
        thread.join()


def _artifact(folder: Path, name: str) -> Artifact:
    digest = hashlib.sha256(CONTENT).hexdigest()
    return Artifact(name, digest, len(CONTENT), str(folder / "cache" / name))


def test_files_are_fetched_once_and_only_with_their_digest(tmp_path: Path, repository: str) -> None:
    env = {REPOSITORY_VARIABLE: repository, "HOME": str(tmp_path)}
    told: list[str] = []
    good = _artifact(tmp_path, "good.jar")
    fetch_artifacts([good], told.append, env=env)
    assert Path(good.file).read_bytes() == CONTENT
    assert told == ["fetched 7 bytes of 7 bytes"]
    fetch_artifacts([good], told.append, env={"HOME": str(tmp_path)})
    assert len(told) == 1
    for name, why in (("bad.jar", "is not the pinned file"), ("none.jar", "it answered 404")):
        with pytest.raises(RigError, match=why):
            fetch_artifacts([_artifact(tmp_path, name)], told.append, env=env)
        assert [each.name for each in (tmp_path / "cache").iterdir()] == ["good.jar"]


def test_the_repository_is_that_of_the_environment(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "PATH": str(tmp_path)}
    with pytest.raises(RigError, match="no Maven repository is configured"):
        repository_of(env)
    with pytest.raises(RigError, match="is not an http"):
        repository_of({**env, REPOSITORY_VARIABLE: "file:///etc"})
    (tmp_path / ".m2").mkdir()
    (tmp_path / ".m2" / "settings.xml").write_text(
        "<settings><mirrors><mirror><mirrorOf>other</mirrorOf><url>http://127.0.0.1:1/a</url>"
        "</mirror><mirror><mirrorOf>*</mirrorOf><url>http://127.0.0.1:1/b/</url></mirror>"
        "</mirrors></settings>"
    )
    assert repository_of(env) == "http://127.0.0.1:1/b"


def test_without_java_one_sentence_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(MissingProgramError, match="needs Java 17 or newer") as problem:
        rig()
    assert "Install a Java runtime" in str(problem.value.next_step)


def test_every_jar_is_pinned_by_digest_and_none_names_a_host() -> None:
    pinned = artifacts()
    assert len(pinned) == 46
    assert all(len(each.sha256) == 64 and "://" not in each.path for each in pinned)
    assert len({each.file for each in pinned}) == len(pinned)
