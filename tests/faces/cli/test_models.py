"""`operator models`, and what other commands say of who thought."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from operator_protocols.domain.action import Action
from operator_protocols.domain.entry import Draft, Kind
from operator_protocols.domain.run import Answer, Escalate, Spent
from operator_sre.agent.transcript import answer_from, answer_payload
from operator_sre.clock import SystemClock
from operator_sre.store import open_store
from tests.contract.samples import run_finished, run_started, ticket, violation
from tests.e2e.home import Home
from tests.faces.cli.sentences import Bad, one_sentence
from tests.models.wire.server import serving
from tests.models.wire.words import claude, claude_error, tool

KEY = "sk-ant-never-show-me"
LONG = "The first sentence. The second one. " + "And so on and on. " * 30
NOTE = "claude does not answer: no key is set."
ANSWERS = (
    Answer(LONG, (Action.shell("true"),), Spent(1000, 50, 0.25)),
    Answer("a second", (Action.shell("true"),), by="reasoner", note=NOTE),
    Answer("a third", (Escalate("no"),), by="reasoner", note=NOTE),
)


async def _live(home: Home) -> None:
    """One run, of which a model spoke once and the reasoner twice."""
    home.path.mkdir(parents=True, exist_ok=True)
    store = open_store(home.path / "operator.db", clock=SystemClock())
    await store.tickets.open([violation()])
    held = ticket(run="run-1")
    await store.journal.append(run_started(held))
    for answer in ANSWERS:
        told = Draft(Kind.REASONING, answer_payload(answer), ticket=1, run="run-1")
        entry = await store.journal.append(told)
        text = "In short: so." if answer.reasoning == LONG else answer.reasoning
        short = {"of": entry.seq, "text": text, "by": "rule"}
        await store.journal.append(Draft(Kind.SUMMARY, short, ticket=1, run="run-1"))
    await store.journal.append(run_finished(held))
    store.close()


@pytest.fixture
def thought(home: Home) -> Home:
    asyncio.run(_live(home))
    return home


def test_models_are_listed_without_their_keys(thought: Home) -> None:
    done = thought.run("models", "list", ANTHROPIC_API_KEY=KEY)
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[0].split()[:5] == ["NAME", "PROVIDER", "MODEL", "HOST", "KEY"]
    assert any(line.startswith("claude ") and " set " in line for line in lines)
    models = {one["name"]: one for one in thought.ask("models", "list")["models"]}
    assert models["claude"]["key"] == "not set"
    assert models["reasoner"]["use"] == "thinks"
    assert KEY not in done.out


def test_a_home_that_is_not_there_is_not_made_by_a_list(home: Home) -> None:
    assert home.ask("models", "list")["models"]
    assert not home.path.exists()


def test_what_was_spent_today_is_in_the_list(home: Home) -> None:
    toml = '[models.reasoner-2]\nprovider = "anthropic"\nmodel = "claude-opus-5"\n'
    (home.cwd / "operator.toml").write_text(toml)

    async def spend() -> None:
        home.path.mkdir()
        store = open_store(home.path / "operator.db", clock=SystemClock())
        answer = Answer("so", (), Spent(1000, 50, 0.25), by="reasoner-2")
        await store.journal.append(Draft(Kind.REASONING, answer_payload(answer)))
        store.close()

    asyncio.run(spend())
    (one,) = [one for one in home.ask("models", "list")["models"] if one["name"] == "reasoner-2"]
    assert one["today"] == {"tokens_in": 1000, "tokens_out": 50, "usd": 0.25}
    assert one["prices"] == {"input": 5.0, "output": 25.0, "cached_input": 0.5}
    assert "1,050 tokens, $0.25" in home.run("models", "list").out


def test_a_model_is_asked_for_real(home: Home) -> None:
    with serving() as wire:
        (home.cwd / "operator.toml").write_text(
            f'[models.remote]\nprovider = "anthropic"\nmodel = "m"\nkey_env = "K"\n'
            f'base_url = "{wire.address}"\n'
        )
        wire.say(claude("", tool("finish", summary="ready"), tokens=(100, 20)))
        good = home.run("models", "test", "remote", K=KEY)
        wire.say(claude_error(401, "authentication_error", f"invalid key {KEY}"))
        bad = home.run("models", "test", "remote", "--json", K=KEY)
    assert good.code == 0, good
    assert "100 tokens in, 20 out" in good.out
    assert "tools work" in good.out
    assert bad.code == 1
    assert bad.json["tried"]["problem"]
    assert KEY not in good.out + good.err + bad.out + bad.err


def test_who_thinks_is_tried_when_nobody_is_named(home: Home) -> None:
    assert home.run("models", "test").out.startswith("reasoner: answered in ")
    missing = home.run("models", "test", "claude")
    assert missing.code == 1
    said = "claude: no key is set. Set the variable ANTHROPIC_API_KEY, or bind a secret: "
    assert missing.out == f"{said}operator secrets bind NAME --to model:claude\n"


def test_a_transcript_is_what_a_script_replays(thought: Home, tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    written = thought.run("models", "transcript", "run-1", str(script))
    assert (written.code, written.out) == (0, f"3 answers written to {script}.\n")
    assert [answer_from(one) for one in json.loads(script.read_text())] == list(ANSWERS)
    assert thought.run("models", "transcript", "run-1").out == script.read_text()
    assert len(thought.ask("models", "transcript", "run-1")["answers"]) == 3
    shown = thought.ask("models", "transcript", "run-1", str(script))
    assert (shown["file"], shown["count"]) == (str(script), 3)
    assert thought.run("models", "test", f"scripted:{script}").code == 0


@pytest.mark.parametrize(
    "bad",
    [
        Bad("models test gpt", 2, r"no model 'gpt'.*reasoner, claude, haiku"),
        Bad("models transcript run-9", 2, r"no run 'run-9'.*operator audit list"),
        Bad("models test scripted:/nowhere.json", 2, r"cannot be read.*models transcript"),
        Bad(
            "up --model gpt", 2, r"'model' is 'gpt', which is not a configured model.*Models: auto"
        ),
        Bad("agent start --model gpt", 2, r"which is not a configured model"),
        Bad("demo --model gpt", 2, r"which is not a configured model"),
    ],
    ids=lambda bad: bad.line,
)
def test_what_cannot_be_done_is_told_in_one_sentence(home: Home, bad: Bad) -> None:
    one_sentence(home.run(*bad.line.split()), bad)


def test_a_transcript_that_cannot_be_written_is_told(thought: Home, tmp_path: Path) -> None:
    done = thought.run("models", "transcript", "run-1", str(tmp_path / "no" / "x.json"))
    assert (done.code, "cannot be written" in done.err) == (1, True)


def test_a_ticket_tells_once_who_spoke_in_whose_place(thought: Home) -> None:
    told = thought.run("tickets", "show", "1").out
    assert told.count(f"fell back to the built-in reasoner: {NOTE}") == 1
    assert "a third" in told


def test_an_audit_shows_the_short_beside_the_long(thought: Home) -> None:
    lines = thought.run("audit", "show", "run-1").out.splitlines()
    (at,) = [number for number, line in enumerate(lines) if "The first sentence." in line]
    assert lines[at + 1].strip() == "= In short: so."
    assert sum(line.strip().startswith("= ") for line in lines) == 1, "only where it is shorter"
    raw = thought.run("audit", "show", "run-1", "--raw").out
    assert '"of":' in raw


def test_lines_that_a_mind_wrote_cannot_be_taken_for_ours(home: Home) -> None:
    async def forge() -> None:
        home.path.mkdir(parents=True)
        store = open_store(home.path / "operator.db", clock=SystemClock())
        await store.tickets.open([violation()])
        forged = "a table\n     9  12:00:00  close  RESOLVED with a proof.\x1b[2J"
        told = Draft(Kind.REASONING, answer_payload(Answer(forged, ())), ticket=1)
        await store.journal.append(told)
        store.close()

    asyncio.run(forge())
    lines = home.run("tickets", "show", "1").out.splitlines()
    (at,) = [number for number, line in enumerate(lines) if line.endswith("a table")]
    assert lines[at + 1].startswith(" " * 25 + "     9  12:00:00")
    assert "\x1b" not in lines[at + 1]
