"""Who thinks in a home: chosen, paid for, spoken for, asked for real, and written down."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from operator_protocols.domain.entry import Draft, Kind
from operator_protocols.domain.run import Answer, Ask, Budget, Escalate, Finish, Spent
from operator_protocols.errors import ConfigError, NotFoundError, UsageError
from operator_sre.agent.transcript import answer_from, answer_payload
from operator_sre.app.models import (
    ModelView,
    Tried,
    is_offline,
    list_models,
    mind_of,
    over_budget,
    script_of,
    small_question,
    summaries_of,
    summary_model,
    thinking_model,
    transcript_of,
    try_model,
)
from operator_sre.app.wiring import App
from operator_sre.models.patience import Fallback
from operator_sre.models.reasoner import Reasoner
from tests.app.home import opened
from tests.contract.samples import run_started, ticket
from tests.models.wire.server import WireServer, serving
from tests.models.wire.words import claude, claude_error, openai, tool
from tests.models.world import briefing

KEY = "sk-ant-never-show-me"
ASK = Ask(briefing(), (), Budget())


@pytest.fixture(scope="module")
def server() -> Iterator[WireServer]:
    with serving() as wire:
        yield wire


@pytest.fixture
def wire(server: WireServer) -> WireServer:
    server.forget()
    return server


def _claude(wire: WireServer, folder: Path, *, more: str = "") -> str:
    (folder / "key").write_text(f"{KEY}\n")
    return f"""
model = "remote"
{more}
[models.remote]
provider = "anthropic"
model = "claude-test"
base_url = "{wire.address}"
key_file = "key"
prices = {{ input = 1000, output = 10000 }}
"""


def test_claude_thinks_where_its_key_is_and_the_reasoner_elsewhere(tmp_path: Path) -> None:
    with opened(tmp_path) as app:
        assert (thinking_model(app.config), summary_model(app.config)) == ("reasoner", "rule")
        assert isinstance(mind_of(app), Reasoner)
        assert app.engine().pipeline.model.name == "reasoner"
    with opened(tmp_path, anthropic_api_key=KEY) as app:
        assert (thinking_model(app.config), summary_model(app.config)) == ("claude", "haiku")
        assert isinstance(mind_of(app), Fallback)
        assert app.engine().pipeline.model.name == "claude"
        assert app.engine().pipeline.summaries is not None


def test_whoever_chooses_the_reasoner_pays_nothing(tmp_path: Path) -> None:
    with opened(tmp_path, anthropic_api_key=KEY, model="reasoner") as app:
        assert summary_model(app.config) == "rule"
        summaries_of(app)
    with opened(tmp_path, anthropic_api_key=KEY, model="reasoner", summary_model="haiku") as app:
        assert summary_model(app.config) == "haiku"


def test_the_list_says_what_there_is_and_never_a_key(tmp_path: Path, wire: WireServer) -> None:
    toml = _claude(wire, tmp_path)
    with opened(tmp_path, toml, summary_model="remote") as app:
        views = {one.name: one for one in list_models(app)}
    assert list(views) == ["reasoner", "claude", "haiku", "remote"]
    assert views["remote"] == ModelView(
        name="remote",
        provider="anthropic",
        model="claude-test",
        host=wire.address.removeprefix("http://"),
        key="set",
        prices={"input": 1000.0, "output": 10000.0, "cached_input": None},
        today=Spent(),
        use="thinks, summarises",
    )
    assert (views["claude"].key, views["reasoner"].key) == ("not set", "not needed")
    assert KEY not in repr(views)


async def _pay(app: App, spent: Spent) -> None:
    await app.store.journal.append(run_started(ticket(run="run-1")))
    payload = answer_payload(Answer("so", (), spent))
    await app.store.journal.append(Draft(Kind.REASONING, payload, run="run-1"))


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"usd_per_day": "0.5"}, "0.5 USD"),
        ({"tokens_per_day": "150"}, "150 tokens"),
        ({"usd_per_day": "0.75", "tokens_per_day": "500"}, ""),
    ],
)
async def test_a_day_has_a_budget_over_all_runs(
    tmp_path: Path, settings: dict[str, str], words: str
) -> None:
    with opened(tmp_path, **settings) as app:
        assert over_budget(app) == ""
        await _pay(app, Spent(100, 50, 0.5))
        assert words in over_budget(app)
        assert bool(over_budget(app)) == bool(words)


@pytest.mark.asyncio
async def test_when_the_budget_of_the_day_is_gone_the_reasoner_goes_on(
    tmp_path: Path, wire: WireServer
) -> None:
    wire.say(claude("I give up.", tool("escalate", reason="x"), tokens=(100, 20)))
    with opened(tmp_path, _claude(wire, tmp_path, more="usd_per_day = 0.2")) as app:
        mind = mind_of(app)
        first = await mind.answer(ASK)
        assert (first.calls, first.by) == ((Escalate("x"),), "")
        assert first.spent.usd == pytest.approx(0.3)
        await _pay(app, first.spent)
        second = await mind.answer(ASK)
        assert isinstance(mind, Fallback)
        await mind.close()
    assert second.by == "reasoner"
    assert "the daily budget is used up (0.2 USD" in second.note
    assert second.calls
    assert len(wire.heard) == 1


@pytest.mark.asyncio
async def test_without_a_key_the_reasoner_speaks_and_says_why(tmp_path: Path) -> None:
    with opened(tmp_path, model="claude") as app:
        answer = await mind_of(app).answer(ASK)
    assert answer.by == "reasoner"
    assert "no key is set" in answer.note
    assert "ANTHROPIC_API_KEY" in answer.note


@pytest.mark.asyncio
async def test_a_key_file_that_cannot_be_read_keeps_nobody_from_working(
    tmp_path: Path, wire: WireServer
) -> None:
    toml = _claude(wire, tmp_path)
    (tmp_path / "key").unlink()
    with opened(tmp_path, toml, summary_model="remote") as app:
        summaries_of(app)
        answer = await mind_of(app).answer(ASK)
        (view,) = [one for one in list_models(app) if one.name == "remote"]
    assert "cannot be read" in answer.note
    assert view.key == "not set"
    assert wire.heard == []


@pytest.mark.asyncio
async def test_a_model_is_tried_with_one_small_question(tmp_path: Path, wire: WireServer) -> None:
    wire.say(claude("", tool("finish", summary="ready"), tokens=(100, 20)))
    with opened(tmp_path, _claude(wire, tmp_path)) as app:
        tried = await try_model(app, "remote")
        paid = app.store.spending.on(app.clock.now())
        (listed,) = [one for one in list_models(app) if one.name == "remote"]
    assert paid == {"remote": tried.spent}
    assert tried.spent.usd > 0
    assert listed.today == tried.spent
    assert (tried.name, tried.tools, tried.problem) == ("remote", True, "")
    assert (tried.spent.tokens_in, tried.spent.tokens_out) == (100, 20)
    assert tried.seconds > 0
    (heard,) = wire.heard
    assert any(KEY in value for value in heard.headers.values())
    assert {one["name"] for one in heard.body["tools"]} >= {"finish", "escalate"}


@pytest.mark.asyncio
async def test_a_model_that_cannot_do_the_work_says_why(tmp_path: Path, wire: WireServer) -> None:
    with opened(tmp_path, _claude(wire, tmp_path)) as app:
        wire.say(claude_error(401, "authentication_error", "invalid x-api-key"))
        refused = await try_model(app, "remote")
        wire.say(claude("I am a poet."))
        poet = await try_model(app, "remote")
        missing = await try_model(app, "claude")
    assert not refused.tools
    assert refused.problem
    assert KEY not in refused.problem
    assert "did not call a tool" in poet.problem
    assert "no key is set" in missing.problem
    assert Tried("x").spent == Spent()


@pytest.mark.asyncio
async def test_a_local_model_needs_no_key(tmp_path: Path, wire: WireServer) -> None:
    toml = f"""
