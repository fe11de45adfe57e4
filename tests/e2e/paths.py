"""One real path to every failure and to every advice, each walked in a home of its own."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from operator_protocols.domain.action import Action
from operator_protocols.domain.entry import Kind
from operator_protocols.domain.run import Answer, Ask, Escalate, Finish
from operator_sre.app.confirmations import cross
from operator_sre.app.project import init_project
from operator_sre.app.restraints import switch_on
from operator_sre.app.tickets import handoff_asked
from operator_sre.engine.local import LocalEngine
from tests.app.answering import FOUND, Shopkeeper, shopkeeper
from tests.app.home import SUBJECTS
from tests.contract.servers import unused_port
from tests.contract.workshop import Endless
from tests.e2e.home import Home, Json
from tests.e2e.warm import Warm
from tests.faces.receiver.world import listening

__all__ = ["PATHS", "Place"]

GIVE_UP = Answer("enough", (Escalate("I cannot go on."),))
LOOK = Answer("look", (Action.shell("true"),))
SCRIPTS = "version: 1\napproval: {critical: auto, high: auto}\n"
SECRET = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a path is walked: a folder with a home, and a person at a terminal in it."""

    home: Home
    patch: pytest.MonkeyPatch

    @classmethod
    def at(cls, folder: Path, warm: Warm, patch: pytest.MonkeyPatch) -> Place:
        """A new one."""
        return cls(Home(folder, warm), patch)

    def run(self, *turns: Answer, **settings: str) -> str:
        """Break a node and have it worked on by a mind that takes these turns; the run's id."""
        with shopkeeper(self.home.cwd, self.patch, *turns, **settings) as keeper:
            return asyncio.run(keeper.carry())

    def failure(self, *turns: Answer, **settings: str) -> Json:
        """The same, and why that run failed, as the command tells it."""
        return self.explained(self.run(*turns, **settings))

    def explained(self, run: str) -> Json:
        """Why a run failed; its summary says the same."""
        told = self.home.ask("explain-failure", run)
        summary = self.home.ask("summarize", run)
        assert (summary["status"], summary["exit_code"]) == ("failed", 1)
        assert summary["error_category"] == told["error_category"]
        assert self.home.ask("next-action", run)["next_action"] == told["next_action"]
        return told

    def project(self, toml: str = "") -> Path:
        """A project as `operator init` makes it, with these settings."""
        folder = self.home.cwd / "project"
        init_project(folder)
        (folder / "operator.toml").write_text(toml)
        return folder

    def issue(self, folder: Path) -> Json:
        """The one problem of a project."""
        done = self.home.run("validate", str(folder), "--json")
        assert (done.code, done.json["ready"]) == (1, False), done
        (issue,) = done.json["issues"]
        return dict(issue)

    def error(self, *words: str, **environ: str) -> Json:
        """How a command fails."""
        done = self.home.run(*words, "--json", **environ)
        assert done.code == 1, done
        return dict(done.json["error"])


def denied_by_the_policy(place: Place) -> Json:
    """A mind wants what is blocked."""
    return place.failure(
        Answer("act", (FOUND, Action.shell("rm -rf /"), Escalate("It is forbidden.")))
    )


def out_of_turns(place: Place) -> Json:
    """A mind looks until its budget is used up."""
    return place.failure(LOOK, LOOK, policy="version: 1\nbudgets: {turns_max: 1}\n")


def without_docker(place: Place) -> Json:
    """A mind asks an engine of Docker that does not answer."""
    look = Action("docker_inspect", {"container": "web"})
    with unused_port() as port:
        place.patch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{port}")
        return place.failure(Answer("look", (look,)), GIVE_UP)


def script_without_network(place: Place) -> Json:
    """A script reaches for a host from its box."""
    connect = "import socket\ntry:\n    socket.create_connection(('192.0.2.1', 80), 5)\n"
    text = f"{connect}except OSError as error:\n    raise SystemExit(str(error))\n"
    return place.failure(_script(text), policy=SCRIPTS)


def script_with_secret(place: Place) -> Json:
    """A script holds a token in plain text."""
    told = place.failure(_script(f"token = '{SECRET}'\nprint(len(token))"), policy=SCRIPTS)
    assert SECRET not in str(told)
    return told


def project_with_secret(place: Place) -> Json:
    """A project that holds a token is packed."""
    folder = place.project()
    (folder / "notes.md").write_text(f"token: {SECRET}\n")
    told = place.error("pack", str(folder))
    assert SECRET not in str(told)
    assert place.issue(folder)["category"] == told["category"]
    return told


def _script(text: str) -> Answer:
    action = Action("execute_script", {"language": "python", "text": text})
    return Answer("act", (FOUND, action, Escalate("The script does not help.")))


class _Broken:
    """A mind with a mistake in it."""

    name = "broken"

    async def answer(self, ask: Ask) -> Answer:
        raise ZeroDivisionError("a mistake, password=hunter2")


