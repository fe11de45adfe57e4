"""Requests as a person meets them: looked at, answered, taken back, and allowed for always."""

from __future__ import annotations

import asyncio
import getpass
from dataclasses import replace

import pytest

from operator_protocols.domain.action import Action
from operator_protocols.domain.entry import Actor
from operator_protocols.domain.permit import Approval, Binding
from operator_protocols.domain.verdict import Risk
from operator_sre.clock import SystemClock
from tests.contract.samples import approval
from tests.e2e.home import Home
from tests.faces.cli.sentences import Bad, one_sentence

ME = getpass.getuser()


def _asked(home: Home, name: str = "a1", command: str = "mkdir zz", **more: object) -> Approval:
    """A request that an agent has just made."""
    action = Action.shell(command, target="node-1", reasoning="it is full")
    asked = replace(
        approval(name, at=SystemClock().now(), within_s=590.0),
        action=action,
        binding=Binding(action.digest, "node-1: pid 7 started 1.5", "sha256:e", "sha256:p"),
        reads=("/var/log/app.log",),
        writes=("zz",),
        reversible=True,
        **more,  # type: ignore[arg-type]
    )
    home.path.mkdir(exist_ok=True)
    return asyncio.run(home.store.approvals.request(asked))


def test_show_tells_all_that_one_has_to_know(home: Home) -> None:
    asked = _asked(home)
    shown = home.run("approvals", "show", "a1")
    assert shown.code == 0
    for part in (
        *("a1, pending, version 1", "command   mkdir zz", "directory /", "node-1 of shop"),
        *("system (system), through agent worker-1, ticket 1, run run-1", "it is full"),
        *("review, risk medium: restart_node changes", "/var/log/app.log", "writes    zz"),
        *("undo      possible", "approved  0 of 1", "expires   in 9 min", "pid 7 started 1.5"),
        *(asked.binding.digest, asked.binding.action, "sha256:e", "sha256:p"),
    ):
        assert part in shown.out, part
    told = home.run("approvals", "show", "a1", "--json").json
    assert told["approval"]["requester"] == {"id": "system", "type": "system", "agent": "worker-1"}
    assert told["binding"] == asked.binding.digest
    assert 500 < told["left_s"] <= 590


def test_what_nobody_answered_in_time_is_shown_as_expired_and_listed_no_more(home: Home) -> None:
    asked = replace(approval(), id="old")  # of years ago
    home.path.mkdir()
    asyncio.run(home.store.approvals.request(asked))
    assert "old, expired" in home.run("approvals", "show", "old").out
    assert home.run("approvals", "list").out == "No pending approvals.\n"
    late = Bad("approvals approve old", 1, r"'old' has expired")
    one_sentence(home.run(*late.line.split()), late)


def test_a_request_is_withdrawn_with_a_reason(home: Home) -> None:
    _asked(home)
    said = home.run("approvals", "withdraw", "a1", "--reason", "asked by mistake")
    assert (said.code, said.out) == (0, "withdrawn: mkdir zz\n")
    (kept,) = home.run("approvals", "list", "--all", "--json").json["approvals"]
    assert (kept["state"], kept["decided_by"]) == ("withdrawn", ME)
    again = home.run("approvals", "withdraw", "a1", "--json")
    assert (again.code, "already withdrawn" in again.json["error"]["message"]) == (1, True)


def test_an_answer_to_what_was_seen_before_is_refused(home: Home) -> None:
    _asked(home, needed=2, risk=Risk.CRITICAL)
    first = home.run("approvals", "approve", "a1", "--seen", "1")
    assert first.code == 0
    assert "It needs 1 more approval from another person" in first.out
    again = Bad("approvals approve a1", 1, rf"'{ME}' already approved .*2 different approvers")
    one_sentence(home.run(*again.line.split()), again)
    older = Bad("approvals reject a1 --seen 1", 1, r"has changed.*approvals show a1")
    one_sentence(home.run(*older.line.split()), older)
    assert home.run("approvals", "reject", "a1", "--seen", "2").code == 0


def test_always_makes_a_rule_that_is_listed_shown_and_revoked(home: Home) -> None:
    _asked(home)
    line = ("approvals", "approve", "a1", "--always", "flags", "--scope", "subject")
    told = home.run(*line, "--json").json
    rule = told["rule"]
    assert told["approval"]["state"] == "approved"
    assert (rule["likeness"], rule["scope"], rule["subject"]) == ("flags", "subject", "shop")
    assert (rule["argv"], rule["made_by"], rule["approval"]) == (["mkdir", "zz"], ME, "a1")
    listed = home.run("approvals", "rules")
    assert rule["id"] in listed.out
    assert "'mkdir zz' with other plain values" in listed.out
    shown = home.run("approvals", "rules", rule["id"]).out
    for part in ("risk medium", f"made by   {ME}", "used      0 times"):
        assert part in shown
    gone = home.run("approvals", "revoke", rule["id"], "--reason", "over")
    assert (gone.code, gone.out.startswith("revoked: 'mkdir zz'")) == (0, True)
    assert home.run("approvals", "rules").out == "No standing rules.\n"
    (kept,) = home.run("approvals", "rules", "--all", "--json").json["rules"]
    assert (kept["revoked_by"], kept["revoked_because"]) == (ME, "over")
    twice = Bad(f"approvals revoke {rule['id']}", 1, "already been revoked")
    one_sentence(home.run(*twice.line.split()), twice)


def test_people_are_told_how_to_take_an_always_back(home: Home) -> None:
    _asked(home, command="rm /srv/app/a")
    line = ("approvals", "approve", "a1", "--always", "path", "--path", "/srv/app")
    said = home.run(*line)
    assert said.code == 0
    first, rule, how = said.out.splitlines()
    assert first == "approved: rm /srv/app/a"
    assert "with other files below /srv/app, on target node-1, ticket 1" in rule
    assert how.startswith("Revoke it with: operator approvals revoke ")


BAD = [
    (
        "--always banana",
        r"'banana' is not a valid value of --always\. One of: exact, flags, path\.",
    ),
    ("--always exact --scope banana", r"'banana' is not a valid value of --scope\. One of: ticket"),
    ("--always path", r"used together\. Use: --always path --path"),
    ("--always exact --path /srv", r"used together"),
    ("--scope ticket", r"require --always\. Add: --always"),
    ("--always path --path /", r"below '/' is not made\. Name a directory further down"),
    ("--always path --path srv", r"not an absolute path"),
    ("--always path --path /srv/app", r"does not lie below '/srv/app'\. Name a directory"),
    ("--seen 0", r"--seen must be at least 1, not '0'\."),
]


@pytest.mark.parametrize(("options", "says"), BAD, ids=[one[0] for one in BAD])
def test_an_always_that_makes_no_sense_answers_nothing(home: Home, options: str, says: str) -> None:
    asked = _asked(home)
    bad = Bad(f"approvals approve a1 {options}", 2, says)
    one_sentence(home.run(*bad.line.split()), bad)
    assert home.store.approvals.get("a1") == asked
    assert home.store.standing.find(revoked=True) == []


def test_nobody_approves_their_own_request_where_that_is_off(home: Home) -> None:
    asked = _asked(home, requester=Actor(ME, "user"))
    (home.cwd / "operator.toml").write_text("self_approval = 0\n")
    for verb in ("approve", "reject"):
        bad = Bad(f"approvals {verb} a1", 3, rf"'{ME}' requested this action.* Ask ")
        one_sentence(home.run(*bad.line.split()), bad)
    assert home.store.approvals.get("a1") == asked
    assert home.run("approvals", "withdraw", "a1").code == 0
