"""What a person sees of changes that need a yes, and how a program is told to get one."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from operator_protocols.domain.entry import Kind
from tests.app.home import SUBJECTS
from tests.contract.samples import violation
from tests.e2e.home import Home
from tests.faces.cli.sentences import Bad, one_sentence


@pytest.fixture
def shop(home: Home) -> Home:
    """A home with one configured subject."""
    (home.cwd / "operator.toml").write_text(SUBJECTS)
    return home


def test_a_change_is_proposed_shown_confirmed_and_made_once(shop: Home) -> None:
    policy = shop.cwd / "policy.yaml"
    asked = shop.run("policy", "change", "allow host api.example.org port 443", "--json")
    assert asked.code == 4
    told = asked.json
    assert (told["requires_confirmation"], told["risk_level"]) == (True, "medium")
    assert told["affected_destinations"] == ["api.example.org:443"]
    name = told["confirmation_id"]
    assert not policy.exists()
    assert name in shop.run("confirmations", "list").out
    shown = shop.run("confirmations", "show", name)
    assert '+  scripts: ["api.example.org:443"]' in shown.out
    digest = shop.ask("confirmations", "show", name)["confirmation"]["digest"]
    assert digest in shown.out
    done = shop.run("confirmations", "approve", name, "--reason", "fine", "--digest", digest)
    assert (done.code, done.out.split(":")[0]) == (0, "applied"), done
    assert 'scripts: ["api.example.org:443"]' in policy.read_text()
    one_sentence(shop.run("confirmations", "approve", name), Bad("again", 1, "already approved"))
    assert shop.run("confirmations", "list").out == "No pending confirmations.\n"
    (record,) = shop.ask("confirmations", "list", "--all")["confirmations"]
    assert (record["state"], record["applied"]) == ("approved", True)
    assert shop.run("policy", "check").code == 0


def test_a_no_says_what_is_left_to_do(shop: Home) -> None:
    lines = {
        "fix_code": ("policy", "change", "raise turns to 60"),
        "ask_user": ("mode", "set", "execute"),
    }
    for action, words in lines.items():
        name = shop.run(*words, "--json").json["confirmation_id"]
        said = shop.ask("confirmations", "decline", name, "--reason", "no")
        assert (said["next_action"], said["confirmation"]["state"]) == (action, "declined")
    assert not (shop.cwd / "policy.yaml").exists()
    assert shop.store.modes.find() == []


def test_a_person_who_means_it_is_not_asked_twice(shop: Home) -> None:
    done = shop.run("policy", "change", "raise turns to 60", "--yes")
    assert (done.code, "+  turns_max: 60" in done.out) == (0, True)
    assert done.out.splitlines()[-1].startswith("applied: ")
    kinds = [one.kind for one in shop.entries(*Kind)]
    assert kinds == [
        Kind.CONFIRMATION_REQUESTED,
        Kind.CONFIRMATION_DECIDED,
        Kind.POLICY_CHANGED,
        Kind.CONFIRMATION_SETTLED,
    ]
    assert shop.run("policy", "change", "raise turns to 70", "--yes", "--propose").code == 4


def test_an_agent_can_propose_and_never_confirm(shop: Home) -> None:
    name = shop.run("mode", "set", "execute", "--json").json["confirmation_id"]
    for verb in ("approve", "decline"):
        refused = shop.run("confirmations", verb, name, OPERATOR_TREE="1")
        one_sentence(refused, Bad(verb, 3, "Agents propose, and people decide"))
    assert [one.kind for one in shop.entries(Kind.ACCESS_REFUSED)] == [Kind.ACCESS_REFUSED] * 2
    assert shop.store.modes.find() == []
    assert shop.run("mode", "set", "execute", "--yes", OPERATOR_TREE="1").code == 4
    assert shop.store.modes.find() == []


def test_a_store_is_replaced_with_the_yes_of_somebody_else(shop: Home) -> None:
    assert shop.run("mode", "set", "approve").code == 0
    saved = str(shop.cwd / "saved.db")
    assert shop.run("store", "backup", saved).code == 0
    line = ("store", "restore", saved, "--force")
    name = shop.run(*line, "--propose", "--json").json["confirmation_id"]
    refused = shop.run(*line, "--confirmation", name)
    one_sentence(refused, Bad("restore", 3, "is pending"))
    assert shop.run("confirmations", "approve", name).code == 0
    other = (*line[:2], str(shop.cwd / "operator.toml"), "--force", "--confirmation", name)
    one_sentence(shop.run(*other), Bad("other", 3, "another change"))
    assert shop.run(*line, "--confirmation", name).code == 0
    assert [one.kind for one in shop.entries(*Kind)] == [Kind.MODE_SET, Kind.STORE_RESTORED]


def test_a_ticket_is_handed_off(shop: Home) -> None:
    shop.path.mkdir()
    ticket = asyncio.run(shop.store.tickets.open([violation()]))
    line = ("tickets", "handoff", str(ticket.id), "--to", "network team", "--why", "their switch")
    pending = shop.run(*line)
    assert (pending.code, "operator confirmations approve conf_" in pending.out) == (4, True)
    assert shop.ask("tickets", "show", "1")["ticket"]["state"] == "open"
    done = shop.ask(*line, "--yes")["ticket"]
    assert (done["state"], done["assignee"]) == ("escalated", "network team")
    assert "network team" in shop.run("tickets", "show", "1").out


@pytest.mark.parametrize(
    "bad",
    [
        Bad("confirmations show nosuch", 2, "no confirmation 'nosuch'.*confirmations list"),
        Bad("confirmations approve nosuch", 2, "no confirmation 'nosuch'"),
        Bad("confirmations decline nosuch", 2, "no confirmation 'nosuch'"),
        Bad("policy change nonsense", 2, "not understood.*allow host"),
        Bad("policy change x --risk low", 2, "'low' is not a valid value of --risk"),
        Bad("tickets handoff 9 --to x --why y", 2, "no ticket 9"),
        Bad("tickets handoff 9 --to x", 2, "--why"),
    ],
    ids=lambda bad: bad.line,
)
def test_bad_lines_are_answered_in_a_sentence(shop: Home, bad: Bad) -> None:
    one_sentence(shop.run(*bad.line.split()), bad)


def test_what_was_asked_for_is_in_the_docs() -> None:
    text = (Path(__file__).parents[3] / "docs" / "confirmations.md").read_text()
    for words in ("confirmations approve", "policy change", "tickets handoff", "--propose"):
        assert words in text