[models.local]
provider = "openai-compatible"
model = "small"
base_url = "{wire.address}/v1"
"""
    wire.say(openai("", tool("finish", summary="ready")))
    with opened(tmp_path, toml) as app:
        tried = await try_model(app, "local")
    assert (tried.tools, tried.problem, tried.spent.usd) == (True, "", 0.0)


@pytest.mark.asyncio
async def test_what_is_not_there_cannot_be_tried(tmp_path: Path) -> None:
    with opened(tmp_path) as app:
        with pytest.raises(NotFoundError, match="reasoner, claude, haiku"):
            await try_model(app, "gpt")
        assert (await try_model(app, "reasoner")).tools
    assert small_question(ASK.briefing.observation.at).briefing.tools == ()
    with pytest.raises(ConfigError), opened(tmp_path, model="gpt"):
        pass


ANSWERS = (
    Answer("first", (Finish("done"),), Spent(3, 4, 0.25)),
    Answer("second", (Escalate("no"),), by="reasoner", note="why"),
)


@pytest.mark.asyncio
async def test_what_a_mind_said_can_be_replayed(tmp_path: Path) -> None:
    with opened(tmp_path) as app:
        await app.store.journal.append(run_started(ticket(run="run-1")))
        for answer in ANSWERS:
            draft = Draft(Kind.REASONING, answer_payload(answer), run="run-1")
            await app.store.journal.append(draft)
        told = transcript_of(app, "run-1")
        assert [answer_from(one) for one in told] == list(ANSWERS)
        with pytest.raises(NotFoundError, match="operator audit list"):
            transcript_of(app, "run-2")
    script = tmp_path / "script.json"
    script.write_text(script_of(told))
    assert json.loads(script.read_text()) == told
    with opened(tmp_path, f'model = "scripted:{script.name}"') as app:
        mind = mind_of(app)
        assert (mind.name, await mind.answer(ASK)) == ("scripted", ANSWERS[0])
        assert summary_model(app.config) == "rule"
        assert (await try_model(app, f"scripted:{script}")).tools


@pytest.mark.parametrize(("content", "words"), [(None, "cannot be read"), ("{", "cannot be read")])
def test_a_script_that_is_none_is_told_in_a_sentence(
    tmp_path: Path, content: str | None, words: str
) -> None:
    script = tmp_path / "script.json"
    if content is not None:
        script.write_text(content)
    home = opened(tmp_path, model=f"scripted:{script}")
    with home as app, pytest.raises(UsageError, match=words):
        mind_of(app)


def test_what_needs_neither_key_nor_network_is_known_by_its_name() -> None:
    offline = ("reasoner", "restart-everything", "random", "random:7", "scripted:said.json")
    assert all(is_offline(name) for name in offline)
    assert not any(is_offline(name) for name in ("claude", "local", "reasonable", "rule"))
