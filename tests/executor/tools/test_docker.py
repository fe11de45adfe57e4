"""Containers of a real engine are started, stopped, restarted, and told apart by their ids."""

from __future__ import annotations

import asyncio

import pytest

from operator_protocols.domain.action import Action, Outcome
from operator_protocols.domain.category import FailureCategory
from tests.engines.dockerd import Engine, private_engine
from tests.executor.tools.hands import Hands, hands_on

pytestmark = [pytest.mark.asyncio, pytest.mark.system]


def _on_term(deed: str) -> tuple[str, ...]:
    return ("sh", "-c", f"trap '{deed}' TERM; echo ready; while :; do sleep 0.05; done")


OBEYS, LEAVES_WELL, IGNORES = _on_term("exit 143"), _on_term("exit 0"), _on_term("")
TELLS = _on_term("echo told")


def _run(engine: Engine, argv: tuple[str, ...], *, name: str = "", **settings: object) -> str:
    """A container that is ready for signals: the first process ignores them before."""
    made = engine.run(*argv, name=name, **settings)
    engine.hear(made, "ready")
    return made


async def test_a_container_is_started_and_the_undo_stops_it(engine: Engine, hands: Hands) -> None:
    name = engine.name()
    made = engine.create(*OBEYS, name=name)
    result = await hands.do("docker_start", container=name)
    assert result.ok, result
    assert result.data == {"id": made, "changed": True, "status": "running"}
    assert engine.is_running(made)
    assert result.undo == Action("docker_stop", {"container": name, "id": made})
    undone = await hands.call(result.undo)
    assert undone.data["changed"] is True
    assert not engine.is_running(made)


