"""What surrounds a command counts as much as its words: the folder of its programs, its variables.

And the figures of a verdict are what people and other programs compare.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from operator_protocols.domain.action import Action
from operator_protocols.domain.verdict import Level, Risk
from operator_sre.gate import Policy
from operator_sre.gate.judge import SCORES, judge, safer
from tests.gate.policy.writing import RULE, book

UPTIME = Action.shell("uptime")


@pytest.mark.parametrize(
    ("venv", "person", "level"),
    [
        ("", False, Level.SAFE),
        ("", True, Level.SAFE),
        ("/srv/app/.venv", True, Level.SAFE),
        ("/srv/app/.venv", False, Level.REVIEW),  # whoever owns it decides what `uptime` is
        ("/srv/app/bin", True, Level.REVIEW),
        ("/srv/../etc/venv", True, Level.REVIEW),
        ("venv", True, Level.REVIEW),
    ],
)
def test_a_virtual_environment_of_an_agent_proves_nothing(
    venv: str, person: bool, level: Level
) -> None:
    verdict = judge(replace(UPTIME, venv=venv), Policy(), person=person)
    assert verdict.level is level
    assert ("venv" in {rule.id for rule in verdict.rules}) is (level is Level.REVIEW)


@pytest.mark.parametrize("person", [False, True])
def test_a_command_that_receives_variables_of_operator_asks_first(person: bool) -> None:
    verdict = judge(replace(UPTIME, passes=("DATABASE_URL",)), Policy(), person=person)
    assert verdict.level is Level.REVIEW
    assert [rule.id for rule in verdict.rules] == ["passes"]


@pytest.mark.parametrize(
    ("command", "risk", "score"),
    [
        ("uptime", Risk.LOW, 0),
        ("touch /srv/x", Risk.MEDIUM, 20),
        ("kill -9 4711", Risk.HIGH, 50),
        ("operator approvals approve 12", Risk.CRITICAL, 80),
    ],
)
def test_the_score_of_a_verdict_is_never_below_that_of_its_risk(
    command: str, risk: Risk, score: int
) -> None:
    verdict = judge(Action.shell(command), Policy())
    assert (verdict.risk, verdict.score) == (risk, score)
    assert SCORES[risk] == score


@pytest.mark.parametrize(
    ("command", "reversible"),
    [
        ("touch /srv/x", True),
        ("rm -rf /srv/build", False),
        ("touch /srv/x; rm -rf /srv/build", False),
        ("rm -rf /srv/build; touch /srv/x", False),
        ("rm -rf /srv/build && systemctl restart web", False),
        ("touch /srv/x; systemctl restart web", True),
        ("mkfs.ext4 /dev/vdb; touch /srv/x", None),
        ("frobnicate; touch /srv/x", None),
        ("touch /srv/x; cat /srv/app/.env; ls", True),  # what only reads changes nothing
        ("uptime; ls", True),
    ],
)
def test_a_line_is_as_reversible_as_the_worst_of_its_commands(
    command: str, reversible: bool | None
) -> None:
    assert judge(Action.shell(command), Policy()).reversible is reversible


def test_a_rule_that_trusts_a_command_does_not_let_it_read_secrets() -> None:
    ours = {"id": "ours", "why": "It is ours.", "command": "cat", "operand": "/srv/app/.env"}
    policy = Policy(book=book(safe=[RULE, {**ours, "match": ["cat /srv/app/.env"]}]))
    assert judge(Action.shell("jobctl depth"), policy).level is Level.SAFE
    for command in ("jobctl depth < /srv/app/.env", "cat /srv/app/.env"):
        verdict = judge(Action.shell(command), policy)
        assert (verdict.level, [rule.id for rule in verdict.rules]) == (Level.REVIEW, ["secrets"])
        assert verdict.sensitive == ("/srv/app/.env",)


@pytest.mark.parametrize("word", ["sudo", "doas"])
def test_a_command_as_another_user_asks_and_a_change_as_another_user_never_runs(word: str) -> None:
    asks = judge(Action.shell(f"{word} uptime"), Policy())
    assert (asks.level, {rule.id for rule in asks.rules} >= {"sudo"}) == (Level.REVIEW, True)
    assert asks.score >= 30
    assert judge(Action.shell(f"{word} rm -rf /srv/x"), Policy()).level is Level.BLOCKED


@pytest.mark.parametrize(
    "command",
    ["sort -o out in; rm -rf /srv", "sort -o out in | sh", "sort -o out in <<EOF\nx\nEOF"],
)
def test_leaving_an_option_out_is_no_advice_for_a_line_that_does_more(command: str) -> None:
    assert safer(Action.shell("sort -o out in"), Policy()) == "Without -o this only reads."
    assert safer(Action.shell(command), Policy()) == ""
