"""What the Docker tools say of themselves, and what they answer without an engine."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from operator_protocols.domain.action import Argument, Outcome
from operator_protocols.domain.category import FailureCategory
from operator_protocols.domain.verdict import Risk
from operator_protocols.ports import Job
from operator_sre.executor.tools.docker import (
    DockerExec,
    DockerRestart,
    DockerStart,
    DockerStop,
    docker_tools,
)
from operator_sre.executor.tools.docker_networks import NetworkConnect, NetworkDisconnect
from operator_sre.executor.tools.docker_state import DockerInspect, DockerLogs
from operator_sre.executor.tools.docker_tool import DockerTool, Locks, is_name
from tests.executor.docker.impostor import ID, answer, description, endless, listening, says
from tests.executor.tools.hands import hands_on

# Name, risk, whether it changes something, may be tried again, and what takes it back.
TABLE = [
    (DockerInspect, "docker_inspect", Risk.LOW, False, True, ""),
    (DockerLogs, "docker_logs", Risk.LOW, False, True, ""),
    (DockerStart, "docker_start", Risk.MEDIUM, True, True, "docker_stop"),
    (NetworkConnect, "docker_network_connect", Risk.MEDIUM, True, True,
     "docker_network_disconnect"),
    (NetworkDisconnect, "docker_network_disconnect", Risk.MEDIUM, True, True,
     "docker_network_connect"),
    (DockerStop, "docker_stop", Risk.HIGH, True, True, "docker_start"),
    (DockerRestart, "docker_restart", Risk.HIGH, True, False, ""),
    (DockerExec, "docker_exec", Risk.HIGH, True, False, ""),
]  # fmt: skip
BAD_NAMES = [
    "../x",
    "a/b",
    "-f",
    "a b",
    "a;id",
    "$(id)",
    "a\n",
    "a?x=1",
    "a%2fb",
    "é",
    "",
    "x" * 200,
]
MORE: dict[str, dict[str, Argument]] = {
    "docker_exec": {"argv": ("id",)},
    "docker_network_connect": {"network": "net", "network_id": "n"},
    "docker_network_disconnect": {"network": "net", "network_id": "n"},
}
NAMES = [row[1] for row in TABLE]


@pytest.mark.parametrize(("kind", "name", "risk", "changes", "idempotent", "undo"), TABLE)
def test_what_each_says_of_itself(
    kind: type[DockerTool], name: str, risk: Risk, changes: bool, idempotent: bool, undo: str
) -> None:
    spec = kind.spec
    assert (spec.name, spec.risk, spec.changes) == (name, risk, changes)
    assert (spec.idempotent, spec.undo, spec.reversible) == (idempotent, undo, bool(undo))
    assert spec.sentence.endswith(".")
    assert not changes or (spec.expected and spec.verify)
    assert not changes or spec.parameter("id") is not None


def test_all_of_them_are_there() -> None:
    assert [tool.spec.name for tool in docker_tools()] == NAMES


def test_a_lock_is_shared_and_forgotten() -> None:
    locks = Locks()
    held = locks.of("a")
    assert locks.of("a") is held
    assert locks.of("b") is not held


@pytest.mark.parametrize("name", BAD_NAMES)
def test_what_is_no_name(name: str) -> None:
    assert not is_name(name)


@pytest.mark.asyncio
@pytest.mark.parametrize("tool", NAMES)
@pytest.mark.parametrize("name", BAD_NAMES)
async def test_no_name_reaches_the_engine_that_docker_would_not_give(
    tool: str, name: str, tmp_path: Path
) -> None:
    hands = hands_on(str(tmp_path / "none.sock"))
    result = await hands.bare(tool, {"container": name, "id": ID, **MORE.get(tool, {})})
    assert (result.exit_code, result.category) == (2, FailureCategory.SYNTAX)
    assert result.data.get("error_category") is None


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("tool", "more"),
    [
        ("docker_network_connect", {"network": "a/../b"}),
        ("docker_network_connect", {"network": "net", "alias": "a b"}),
        ("docker_network_disconnect", {"network": "net", "force": "yes"}),
        ("docker_stop", {"grace_s": True}),
        ("docker_stop", {"grace_s": 0}),
        ("docker_logs", {"tail": 0}),
        ("docker_logs", {"tail": 10_001}),
        ("docker_logs", {"follow": True}),
        ("docker_exec", {"argv": "id"}),
        ("docker_exec", {"argv": ()}),
    ],
)
async def test_arguments_that_make_no_sense(
    tool: str, more: dict[str, Argument], tmp_path: Path
) -> None:
    hands = hands_on(str(tmp_path / "none.sock"))
    result = await hands.bare(tool, {"container": "web", "id": ID, **more})
    assert (result.exit_code, result.category) == (2, FailureCategory.SYNTAX), result


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "more",
    [
        {"argv": ("",)},
        {"argv": ("a\0b",)},
        {"argv": ("x" * 200_000,)},
        {"argv": ("id",), "user": "root;id"},
        {"argv": ("id",), "user": "-x"},
        {"argv": ("id",), "workdir": "relative"},
    ],
)
async def test_programs_that_make_no_sense(more: dict[str, Argument]) -> None:
    async with listening(says(answer(description()))) as path:
        result = await hands_on(path).bare("docker_exec", {"container": "web", "id": ID, **more})
    assert (result.exit_code, result.category) == (2, FailureCategory.SYNTAX), result


@pytest.mark.asyncio
@pytest.mark.parametrize("tool", NAMES)
async def test_without_an_engine_the_next_step_is_told(tool: str, tmp_path: Path) -> None:
    hands = hands_on(str(tmp_path / "none.sock"))
    action = await hands.propose(tool, container="web", **MORE.get(tool, {}))
    assert "id" not in action.arguments
    result = await hands.call(action)
    assert (result.outcome, result.exit_code) == (Outcome.RAN, 1)
    assert result.category is FailureCategory.NETWORK
    assert result.data == {"error_category": "docker_unavailable", "next_action": "start_docker"}
    assert result.stderr.endswith("Start Docker and check it with: docker info")


@pytest.mark.asyncio
@pytest.mark.parametrize("tool", NAMES)
@pytest.mark.parametrize(
    "said",
    [b"\0" * 100, answer(b"{}"), answer(b'{"Id":"../x","Name":"","State":{},"Config":{}}')],
    ids=["noise", "empty", "id"],
)
async def test_what_is_no_engine_is_a_result(tool: str, said: bytes) -> None:
    async with listening(says(said)) as path:
        arguments = {"container": "web", "id": ID, **MORE.get(tool, {})}
        result = await hands_on(path).bare(tool, arguments)
    assert not result.ok
    assert result.data["error_category"] == "docker_unavailable"


@pytest.mark.asyncio
async def test_logs_without_an_end_are_cut() -> None:
    line = b"\x01\0\0\0" + (65_000).to_bytes(4, "big") + b"y" * 64_999 + b"\n"
    chunk = f"{len(line):x}\r\n".encode() + line + b"\r\n"
    pour = endless(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", chunk)

    async def script(request: str, writer: asyncio.StreamWriter) -> None:
        is_look = "/json" in request
        await (says(answer(description())) if is_look else pour)(request, writer)

    async with listening(script) as path:
        result = await hands_on(path).bare(
            "docker_logs", {"container": "web"}, job=Job(timeout_s=30.0)
        )
    assert (result.ok, result.truncated) == (True, True), result
    assert len(result.stdout) < 300_000
