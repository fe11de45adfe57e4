"""Commands of a description, really run: probes that only look, and levers that do something."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from operator_protocols.domain.action import Action, Argument, Outcome, Result
from operator_protocols.domain.health import Health
from operator_protocols.domain.observation import Trouble
from operator_protocols.domain.target import Target
from operator_protocols.domain.tool import ToolSource
from operator_protocols.domain.verdict import Level, Risk
from operator_protocols.ports import Job, Preparing, Shell, Tool
from operator_sre.executor.docker import Address
from operator_sre.executor.docker import Engine as Client
from operator_sre.executor.execute import Recovering
from operator_sre.executor.jobs import Spool
from operator_sre.executor.programs import Programs
from operator_sre.executor.tools.parameters import Invalid
from operator_sre.executor.tools.registry import Registry
from operator_sre.executor.transports.local import LocalShell
from operator_sre.executor.transports.shells import Remotes, Shells
from operator_sre.executor.transports.ssh import SshSettings
from operator_sre.subjects.declarative.commands import Command, Placing
from tests.engines.dockerd import Engine, docker_engine
from tests.executor.jobs import new_job
from tests.executor.transports.sshd import Sshd, serving_ssh
from tests.executor.transports.stand_in_kubectl import POD, stand_in_kubectl
from tests.subjects.declarative.trying import Tried, described, judge

pytestmark = pytest.mark.asyncio


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return LocalShell(Programs(Spool(tmp_path / "spool")))


def probing(folder: Path, probe: str, holds: str, shell: Shell | None) -> Tried:
    text = f"""\
name: a
targets: {{t: {{kind: k, port: 77}}}}
probes: {{it: {{command: {probe}}}}}
invariants: {{i: {{holds: "{holds}"}}}}
"""
    return described(folder, text, commands=shell, timeout_s=10.0)


async def test_what_a_command_says_becomes_values(tmp_path: Path, shell: Shell) -> None:
    (tmp_path / "n").write_text("17\n")
    tried = probing(tmp_path, "{run: [cat, n]}", "it.number < 20", shell)
    readings = (await tried.seen()).readings
    assert (readings["it.exit_code"], readings["it.number"], readings["it.stdout"]) == (0, 17, "17")
    assert await tried.health() is Health.HEALTHY
    (tmp_path / "n").write_text('{"queue": {"depth": 9}}')
    tried = probing(tmp_path, "{run: [cat, n], read: {depth: queue.depth}}", "it.depth > 9", shell)
    assert (await tried.seen()).readings["it.depth"] == 9
    assert await tried.health() is Health.BROKEN


async def test_an_exit_code_decides_whether_it_is_well(tmp_path: Path, shell: Shell) -> None:
    tried = probing(tmp_path, "{run: cat missing}", "it.ok", shell)
    readings = (await tried.seen()).readings
    assert (readings["it.up"], readings["it.ok"], readings["it.exit_code"]) == (True, False, 1)
    assert "No such file" in str(readings["it.error"])
    tried = probing(tmp_path, "{run: cat missing, expect: {exit: [0, 1]}}", "it.ok", shell)
    assert await tried.health() is Health.HEALTHY
    (tmp_path / "n").write_text("load 0.5")
    probe = "{run: [cat, n], expect: {stdout: 'load (?P<load>[0-9.]+)'}}"
    tried = probing(tmp_path, probe, "it.load < 0.6", shell)
    assert await tried.health() is Health.HEALTHY


async def test_only_what_is_harmless_or_reviewed_runs(tmp_path: Path, shell: Shell) -> None:
    script = tmp_path / "look.sh"
    script.write_text(f"touch {tmp_path}/ran; echo 3\n")
    assert judge(Action.program(["sh", "look.sh"])).level is Level.REVIEW
    tried = probing(tmp_path, "{run: [sh, look.sh]}", "it.number < 5", shell)
    seen = await tried.seen()
    assert "add 'reviewed: true' if it changes nothing" in seen.problem
    assert not (tmp_path / "ran").exists()
    assert await tried.health() is Health.UNKNOWN
    tried = probing(tmp_path, "{run: [sh, look.sh], reviewed: true}", "it.number < 5", shell)
    assert await tried.health() is Health.HEALTHY
    assert (tmp_path / "ran").exists()


async def test_what_the_gate_blocks_is_not_run_whoever_reviewed_it(
    tmp_path: Path, shell: Shell
) -> None:
    assert judge(Action.shell("rm -rf /")).level is Level.BLOCKED
    tried = probing(tmp_path, "{run: rm -rf /, reviewed: true}", "it.ok", _Untouched())
    assert "the gate blocks" in (await tried.seen()).problem


async def test_without_a_judge_only_what_was_reviewed_runs(tmp_path: Path, shell: Shell) -> None:
    tried = probing(tmp_path, "{run: [cat, /dev/null]}", "it.ok", shell)
    tried.judge = None
    assert "no gate is available" in (await tried.seen()).problem
    tried = probing(tmp_path, "{run: [cat, /dev/null]}", "it.ok", None)
    assert "commands cannot be run here" in (await tried.seen()).problem


async def test_a_command_that_hangs_is_ended_and_shows_nothing(
    tmp_path: Path, shell: Shell
) -> None:
    tried = probing(tmp_path, "{run: [sleep, '60'], reviewed: true}", "it.ok", shell)
    tried.timeout_s = 0.4
    seen = await tried.seen()
    assert "took too long" in seen.problem
    assert seen.trouble is Trouble.NOTHING, "the reason lies on this side"
    assert await tried.health() is Health.UNKNOWN


async def test_blanks_fill_words_and_never_a_line() -> None:
    target = Target("web-1", "web", host="h", port=81)
    made = Command(("x", "{target}", "--at={host}:{port}", "{n}", "a{n}"), cwd="/srv")
    action = made.action(target, {"n": "$(id) {host}"})
    assert action.argv == ("x", "web-1", "--at=h:81", "$(id) {host}", "a{n}")
    assert (action.target, action.cwd) == ("web-1", "/srv")
    assert made.action(Target("a", "b", runs_at="ssh://u@h")).cwd == "/"


class _Untouched:
    """A shell that must not be asked."""

    async def run(self, action: Action, job: Job) -> Result:
        raise AssertionError(action)

    async def recover(self, action: Action, job: Job) -> Result:
        raise AssertionError(action)


LEVERS = """\
name: a
targets:
  web-1: {kind: web, port: 81}
  db: {kind: database, port: 82}
