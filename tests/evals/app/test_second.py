"""A configured model gives a second opinion once, and what it said then counts ever after."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from operator_evals.app.views import Opinions, analysis_of, claims_of, load_campaign, opinions_on
from operator_evals.database import open_database
from operator_evals.opinions import Completion, Memory
from operator_protocols.errors import NotFoundError, UsageError
from operator_sre.app.models import completion_of, model_id, over_budget
from operator_sre.app.wiring import App
from operator_sre.codec import to_json
from tests.app.home import opened
from tests.evals.samples import CAMPAIGN, fill
from tests.models.wire.server import Heard, Reply, WireServer, serving
from tests.models.wire.words import claude, claude_error, openai

KEY = "sk-ant-never-show-me"


@pytest.fixture(scope="module")
def server() -> Iterator[WireServer]:
    with serving() as wire:
        yield wire


@pytest.fixture
def wire(server: WireServer) -> WireServer:
    server.forget()
    server.answer = lambda heard: claude(_answer(heard), tokens=(100, 2))
    return server


def _answer(heard: Heard) -> str:
    """Whoever restarts destroys, and whoever blames a dependency is right: both are odd."""
    told = json.dumps(heard.body)
    return "Yes." if "restart target" in told or "dependency_down" in told else "no"


def _minds(wire: WireServer, folder: Path, *, model: str = "claude-test", more: str = "") -> str:
    (folder / "key").write_text(f"{KEY}\n")
    return f"""
{more}
[models.judge]
provider = "anthropic"
model = "{model}"
base_url = "{wire.address}"
key_file = "key"
prices = {{ input = 1000, output = 10000 }}
[models.other]
provider = "openai-compatible"
model = "gpt-test"
base_url = "{wire.address}/v1"
key_file = "key"
prices = {{ input = 1, output = 1 }}
"""


def _asked(app: App, database: Path, model: str = "judge") -> Opinions:
    return asyncio.run(opinions_on(app, database, None, model))


def _text(found: object) -> str:
    return json.dumps(to_json(found), sort_keys=True)


def test_each_question_is_asked_and_paid_for_once_and_changes_no_score(
    tmp_path: Path, wire: WireServer
) -> None:
    database = tmp_path / "eval.db"
    fill(database)
    before = analysis_of(database, None)
    with opened(tmp_path, _minds(wire, tmp_path)) as app:
        first = _asked(app, database)
        questions = len(wire.heard)
        paid = app.store.spending.on(app.clock.now())["judge"]
        again = _asked(app, database)
        assert app.store.spending.on(app.clock.now())["judge"] == paid
    assert (first.by, first.problem) == ("judge (anthropic/claude-test)", "")
    assert len(wire.heard) == questions == len({str(one.body) for one in wire.heard})
    assert _text(again) == _text(first)  # to the last byte, what it has cost as well
    assert first.spent == paid
    assert paid.tokens == 102 * questions
    # The gate and the facts say otherwise, and both words are kept.
    by_model = {one.text: (one.by_gate, one.by_model, one.differ) for one in first.opinions}
    assert by_model["restart target=shop-1"] == (False, True, True)
    assert by_model["systemctl status shop-1 --no-pager | tail -n 20"] == (False, False, False)
    assert "rm -rf /var/lib/shop-1" not in by_model  # it never ran
    causes = {one.key: one for one in first.causes}
    assert {one.differ for one in causes.values()} == {True}
    assert not any("/none/" in key or "nothing" in key for key in causes)
    assert analysis_of(database, None) == before
    told = json.dumps([one.body for one in wire.heard])
    assert "till_kill" in told  # what was done, by its name where its plug-in is not here
    assert KEY not in told


def test_another_model_under_the_same_name_is_asked_anew(tmp_path: Path, wire: WireServer) -> None:
    database = tmp_path / "eval.db"
    fill(database)
    with opened(tmp_path, _minds(wire, tmp_path)) as app:
        _asked(app, database)
        questions = len(wire.heard)
        wire.answer = lambda heard: openai("no", tokens=(50, 1))
        other = _asked(app, database, "other")
        assert other.problem == ""
        assert len(wire.heard) == 2 * questions
    assert other.by == "other (openai-compatible/gpt-test)"
    assert {one.by_model for one in other.opinions} == {False}
    wire.answer = lambda heard: claude("yes")
    with opened(tmp_path, _minds(wire, tmp_path, model="claude-next")) as app:
        assert model_id(app.config, "judge") == "anthropic/claude-next"
        newer = _asked(app, database)
    assert {one.by_model for one in newer.opinions} == {True}


def test_what_fails_goes_on_where_it_stopped_and_nothing_is_spent_beyond_the_day(
    tmp_path: Path, wire: WireServer
) -> None:
    database = tmp_path / "eval.db"
    fill(database)
    wire.say(claude("no", tokens=(100, 2)), claude_error(401, "authentication_error"))
    with opened(tmp_path, _minds(wire, tmp_path)) as app:
        failed = _asked(app, database)
        assert failed.problem
        assert [one.by_model for one in failed.opinions][:2] == [False, None]
        stopped = len(wire.heard)
        whole = _asked(app, database)
        assert whole.problem == ""
        asked = len(wire.heard) - stopped
    # One answer costs 0.12 dollars, so that two are more than may be spent.
    poor = tmp_path / "poor"
    poor.mkdir()
    fill(poor / "eval.db")
    wire.heard.clear()
    with opened(poor, _minds(wire, poor, more="usd_per_day = 0.2")) as app:
        found = _asked(app, poor / "eval.db")
        assert "daily budget is used up" in found.problem
        assert len(wire.heard) == 2 < asked
        assert over_budget(app)  # it was written down
        kept = _asked(app, poor / "eval.db")
        assert [one.by_model for one in kept.opinions] == [one.by_model for one in found.opinions]


def test_who_has_no_key_or_is_no_model_says_so_and_what_was_said_is_still_there(
    tmp_path: Path, wire: WireServer
) -> None:
    database = tmp_path / "eval.db"
    fill(database)
    with opened(tmp_path, _minds(wire, tmp_path)) as app:
        first = _asked(app, database)
        with pytest.raises(UsageError, match="not a language model"):
            _asked(app, database, "reasoner")
        with pytest.raises(NotFoundError, match="no model 'nobody'"):
            _asked(app, database, "nobody")
    minds = _minds(wire, tmp_path)
    (tmp_path / "key").unlink()
    with opened(tmp_path, minds) as app:
        assert _text(_asked(app, database)) == _text(first)
        fill(tmp_path / "new.db")
        silent = _asked(app, tmp_path / "new.db")
        assert silent.problem
        assert {one.by_model for one in silent.opinions} == {None}

        async def completes() -> bool:
            async with completion_of(app, "judge") as model:
                return isinstance(model, Completion)

        assert asyncio.run(completes())


def test_claims_are_the_last_words_of_faults_that_count(tmp_path: Path) -> None:
    database = tmp_path / "eval.db"
    fill(database)
    _, trials = load_campaign(database, CAMPAIGN.name)
    claims = claims_of(trials)
    assert {one.by_facts for one in claims} == {True, False}
    assert all(len(one.said) == 1 for one in claims)
    wordless = [replace(one, facts=replace(one.facts, diagnoses=())) for one in trials]
    assert claims_of(wordless) == []


def test_answers_lie_beside_the_facts_word_for_word(tmp_path: Path, wire: WireServer) -> None:
    database = tmp_path / "eval.db"
    fill(database)
    wire.answer = lambda heard: _odd()
    with opened(tmp_path, _minds(wire, tmp_path)) as app:
        found = _asked(app, database)
    assert {one.by_model for one in found.opinions} == {None}
    with open_database(database) as facts:
        assert isinstance(facts, Memory)
        assert facts.find_answer("anthropic/claude-test", "never asked") is None
    connection = sqlite3.connect(database)
    said: list[Any] = connection.execute("SELECT DISTINCT said FROM opinions").fetchall()
    connection.close()
    assert said == [("It depends.",)]


def _odd() -> Reply:
    return claude("It depends.", tokens=(1, 1))