def mind_with_a_mistake(place: Place) -> Json:
    """A mind raises, as often as it is asked."""
    place.patch.setattr("operator_sre.engine.local.BACK_OFF_S", 0.0)

    async def work(keeper: Shopkeeper) -> str:
        engine = _minded(keeper, _Broken())
        run = await keeper.carry(engine)
        while await engine.work_once():
            pass
        return run

    with shopkeeper(place.home.cwd, place.patch) as keeper:
        told = place.explained(asyncio.run(work(keeper)))
    assert "ZeroDivisionError" in told["root_cause"]
    assert "hunter2" not in str(told)
    return told


def _minded(keeper: Shopkeeper, mind: _Broken | Endless) -> LocalEngine:
    engine = keeper.app.engine()
    return replace(engine, pipeline=replace(engine.pipeline, model=mind))


def worker_lost(place: Place) -> Json:
    """Workers are killed while they think, and give nothing back."""

    async def work(keeper: Shopkeeper) -> None:
        await keeper.break_one()
        for _ in range(3):
            ticket = await keeper.app.store.leases.claim(
                "w", run="run-lost", lease_s=0.0, attempts_max=3, ticket=0, subjects=None
            )
            assert ticket is not None
            mind = Endless()
            task = asyncio.ensure_future(_minded(keeper, mind).pipeline.work(ticket))
            await mind.begun.wait()
            task.cancel()
            await asyncio.wait([task])
        assert not await keeper.app.engine().work_once()

    with shopkeeper(place.home.cwd, place.patch) as keeper:
        asyncio.run(work(keeper))
    return place.explained("run-lost")


def plugin_missing(place: Place) -> Json:
    """A project names a plug-in that nobody has installed."""
    return place.issue(place.project('[subjects.ghost]\nplugin = "nobody-has-this"\n'))


def secret_not_bound(place: Place) -> Json:
    """A target's token is kept under a name, and nobody has set it."""
    access = '[subjects.shop.targets.access]\ntoken_file = "secret:shop-token"\n'
    return place.issue(place.project(SUBJECTS + access))


def policy_without_sense(place: Place) -> Json:
    """A policy has a section that does not exist."""
    folder = place.project()
    (folder / "policy.yaml").write_text("version: 1\nsfae: []\n")
    return place.issue(folder)


def bundle_tampered_with(place: Place) -> Json:
    """A packed project is changed on its way, and one that is installed is changed there."""
    folder, file = place.project(), place.home.cwd / "shop.operator"
    assert place.home.run("pack", str(folder), "-o", str(file)).code == 0
    there = place.home.cwd / "there"
    assert place.home.run("install", str(file), "--to", str(there)).code == 0
    (there / "policy.yaml").write_text("version: 1\n# not what was signed\n")
    issue = place.issue(there)
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    told = place.error("install", str(file), "--to", str(place.home.cwd / "elsewhere"))
    assert not (place.home.cwd / "elsewhere").exists()
    assert (issue["category"], issue["next_action"]) == (told["category"], told["next_action"])
    return told


def collector_gone(place: Place) -> Json:
    """Traces are sent to an endpoint where nobody listens."""
    with unused_port() as port:
        url = f"http://127.0.0.1:{port}"
        issue = place.issue(place.project(f'otlp_endpoint = "{url}"\n'))
        told = place.error("telemetry", "test", OPERATOR_OTLP_ENDPOINT=url)
    assert (issue["category"], issue["next_action"]) == (told["category"], told["next_action"])
    return told


def alert_of_a_stranger(place: Place) -> Json:
    """An alert is posted with a token that is not ours."""
    (place.home.cwd / "token").write_text("right")
    toml = f'[triggers.pager]\nkind = "alertmanager"\ntoken_file = "{place.home.cwd / "token"}"\n'

    async def post(keeper: Shopkeeper) -> Json:
        async with listening(keeper.app) as client:
            headers = {"authorization": "Bearer wrong"}
            answer = await client.post("/alerts/pager", json={}, headers=headers)
        assert answer.status_code == 401
        return dict(answer.json()["error"])

    with shopkeeper(place.home.cwd, place.patch, toml=toml) as keeper:
        told = asyncio.run(post(keeper))
    found = place.home.ask("next-action")
    assert found["next_action"] == told["next_action"]
    (ref,) = found["evidence_refs"]
    (entry,) = place.home.entries(Kind.TRIGGER_REFUSED)
    assert (ref["type"], ref["ref"]) == ("audit_seq", str(entry.seq))
    return told


def proven(place: Place) -> Json:
    """It came back, and that was proven."""

    async def work(keeper: Shopkeeper) -> str:
        await keeper.break_one()
        keeper.down.clear()
        assert await keeper.app.engine().work_once()
        return keeper.newest()

    turns = (LOOK, Answer("over", (Finish("It came back."),)))
    with shopkeeper(place.home.cwd, place.patch, *turns) as keeper:
        return place.home.ask("next-action", asyncio.run(work(keeper)))