probes: {port: {tcp: }}
invariants: {i: {holds: port.up}}
levers:
  restart:
    on: web
    says: Start it anew
    command: [sh, restart.sh, "{target}", "{port}"]
    risk: low
    ends: [process_dead]
    undo: stop
    reversible: true
    timeout: 5s
  stop: {on: web, command: "echo stopped >> done"}
  scale:
    command: [sh, scale.sh, "{how}", "{count}"]
    risk: high
    parameters:
      how: {choices: [up, down]}
      count: {type: integer, minimum: 1, maximum: 9, default: 2}
  label:
    command: [sh, scale.sh, "{text}"]
    parameters: {text: {}}
  wipe: {command: "rm -rf /", risk: low}
"""


def levers(folder: Path, shell: Shell | None) -> dict[str, Tool]:
    (folder / "restart.sh").write_text('echo "$@" >> done\n')
    (folder / "scale.sh").write_text('printf "[%s]" "$@"\n')
    tools = described(folder, LEVERS, commands=shell).tools
    return {tool.spec.name: tool for tool in tools}


async def test_a_lever_is_a_typed_tool_that_says_what_it_runs(tmp_path: Path) -> None:
    tools = levers(tmp_path, None)
    assert set(tools) == {"restart_node", "stop", "scale", "label", "wipe"}
    spec = tools["restart_node"].spec
    assert spec.sentence == "Start it anew."
    assert spec.expected == "It runs `sh restart.sh '{target}' '{port}'`."
    restart = tools["restart_node"]
    assert isinstance(restart, Preparing)
    prepared = await restart.prepare({"target": "web-1"})
    assert prepared.expected == "It runs `sh restart.sh web-1 81`."
    assert (spec.risk, spec.changes, spec.reversible) == (Risk.LOW, True, True)
    assert (spec.ends, spec.undo, spec.timeout_s) == (("process_dead",), "stop", 5.0)
    assert spec.source is ToolSource.SUBJECT
    target = spec.parameter("target")
    assert target is not None
    assert target.infers == "target"
    assert tools["scale"].spec.risk is Risk.HIGH
    for tool in tools.values():
        assert isinstance(tool, Preparing)
        assert isinstance(tool, Recovering)


async def test_a_lever_is_pulled_at_its_target_only(tmp_path: Path, shell: Shell) -> None:
    restart = levers(tmp_path, shell)["restart_node"]
    result = await restart.call({"target": "web-1"}, new_job(10.0))
    assert result.ok, result
    assert (tmp_path / "done").read_text() == "web-1 81\n"
    assert result.stdout == "restart ran at web-1"
    for target in ("db", "nobody", "web-1; touch x", None):
        result = await restart.call({"target": target}, new_job())
        assert result.exit_code == 2
        assert "web-1" in result.stderr
    assert (tmp_path / "done").read_text() == "web-1 81\n"
    stop = levers(tmp_path, shell)["stop"]
    assert (await stop.call({"target": "web-1"}, new_job(10.0))).ok
    assert "stopped" in (tmp_path / "done").read_text()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"how": "up", "count": 3}, "[up][3]"),
        ({"how": "down"}, "[down][2]"),
        ({"how": "sideways", "count": 3}, ""),
        ({"how": "up", "count": 10}, ""),
        ({"how": "up", "count": "3; id"}, ""),
        ({"how": "up", "count": True}, ""),
        ({"count": 3}, ""),
        ({"how": "up", "more": 1}, ""),
    ],
)
async def test_parameters_are_whole_words_of_their_type(
    tmp_path: Path, shell: Shell, arguments: Mapping[str, Argument], said: str
) -> None:
    scale = levers(tmp_path, shell)["scale"]
    result = await scale.call({"target": "db", **arguments}, new_job(10.0))
    assert result.stdout == said
    assert result.exit_code == (0 if said else 2)


@pytest.mark.parametrize("text", ["$(touch ran)", "a b", "; touch ran", "`touch ran`", "é|&>"])
async def test_a_text_is_one_word_whatever_is_in_it(
    tmp_path: Path, shell: Shell, text: str
) -> None:
    label = levers(tmp_path, shell)["label"]
    result = await label.call({"target": "db", "text": text}, new_job(10.0))
    assert result.stdout == f"[{text}]"
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("text", ["-rf", "--force", "", "a\nb", "\x1b[2J", "x" * 300])
async def test_a_text_is_no_option_and_nothing_hidden(tmp_path: Path, text: str) -> None:
    label = levers(tmp_path, _Untouched())["label"]
    assert (await label.call({"target": "db", "text": text}, new_job())).exit_code == 2


async def test_a_lever_that_the_gate_blocks_is_never_asked_about(tmp_path: Path) -> None:
    tools = levers(tmp_path, _Untouched())
    result = await tools["wipe"].call({"target": "db"}, new_job())
    assert result.outcome is Outcome.REFUSED
    registry = Registry(tools.values())
    found = await registry.propose(Action("wipe", {"target": "db"}))
    assert isinstance(found, Invalid)
    assert "the gate blocks" in found.sentence
    fine = await registry.propose(Action("stop", {"target": "web-1"}, target="web-1"))
    assert isinstance(fine, Action)


async def test_what_became_of_a_lever_can_be_asked_later(tmp_path: Path, shell: Shell) -> None:
    restart = levers(tmp_path, shell)["restart_node"]
    assert isinstance(restart, Recovering)
    job = new_job(10.0)
    await restart.call({"target": "web-1"}, job)
    again = await restart.recover({"target": "web-1"}, job)
    assert again.exit_code == 0
    assert (tmp_path / "done").read_text() == "web-1 81\n", "it is not done again"
    assert (await restart.recover({"target": "x"}, job)).outcome is Outcome.UNKNOWN
    blind = levers(tmp_path, None)["restart_node"]
    assert (await blind.call({"target": "web-1"}, job)).exit_code == 2
    assert isinstance(blind, Recovering)
    assert (await blind.recover({"target": "web-1"}, job)).outcome is Outcome.UNKNOWN


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with serving_ssh(tmp_path_factory.mktemp("sshd")) as one:
        yield one


def _host(request: pytest.FixtureRequest, folder: Path) -> tuple[str, dict[str, Any]]:
    sshd: Sshd = request.getfixturevalue("sshd")
    return sshd.address, {"ssh": SshSettings(known_hosts=sshd.known_hosts, keys=(sshd.key,))}


def _container(request: pytest.FixtureRequest, folder: Path) -> tuple[str, dict[str, Any]]:
    engine = Engine(docker_engine(request.config).socket)
    request.addfinalizer(engine.clean)
    binds = {"Binds": [f"{folder}:{folder}"], "Init": False}
    made = engine.run("sleep", "3600", HostConfig=binds)
    return f"docker://{made}", {"engine": Client(Address(socket=engine.socket))}


def _pod(request: pytest.FixtureRequest, folder: Path) -> tuple[str, dict[str, Any]]:
    """Without a cluster; the stand-in is told as such."""
    kubectl = stand_in_kubectl(folder / "bin", request.getfixturevalue("sshd"))
    return str(POD), {"kubectl": kubectl}


PLACES = {"docker": _container, "kubectl-stand-in": _pod, "ssh": _host}


_IN_DOCKER = pytest.param("docker", marks=pytest.mark.system)


@pytest_asyncio.fixture(params=[*sorted(set(PLACES) - {"docker"}), _IN_DOCKER])
async def remote(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Tried]:
    """A description whose only target runs its commands somewhere else."""
    spool = Spool(tmp_path / "spool")
    programs = Programs(spool)
    address, reached = PLACES[request.param](request, tmp_path)
    text = f"""\
name: a
targets: {{t: {{kind: k, runs_at: "{address}"}}}}
probes: {{it: {{command: {{run: "echo ${{OPERATOR_JOB:+elsewhere}}", reviewed: true}}}}}}
invariants: {{i: {{holds: it.stdout == 'elsewhere'}}}}
levers: {{note: {{command: [touch, "{tmp_path}/{{target}}"]}}}}
"""
    tried = described(tmp_path, text, timeout_s=10.0)
    shells = Shells(
        LocalShell(programs), lambda: tried.targets, Remotes(programs, spool, **reached)
    )
    assert isinstance(shells, Placing)
    tried.commands = shells
    yield tried
    await shells.aclose()


async def test_probes_and_levers_run_where_the_target_runs(remote: Tried, tmp_path: Path) -> None:
    assert await remote.health() is Health.HEALTHY
    (note,) = remote.tools
    result = await note.call({"target": "t"}, new_job(10.0))
    assert result.ok, result
    assert (tmp_path / "t").exists()