async def test_starting_what_runs_changes_nothing(engine: Engine, hands: Hands) -> None:
    made = _run(engine, OBEYS)
    started = engine.inspect(made)["State"]["StartedAt"]
    result = await hands.do("docker_start", container=made)
    assert (result.ok, result.data["changed"], result.undo) == (True, False, None)
    assert engine.inspect(made)["State"]["StartedAt"] == started


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that is busy needs longer to end a program."""
    monkeypatch.setattr("operator_sre.executor.tools.docker.SETTLE_S", 15.0)


@pytest.mark.usefixtures("patient")
async def test_one_that_ends_at_once_is_a_failure(engine: Engine, hands: Hands) -> None:
    made = engine.create("sh", "-c", "exit 3")
    result = await hands.do("docker_start", container=made)
    assert (result.exit_code, result.data["exit_code"], result.undo) == (1, 3, None)
    assert "exit code 3" in result.stderr
    again = await hands.do("docker_restart", container=made)
    assert (again.exit_code, again.data["exit_code"]) == (1, 3)


@pytest.mark.usefixtures("patient")
async def test_one_whose_work_is_done_at_once_is_none(engine: Engine, hands: Hands) -> None:
    result = await hands.do("docker_start", container=engine.create("true"))
    assert (result.ok, result.data["status"], result.undo) == (True, "exited", None)


@pytest.mark.usefixtures("patient")
async def test_one_that_removes_itself_at_once_is_told_by_its_exit_code(
    engine: Engine, hands: Hands
) -> None:
    made = engine.create("sh", "-c", "exit 4", HostConfig={"AutoRemove": True})
    result = await hands.do("docker_start", container=made)
    assert (result.exit_code, result.data["status"] in ("removed", "exited", "removing")) == (
        1,
        True,
    )
    assert result.undo is None


@pytest.mark.usefixtures("patient")
async def test_one_that_is_started_over_and_over_is_a_failure(engine: Engine, hands: Hands) -> None:
    policy = {"RestartPolicy": {"Name": "always"}}
    result = await hands.do("docker_start", container=engine.create("false", HostConfig=policy))
    assert (result.exit_code, result.data["exit_code"]) == (1, 1)


async def test_what_cannot_be_started_is_told(engine: Engine, hands: Hands) -> None:
    made = engine.create("no-such-program")
    result = await hands.do("docker_start", container=made)
    assert (result.outcome, result.exit_code) == (Outcome.RAN, 1)
    assert "no-such-program" in result.stderr
    assert result.undo is None


@pytest.mark.parametrize(
    ("argv", "exit_code", "killed"),
    [(OBEYS, 143, False), (LEAVES_WELL, 0, False), (IGNORES, 137, True)],
    ids=["143", "0", "137"],
)
async def test_how_a_container_ended_is_told(
    engine: Engine, hands: Hands, argv: tuple[str, ...], exit_code: int, killed: bool
) -> None:
    name = engine.name()
    made = _run(engine, argv, name=name)
    result = await hands.do("docker_stop", container=name, grace_s=2)
    assert result.ok, result
    assert result.data["changed"] is True
    assert (result.data["exit_code"], result.data["killed"]) == (exit_code, killed)
    assert result.undo == Action("docker_start", {"container": name, "id": made})
    assert not engine.is_running(made)


async def test_stopping_what_does_not_run_changes_nothing(engine: Engine, hands: Hands) -> None:
    made = engine.create("true")
    result = await hands.do("docker_stop", container=made)
    assert (result.ok, result.data["changed"], result.undo) == (True, False, None)
    assert "there was nothing to do" in result.stdout


async def test_one_that_removes_itself_is_stopped_without_an_undo(
    engine: Engine, hands: Hands
) -> None:
    made = _run(engine, OBEYS, HostConfig={"AutoRemove": True})
    result = await hands.do("docker_stop", container=made, grace_s=2)
    assert result.ok, result
    assert result.data["changed"] is True


async def test_of_two_stops_at_once_one_changed_it(engine: Engine, hands: Hands) -> None:
    made = _run(engine, OBEYS)
    action = await hands.propose("docker_stop", container=made, grace_s=5)
    both = await asyncio.gather(hands.call(action), hands.call(action))
    assert [one.ok for one in both] == [True, True]
    assert sorted(bool(one.data["changed"]) for one in both) == [False, True]
    assert not engine.is_running(made)


async def test_two_stops_of_different_operators_both_succeed(engine: Engine, hands: Hands) -> None:
    made = _run(engine, OBEYS)
    action = await hands.propose("docker_stop", container=made, grace_s=5)
    both = await asyncio.gather(hands.call(action), hands_on(engine.socket).call(action))
    assert [one.ok for one in both] == [True, True]
    assert not engine.is_running(made)


async def test_a_restart_starts_it_anew(engine: Engine, hands: Hands) -> None:
    made = _run(engine, OBEYS)
    before = engine.inspect(made)["State"]["StartedAt"]
    result = await hands.do("docker_restart", container=made, grace_s=5)
    assert result.ok, result
    assert result.data["started_at"] == engine.inspect(made)["State"]["StartedAt"] != before
    assert result.undo is None


async def test_what_does_not_run_is_started_by_a_restart(engine: Engine, hands: Hands) -> None:
    made = engine.create(*OBEYS)
    assert (await hands.do("docker_restart", container=made, grace_s=5)).ok
    assert engine.is_running(made)


@pytest.mark.parametrize("tool", ["docker_stop", "docker_restart", "docker_start"])
async def test_another_container_under_the_same_name_is_refused(
    engine: Engine, hands: Hands, tool: str
) -> None:
    name = engine.name()
    first = _run(engine, OBEYS, name=name)
    action = await hands.propose(tool, container=name)
    assert action.arguments["id"] == first
    assert "id" in action.inferred
    engine.remove(first)
    second = _run(engine, OBEYS, name=name)
    started = engine.inspect(second)["State"]["StartedAt"]
    result = await hands.call(action)
    assert result.outcome is Outcome.REFUSED
    assert "another container by now" in result.stderr
    assert engine.is_running(second)
    assert engine.inspect(second)["State"]["StartedAt"] == started


async def test_a_change_that_was_not_bound_is_refused(engine: Engine, hands: Hands) -> None:
    made = _run(engine, OBEYS)
    result = await hands.bare("docker_stop", {"container": made})
    assert (result.outcome, engine.is_running(made)) == (Outcome.REFUSED, True)


async def test_there_is_no_such_container(engine: Engine, hands: Hands) -> None:
    for tool in ("docker_stop", "docker_inspect", "docker_logs"):
        result = await hands.do(tool, container="nobody-at-home")
        assert (result.exit_code, result.category) == (1, FailureCategory.NOT_FOUND), tool
        assert "nobody-at-home" in result.stderr


async def test_an_engine_that_dies_amid_a_stop_leaves_it_unknown(
    pytestconfig: pytest.Config,
) -> None:
    engine = private_engine(pytestconfig)
    try:
        hands = hands_on(engine.socket)
        made = _run(engine, TELLS)
        action = await hands.propose("docker_stop", container=made, grace_s=60)
        stopping = asyncio.create_task(hands.call(action))
        await asyncio.to_thread(engine.hear, made, "told")
        engine.kill()
        result = await stopping
        assert result.outcome is Outcome.UNKNOWN, result
        assert result.data["error_category"] == "docker_unavailable"
        assert "not known" in result.stderr
        away = await hands.call(action)
        assert (away.outcome, away.exit_code) == (Outcome.RAN, 1)
        assert away.data["next_action"] == "start_docker"
    finally:
        engine.end()


async def test_one_that_is_paused_is_not_taken_for_one_that_runs(
    engine: Engine, hands: Hands
) -> None:
    made = _run(engine, OBEYS)
    engine.ask("POST", f"/containers/{made}/pause")
    started = await hands.do("docker_start", container=made)
    assert (started.exit_code, started.undo) == (1, None)
    assert "paused" in started.stderr
    stopped = await hands.do("docker_stop", container=made, grace_s=2)
    assert (stopped.ok, stopped.data["changed"]) == (True, True), stopped
    assert not engine.is_running(made)
