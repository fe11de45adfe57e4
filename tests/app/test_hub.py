"""The hub: agents ask, anybody serves, and each hears of its own actions only."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from operator_protocols.domain.action import Action, Outcome
from operator_protocols.domain.permit import ApprovalState
from operator_protocols.domain.workflow import WorkflowState
from operator_protocols.errors import AuthorityError, NotFoundError, UsageError
from operator_sre.app.hub import (
    ActionResult,
    Agent,
    Hub,
    Message,
    MessageKind,
    PendingAction,
)
from operator_sre.app.persons import acting_as, signed_in
from operator_sre.app.wiring import App
from operator_sre.gate import PERSON
from tests.app.home import opened
from tests.contract.postgres import database_in
from tests.contract.stores import URL
from tests.e2e.warm import start_module

pytestmark = pytest.mark.asyncio
PLANNER, CODER, TESTER = Agent("planner", "planner"), Agent("coder", "coder"), Agent("tester")
AGENTS = (PLANNER, CODER, TESTER)
ENDED = MessageKind.RESULT


@dataclass(frozen=True, slots=True)
class Place:
    """A folder with a home, and the store that it uses."""

    folder: Path
    store: str

    @contextmanager
    def app(self, mode: str = "approve") -> Iterator[App]:
        flags = {"store": self.store} if self.store else {}
        with opened(self.folder, mode=mode, **flags) as app:
            yield app


@pytest.fixture(params=["postgresql", "sqlite"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """A home on each kind of database."""
    kind = str(request.param)
    with database_in(kind, tmp_path, request.config):
        url = (tmp_path / URL).read_text() if kind == "postgresql" else ""
        yield Place(tmp_path, url)


@asynccontextmanager
async def _serving(hub: Hub) -> AsyncIterator[None]:
    served = asyncio.ensure_future(hub.serve())
    try:
        yield
    finally:
        served.cancel()
        await asyncio.wait({served})


async def _heard(hub: Hub, agent: str, *, results: int = 1, after: int = 0) -> list[Message]:
    found: list[Message] = []
    async with asyncio.timeout(40.0), aclosing(hub.subscribe(agent, after=after)) as messages:
        async for message in messages:
            found.append(message)
            if sum(one.kind is ENDED for one in found) == results:
                break
    return found


def _kinds(messages: list[Message]) -> list[MessageKind]:
    """Without what was heard live, which not every process hears."""
    return [one.kind for one in messages if one.seq]


async def test_an_action_is_told_from_its_request_to_its_result(place: Place) -> None:
    with place.app() as app:
        hub = Hub(app)
        async with _serving(hub):
            action = await hub.request_system_action(PLANNER, Action.shell("echo hi; exit 3"))
            told = await _heard(hub, "planner")
        assert _kinds(told) == [
            *(MessageKind.REQUEST, MessageKind.START, MessageKind.OUTPUT, MessageKind.COMPLETE),
            MessageKind.RESULT,
        ]
        assert {(one.action, one.agent) for one in told} == {(action, "planner")}
        result = hub.get_action_result(action, "planner")
        assert isinstance(result, ActionResult)
        assert result.state is WorkflowState.FAILED
        assert result.result is not None
        assert (result.result.exit_code, result.result.stdout) == (3, "hi\n")


async def test_three_agents_at_once_each_get_their_own(place: Place) -> None:
    with place.app() as app, place.app() as elsewhere:
        hub, other = Hub(app), Hub(elsewhere)
        async with _serving(hub), _serving(other):
            asked = {
                (agent.name, number): await hub.request_system_action(
                    agent, Action.shell(f"echo {agent.name} {number}")
                )
                for number in (1, 2)
                for agent in AGENTS
            }
            heard = await asyncio.gather(
                *(_heard(other, agent.name, results=2) for agent in AGENTS)
            )
            everything = await _heard(other, "", results=6)
        for agent, told in zip(AGENTS, heard, strict=True):
            mine = {action for (name, _), action in asked.items() if name == agent.name}
            assert {one.action for one in told} == mine
            said = [one.text for one in told if one.kind is MessageKind.OUTPUT and one.seq]
            assert sorted(said) == [f"{agent.name} 1\n", f"{agent.name} 2\n"]
        assert {one.agent for one in everything} == {agent.name for agent in AGENTS}
        for (name, number), action in asked.items():
            mine_only = hub.get_action_result(action, name)
            assert mine_only.result is not None
            assert mine_only.result.stdout == f"{name} {number}\n"
            for agent in AGENTS:
                if agent.name != name:
                    with pytest.raises(NotFoundError, match="of this agent"):
                        hub.get_action_result(action, agent.name)
        assert hub.get_pending_actions() == []


async def test_another_process_serves_and_a_person_answers_here(place: Place) -> None:
    made = place.folder / "made"
    server = start_module("tests.app.hub_process", str(place.folder), place.store)
    try:
        assert server.stdout is not None
        assert server.stdout.readline() == "ready\n"
        with place.app() as app:
            hub = Hub(app)
            looks = [
                await hub.request_system_action(agent, Action.shell(f"echo {agent.name}"))
                for agent in AGENTS
            ]
            change = await hub.request_system_action(CODER, Action.shell(f"mkdir {made}"))
            waits = await _waiting(hub, change)
            assert isinstance(waits, PendingAction)
            assert (waits.agent, waits.what.command) == (CODER, f"mkdir {made}")
            answered = await hub.approve_action(change, by="ada", reason="fine")
            assert answered.state is ApprovalState.APPROVED
            told = await asyncio.gather(
                _heard(hub, "planner"), _heard(hub, "coder", results=2), _heard(hub, "tester")
            )
            needed = [one for one in told[1] if one.kind is MessageKind.APPROVAL_NEEDED]
            assert [one.approval for one in needed] == [answered.id]
            states = {
                action: hub.get_action_result(action, agent.name).state
                for action, agent in zip([*looks, change], [*AGENTS, CODER], strict=True)
            }
            assert set(states.values()) == {WorkflowState.COMPLETED}
        assert made.is_dir()
    finally:
        server.terminate()
        server.wait(20)
        for pipe in (server.stdin, server.stdout):
            assert pipe is not None
            pipe.close()


async def _waiting(hub: Hub, action: str) -> PendingAction:
    async with asyncio.timeout(40.0):
        while True:
            for one in hub.get_pending_actions("coder"):
                if one.action == action and one.approval is not None:
                    return one
            await hub.app.clock.sleep(0.02)


async def test_a_no_is_told_as_denied(tmp_path: Path) -> None:
    with opened(tmp_path, mode="approve") as app:
        hub = Hub(app)
        async with _serving(hub):
            action = await hub.request_system_action(CODER, Action.shell(f"mkdir {tmp_path}/no"))
            await _waiting(hub, action)
            await hub.approve_action(action, by="ada", reason="not now", approved=False)
            told = await _heard(hub, "coder")
        assert _kinds(told) == [
            *(MessageKind.REQUEST, MessageKind.APPROVAL_NEEDED, MessageKind.DENIED),
            MessageKind.RESULT,
        ]
        assert "not now" in told[-2].text
        result = hub.get_action_result(action, "coder").result
        assert result is not None
        assert result.outcome is Outcome.REFUSED
        with pytest.raises(NotFoundError, match="does not require approval"):
            await hub.approve_action(action, by="ada")


async def test_output_is_heard_while_it_comes(tmp_path: Path) -> None:
    """It waits for a file that is made only when its first line was heard."""
    go = tmp_path / "go"
    line = f"echo first; while ! test -e {go}; do sleep 0.05; done; echo second"
    (tmp_path / "home").mkdir()
    auto = "version: 1\napproval: {low: auto, medium: auto}\n"
    (tmp_path / "home" / "policy.yaml").write_text(auto)
    with opened(tmp_path, mode="execute") as app:
        hub = Hub(app)
        heard: list[str] = []
        async with _serving(hub), asyncio.timeout(40.0):
            await hub.request_system_action(PLANNER, Action.shell(line))
            async with aclosing(hub.subscribe("planner")) as messages:
                async for message in messages:
                    if message.kind is MessageKind.OUTPUT and not message.seq:
                        heard.append(message.text)
                        go.touch()
                    if message.kind is ENDED:
                        break
        assert "".join(heard) == "first\nsecond\n"


async def test_whoever_comes_later_hears_what_came_behind_an_entry(tmp_path: Path) -> None:
    with opened(tmp_path) as app:
        hub = Hub(app)
        async with _serving(hub):
            first = await hub.request_system_action(PLANNER, Action.shell("echo 1"))
            told = await _heard(hub, "planner")
            second = await hub.request_system_action(PLANNER, Action.shell("echo 2"))
            later = await _heard(hub, "planner", after=told[-1].seq)
        assert {one.action for one in told} == {first}
        assert {one.action for one in later} == {second}


async def test_not_everybody_may_approve_and_not_every_name_is_one(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    roles = f"version: 1\nroles: {{ada: admin, bob: viewer, {signed_in()}: approver}}\n"
    (tmp_path / "home" / "policy.yaml").write_text(roles)
    with opened(tmp_path, mode="approve") as app:
        hub = Hub(app)
        async with _serving(hub):
            action = await hub.request_system_action(CODER, Action.shell(f"mkdir {tmp_path}/x"))
            await _waiting(hub, action)
            with pytest.raises(AuthorityError, match="viewer"):
                await hub.approve_action(action, by="bob")
            await hub.approve_action(action, by="ada")
            await _heard(hub, "coder")
        for name in ("", "a b", "x" * 65, "a/b"):
            with pytest.raises(UsageError, match="not a valid agent"):
                await hub.request_system_action(Agent(name), Action.shell("ls"))
        with pytest.raises(UsageError, match="which is for people"):
            await hub.request_system_action(Agent("eve", PERSON), Action.shell("ls"))


async def test_who_may_have_nothing_changed_has_no_agent_ask_for_it(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    roles = f"version: 1\nroles: {{ada: admin, vera: viewer, {signed_in()}: approver}}\n"
    (tmp_path / "home" / "policy.yaml").write_text(roles)
    with opened(tmp_path, mode="approve") as app:
        hub = Hub(app)
        for person, role in (("vera", "admin"), ("ada", "viewer")):
            with acting_as(person, role=role), pytest.raises(AuthorityError, match="viewer"):
                await hub.request_system_action(Agent(person, "api"), Action.shell("uptime"))
        assert not app.store.workflows.find()
        with acting_as("ada", role="approver"):
            made = await hub.request_system_action(Agent("ada", "api"), Action.shell("uptime"))
        assert [one.id for one in app.store.workflows.find()] == [made]
        (tmp_path / "home" / "policy.yaml").write_text("version: 1\nroles: {ada: admin}\n")
    with opened(tmp_path, mode="approve") as app, pytest.raises(AuthorityError, match="viewer"):
        await Hub(app).request_system_action(PLANNER, Action.shell("uptime"))