def escalated(place: Place) -> Json:
    """A mind gives up in order."""
    return place.home.ask("next-action", place.run(GIVE_UP))


def stopped(place: Place) -> Json:
    """A person turns the kill switch on while a mind thinks."""

    async def work(keeper: Shopkeeper) -> str:
        async with _thinking(keeper) as run:
            await switch_on(keeper.app, reason="enough")
        return run

    with shopkeeper(place.home.cwd, place.patch) as keeper:
        run = asyncio.run(work(keeper))
    assert place.home.ask("summarize", run)["status"] == "stopped"
    return place.home.ask("next-action", run)


@contextlib.asynccontextmanager
async def _thinking(keeper: Shopkeeper) -> AsyncIterator[str]:
    """A run whose mind thinks, and which has ended when this is over."""
    await keeper.break_one()
    mind = Endless()
    work = asyncio.ensure_future(_minded(keeper, mind).work_once())
    await mind.begun.wait()
    yield keeper.newest()
    await work


def handoff_asked_for(place: Place) -> Json:
    """A ticket shall be given to others, and nobody has said yes yet."""
    place.run(GIVE_UP)
    line = ("tickets", "handoff", "1", "--to", "network team", "--why", "their switch")
    asked = place.home.run(*line, "--json")
    assert asked.code == 4, asked
    told = place.home.ask("next-action")
    assert told["confirmation"]["confirmation_id"] == asked.json["confirmation_id"]
    return told


def handed_off(place: Place) -> Json:
    """A ticket was given to others after a mind gave up."""
    run = place.run(GIVE_UP)
    line = ("tickets", "handoff", "1", "--to", "network team", "--why", "their switch")
    assert place.home.run(*line, "--yes").code == 0
    told = place.home.ask("next-action", run)
    (entry,) = place.home.entries(Kind.TICKET_HANDED_OFF)
    assert str(entry.seq) in [one["ref"] for one in told["evidence_refs"]]
    return told


def taken_from_a_mind(place: Place) -> Json:
    """A ticket was given to others while a mind was thinking about it."""

    async def work(keeper: Shopkeeper) -> str:
        app = keeper.app
        async with _thinking(keeper) as run:
            asked = handoff_asked(app, 1, to="network team", why="their switch")
            await cross(app, asked, sure=True)
        return run

    with shopkeeper(place.home.cwd, place.patch) as keeper:
        run = asyncio.run(work(keeper))
    assert place.home.ask("summarize", run)["status"] == "stopped"
    return place.home.ask("next-action", run)


def declined(place: Place) -> Json:
    """A person said no to a change of the policy."""
    line = ("recommend-patch", "allow host api.example.com", "--json")
    asked = place.home.run(*line).json["confirmation"]["confirmation_id"]
    assert place.home.ask("next-action")["next_action"] == "review_policy_patch"
    assert place.home.run("confirmations", "decline", asked, "--reason", "no").code in (0, 3)
    return place.home.ask("next-action")


def handoff_declined(place: Place) -> Json:
    """A person said no to giving a ticket away, after its run had ended."""
    run = place.run(GIVE_UP)
    line = ("tickets", "handoff", "1", "--to", "network team", "--why", "their switch", "--json")
    asked = place.home.run(*line).json["confirmation_id"]
    assert place.home.run("confirmations", "decline", asked, "--reason", "ours").code in (0, 3)
    told = place.home.ask("next-action", run)
    assert asked in told["rationale"]
    return told


# What happens -> the category it has, if it is a failure, and the one thing to do about it.
PATHS: dict[Callable[[Place], Json], tuple[str, str]] = {
    plugin_missing: ("dependency_conflict", "install_dependency"),
    without_docker: ("docker_unavailable", "start_docker"),
    denied_by_the_policy: ("policy_denied", "review_policy_patch"),
    secret_not_bound: ("missing_secret_binding", "set_secret"),
    out_of_turns: ("budget_exceeded", "increase_budget"),
    alert_of_a_stranger: ("trigger_auth_failed", "set_secret"),
    worker_lost: ("harness_health_failed", "rerun"),
    mind_with_a_mistake: ("agent_runtime_exception", "fix_code"),
    policy_without_sense: ("policy_validation_failed", "fix_code"),
    script_without_network: ("network_sandbox_failed", "review_policy_patch"),
    script_with_secret: ("secret_scan_failed", "fix_code"),
    project_with_secret: ("secret_scan_failed", "fix_code"),
    bundle_tampered_with: ("package_verification_failed", "ask_user"),
    collector_gone: ("dashboard_unavailable", "rerun"),
    proven: ("", "export_audit"),
    escalated: ("", "ask_user"),
    stopped: ("", "rerun"),
    handoff_asked_for: ("", "review_handoff"),
    handed_off: ("", "review_handoff"),
    taken_from_a_mind: ("", "review_handoff"),
    declined: ("", "fix_code"),
    handoff_declined: ("", "ask_user"),
}
