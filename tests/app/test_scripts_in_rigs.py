"""What a script in a box may do in a rig, and that nothing of it holds outside of one."""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

import pytest

from operator_protocols.domain.action import Action, Argument, Result
from operator_protocols.domain.target import Target
from operator_protocols.domain.verdict import Level, Mode, Risk
from operator_protocols.ports import Job
from operator_sre.app.wiring import App
from operator_sre.app.wiring.controls import build_registry
from operator_sre.executor.tools.script import ExecuteScript
from operator_sre.gate import Policy, Profile
from operator_sre.gate.judge import judge
from operator_sre.subjects.ratelimiter import restore_limit
from operator_sre.subjects.ratelimiter.restore_limit import main
from tests.app.home import SUBJECTS, opened

NAME = ExecuteScript.spec.name
SCRIPT = Action(NAME, {"language": "bash", "text": "true"}, target="node-1")
KEY = "a/b?c #'\""


class Node(ThreadingHTTPServer):
    """Answers for limits as a node does; all of them have one store. A stubborn one keeps its."""

    limits: dict[str, int]
    stubborn = False

    @property
    def place(self) -> str:
        """Where it answers."""
        return f"127.0.0.1:{self.server_port}"


class _Api(BaseHTTPRequestHandler):
    server: Node

    def do_GET(self) -> None:
        key = unquote(self.path.removeprefix("/limits/"))
        body = json.dumps({"key": key, "limit": self.server.limits.get(key, 1)}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_PUT(self) -> None:
        said = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self.server.stubborn:
            self.server.limits[unquote(self.path.removeprefix("/limits/"))] = said["limit"]
        self.do_GET()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextmanager
def _nodes(limits: dict[str, int], count: int) -> Iterator[list[Node]]:
    nodes = [Node(("127.0.0.1", 0), _Api) for _ in range(count)]
    for node in nodes:
        node.limits = limits
        threading.Thread(target=node.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield nodes
    finally:
        for node in nodes:
            node.shutdown()
            node.server_close()


def _inputs(*nodes: Node) -> dict[str, str]:
    return {"key": KEY, "limit": "60", "nodes": " ".join(node.place for node in nodes)}


async def _boxed(app: App, target: Node, inputs: dict[str, str], *, rig: bool) -> Result:
    """The real script in a real box, where the only target is this node."""
    targets = (Target("node-1", "node", port=target.server_port),)
    tool = build_registry(app, app.programs, lambda: targets, (), rig=rig).get(NAME)
    assert tool is not None
    text = Path(restore_limit.__file__).read_text()
    arguments: dict[str, Argument] = {"language": "python", "text": text, "inputs": inputs}
    return await tool.call(arguments, Job(secrets.token_hex(8), 60.0))


@pytest.mark.asyncio
async def test_in_a_rig_it_reaches_the_targets_and_nothing_that_a_policy_lists(
    tmp_path: Path,
) -> None:
    limits = {KEY: 100_000}
    with _nodes(limits, 2) as (node, other):
        policy = tmp_path / "policy.yaml"
        policy.write_text(f"version: 1\negress: {{scripts: ['{other.place}']}}\n")
        with opened(tmp_path, policy=str(policy)) as app:
            away = await _boxed(app, node, _inputs(other), rig=True)
            assert not away.ok
            assert away.data["refused_hosts"] == other.place
            outside = await _boxed(app, node, _inputs(node), rig=False)
            assert outside.data["refused_hosts"] == node.place
            assert limits == {KEY: 100_000}
            repaired = await _boxed(app, node, _inputs(node), rig=True)
            assert repaired.ok, repaired.stderr
            assert limits == {KEY: 60}
            assert f"  {node.place}: 100000\n" in repaired.stdout
            assert repaired.stdout.endswith("is 60 at 1 nodes, it was 100000\n")


def test_the_script_inspects_before_and_after_and_says_when_it_is_not_repaired(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    limits = {KEY: 100_000}

    def run(*nodes: Node) -> tuple[int, str]:
        for name, value in _inputs(*nodes).items():
            (tmp_path / name).write_text(value)
        return main(str(tmp_path)), capsys.readouterr().out

    with _nodes(limits, 2) as (node, other):
        node.stubborn = True
        assert run(node, other)[0] == 1
        assert limits == {KEY: 100_000}
        node.stubborn = False
        code, said = run(node, other)
        assert (code, limits) == (0, {KEY: 60})
        assert said.count(": 100000\n") == said.count(": 60\n") == 2
        code, said = run(node, other)
        assert (code, "nothing was changed" in said) == (0, True)
    assert run(node, other)[0] == 1  # nobody answers


def test_it_runs_by_itself_at_the_targets_of_a_rig_only(tmp_path: Path) -> None:
    with opened(tmp_path) as app:
        specs = build_registry(app, app.programs, list, (), rig=True).specs
    lab = Policy(
        mode=Mode.EXECUTE,
        profile=Profile.LAB,
        tools=specs,
        boundary_tools=frozenset({NAME}),
        boundary_targets=frozenset({"node-1"}),
    )
    verdict = judge(SCRIPT, lab)
    assert (verdict.level, verdict.risk) == (Level.REVIEW, Risk.MEDIUM)
    assert lab.runs_by_itself(verdict)
    for target in ("", "elsewhere"):
        away = Action(NAME, SCRIPT.arguments, target=target)
        assert not lab.runs_by_itself(judge(away, lab)), target


def test_outside_of_a_rig_a_person_is_asked_as_ever(tmp_path: Path) -> None:
    with opened(tmp_path, SUBJECTS, mode="execute") as app:
        gate = app.controls("shop").gate
        verdict = gate.judge(SCRIPT)
        assert (verdict.level, verdict.risk) == (Level.REVIEW, Risk.CRITICAL)
        assert not gate.policy().runs_by_itself(verdict)
        assert not gate.policy().inside(SCRIPT)
        assert ExecuteScript.spec in app.controls("shop").registry.specs
