"""`operator eval` on the line: what it says of facts, and every mistake in one sentence."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from operator_evals.campaign import Campaign, Mind, Scenario, Variant
from operator_evals.cli.tables import show_opinions
from operator_evals.database import Recorded, open_database
from operator_evals.facts import DiagnosisFact, Moments, TicketFact, TrialFacts, TrialState
from operator_evals.opinions import CauseOpinion, Opinion, Opinions
from operator_protocols.domain.budget import Spent
from operator_protocols.ports import CorrectOutcome
from tests.e2e.home import Home
from tests.evals.generated.test_outcome import REPAIRED, TABLE, USEFUL

FAULT = Scenario("shop", "till_kill", CorrectOutcome.MITIGATED, ("answers",), ("process_dead@hit",))
CAMPAIGN = Campaign(
    "c", (FAULT,), (Variant("reasoner"), Variant("none", Mind.NONE)), {"reasoner": 1, "none": 1}
)
RIGHT = TrialFacts(
    *("c", "shop:till_kill/reasoner/0", FAULT, "reasoner", 0, TrialState.DONE),
    hit="till-1",
    moments=Moments(0.0, 2.0, 3.0, 5.0, 9.0, 20.0),
    tickets=(TicketFact(1, "resolved", "till-1", ("answers",)),),
    diagnoses=(DiagnosisFact(8, 5.5, 1, "process_dead", "till-1"),),
)
IDLE = replace(
    RIGHT,
    key="shop:till_kill/none/0",
    variant="none",
    tickets=(TicketFact(1, "open", "till-1", ("answers",)),),
    diagnoses=(),
    still="till-1 is dead",
    still_after_hold="till-1 is dead",
)


def _facts(home: Path) -> None:
    with open_database(home / "eval.db") as facts:
        facts.begin(Recorded(CAMPAIGN, "2030-01-01T00:00:00+00:00", {"cores": "2"}))
        facts.keep(RIGHT)
        facts.keep(IDLE)


def test_text_and_json_tell_the_same_of_a_campaign(home: Home, tmp_path: Path) -> None:
    _facts(home.path)
    for words, expected in (
        (("list",), ["reasoner, none"]),
        (("show", "c"), ["shop:till_kill/none/0", "till-1 is dead"]),
        (("show", "c", "--trial", RIGHT.key), ["process_dead@till-1", "end to end yes"]),
        (("analyze",), ["wrong cause, wrong outcome", "100% (21%-100%)"]),
        (("compare", "none", "reasoner"), ["0 : 1"]),
        (("compare-baseline",), ["0 : 1"]),
        (("compare-variants", "c"), ["1 : 0"]),
        (("faults", "etcd"), ["etcd:node_kill"]),
    ):
        told = home.run("eval", *words)
        assert told.code == 0, told.err
        for word in expected:
            assert word in told.out, (words, told.out)
        document = json.loads(home.run("eval", *words, "--json").out)
        assert document["schema_version"]
    for style in ("json", "csv"):
        file = tmp_path / f"trials.{style}"
        done = home.run("eval", "export", str(file), "--format", style)
        assert done.code == 0, done.err
        assert IDLE.key in file.read_text()


def test_generated_faults_are_told_in_tables_documents_and_files(
    home: Home, tmp_path: Path
) -> None:
    with open_database(home.path / "eval.db") as facts:
        for seed, trial in enumerate((REPAIRED, USEFUL, TABLE["nobody noticed"][0]), start=1):
            known = replace(trial, seed=seed, key=str(seed))
            facts.keep_generated(known, {"revision": "c" * 40})
    page, export = tmp_path / "shop.html", tmp_path / "shop.jsonl"
    files = ("--page", str(page), "--export", str(export))
    told = home.run("eval", "fuzz", "shop", "--show", *files)
    assert told.code == 0, told.err
    for word in ("2/3", "67%", "seeds 1 to 3", "missed", "clients failed for 50 s"):
        assert word in told.out, told.out
    assert "Worst cases" in page.read_text()
    again = home.run("eval", "fuzz", "shop", "--show", "--json", "--database", str(export))
    tally = again.json["tally"]
    assert (tally["handled"]["count"], tally["worst"][0]["seed"]) == (2, 3)
    wrong = home.run("eval", "fuzz", "till", "--show")
    assert (wrong.code, "No generated fault" in wrong.err) == (2, True)


def test_what_makes_no_sense_is_one_sentence(home: Home, tmp_path: Path) -> None:
    broken = tmp_path / "c.toml"
    broken.write_text("scenarios = ['etcd:melted']")
    for words, word in (
        (("run",), "Name a subject"),
        (("run", "campaign"), "takes no --subject"),
        (("run", "campaign", str(broken)), "melted"),
        (("run", "campaign", str(tmp_path / "none.toml")), "cannot be read"),
        (("run", "--subject", "shop", "--fault", "x"), "shop"),
        (("run", "--subject", "etcd", "--chaos", "melted"), "melted"),
        (("run", "--subject", "etcd", "--fault", "node_kill", "--variant", "clever"), "clever"),
        (("analyze",), "no campaign yet"),
        (("compare", "a", "b"), "no campaign yet"),
    ):
        done = home.run("eval", *words)
        assert done.code != 0, words
        assert word in done.err, (words, done.err)
        assert "Traceback" not in done.err
    assert not (home.path / "eval.db").exists()


def test_a_second_opinion_stands_below_the_tables(
    home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    _facts(home.path)
    for model, words in (
        ("reasoner", "not a language model"),
        ("nobody", "There is no model 'nobody'."),
    ):
        done = home.run("eval", "analyze", "--opinion", model)
        assert (done.code, done.out) == (2, "")
        assert words in done.err
    # A model without its key has no opinion, and the tables are there all the same.
    done = home.run("eval", "analyze", "c", "--opinion", "claude")
    assert done.code == 1
    assert "wrong cause, wrong outcome" in done.out
    assert "The second opinion is incomplete: no key is set." in done.out
    document = json.loads(home.run("eval", "analyze", "c", "--opinion", "claude", "--json").out)
    assert [one["by_model"] for one in document["opinions"]["causes"]] == [None]
    assert "opinions" not in json.loads(home.run("eval", "analyze", "c", "--json").out)
    show_opinions(
        Opinions(
            by="judge",
            opinions=(Opinion("ls", False, False), Opinion("wipe \x1b[2J", False, True)),
            spent=Spent(10, 2, 0.5),
            causes=(CauseOpinion("k/1", True, None), CauseOpinion("k/2", True, False)),
        )
    )
    told = capsys.readouterr().out
    assert "second opinion by judge: 12 tokens, 0.5000 USD in total" in told
    rows = [line.split() for line in told.splitlines()]
    assert ["destructive", "2", "1", "1", "0"] in rows
    assert ["cause", "right", "2", "0", "1", "1"] in rows
    assert ["cause", "right", "k/2", "yes", "no"] in rows
    assert "\x1b" not in told
