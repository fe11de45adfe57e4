"""Judging is closed by default: SAFE is proven, everything else is told apart and explained."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from operator_protocols.domain.action import Action
from operator_protocols.domain.tool import ToolSpec
from operator_protocols.domain.verdict import Level, Risk, Verdict
from operator_sre.gate import Policy, judge, safer, warm
from operator_sre.gate.grammar.compile import FOLDER, examples, sources, tables_in
from operator_sre.gate.judge import risk_of, score_of
from operator_sre.shell.line import parse
from tests.every import every, expect_each
from tests.gate.cases import BLOCKED, NOT_SAFE, SAFE, SECRETS
from tests.gate.policy.writing import book

POLICY = Policy()
TABLES = sorted((FOLDER / "tools").glob("*.yaml"))


def verdict_on(command: str, cwd: str = "/srv/app") -> Verdict:
    """What the gate thinks of a command line."""
    return judge(replace(Action.shell(command), cwd=cwd), POLICY, person=True)


@every("command", SAFE)
def test_what_only_reads_is_safe(command: str) -> None:
    verdict = verdict_on(command)
    assert verdict.level is Level.SAFE, verdict.explanation
    assert verdict.risk is Risk.LOW
    assert verdict.reversible
    assert not verdict.writes
    assert not verdict.sensitive


@every("command", NOT_SAFE)
def test_one_step_further_it_is_not(command: str) -> None:
    verdict = verdict_on(command)
    assert verdict.level is not Level.SAFE
    assert verdict.risk is not Risk.LOW


@every("command", SECRETS)
def test_secrets_are_not_shown_without_a_person(command: str) -> None:
    assert verdict_on(command).level is not Level.SAFE


@every("command", BLOCKED)
def test_what_destroys_never_runs(command: str) -> None:
    verdict = verdict_on(command)
    assert verdict.level is Level.BLOCKED, verdict.rules
    assert verdict.risk >= Risk.HIGH


@pytest.mark.parametrize("file", TABLES, ids=lambda file: file.stem)
def test_every_example_of_a_tool_table_holds(file: Path) -> None:
    def holds(command: str, safe: bool) -> None:
        verdict = verdict_on(command)
        assert (verdict.level is Level.SAFE) is safe, verdict.explanation

    expect_each(examples(tables_in(file.read_text(encoding="utf-8"))), holds)


def test_no_example_of_a_tool_table_is_forgotten() -> None:
    texts = (file.read_text(encoding="utf-8") for file in TABLES)
    asked = [example for text in texts for example in examples(tables_in(text))]
    assert sorted(asked) == sorted(examples(sources()))


def test_a_verdict_explains_itself() -> None:
    for command in (*SAFE, *NOT_SAFE, *SECRETS, *BLOCKED):
        verdict = verdict_on(command)
        assert verdict.explanation.endswith("."), verdict.explanation
        assert verdict.explanation[0] not in "!?~"
        assert "\n" not in verdict.explanation
        assert verdict.policy_digest == POLICY.digest
        assert max(rule.level for rule in verdict.rules) is verdict.level
        assert all(rule.id and rule.justification for rule in verdict.rules)


SCORES = [
    ("ls", 0, Risk.LOW),
    ("curl -s http://localhost/", 10, Risk.LOW),
    ("rm notes.txt", 20, Risk.HIGH),
    ("sudo apt install jq", 45, Risk.HIGH),
    ("terraform version", 0, Risk.LOW),
    ("cat format.txt", 0, Risk.LOW),
    ("git clone http://a/b", 20, Risk.MEDIUM),
    ("unknown-tool", 20, Risk.MEDIUM),
]


@pytest.mark.parametrize(("command", "least", "risk"), SCORES)
def test_the_score_adds_up_on_the_parsed_command(command: str, least: int, risk: Risk) -> None:
    verdict = verdict_on(command)
    assert verdict.score >= least
    assert verdict.risk is risk
    assert (verdict.score == 0) is (least == 0)


def test_the_scale_is_one_scale() -> None:
    assert [risk_of(score) for score in (0, 19, 20, 49, 50, 500)] == [
        *(Risk.LOW, Risk.LOW, Risk.MEDIUM, Risk.MEDIUM, Risk.HIGH, Risk.HIGH)
    ]
    assert score_of((), level=Level.BLOCKED) == 50


def test_each_verb_in_a_program_text_counts_as_far_as_the_text_is_read() -> None:
    def score(command: str) -> int:
        return score_of(parse(command).commands, level=Level.SAFE)

    assert score("psql -c 'DROP TABLE a; delete from b; select 1'") == 40
    assert score("psql -c 'select name from formats'") == 0
    assert score(f"psql -c '{'x ' * 510}drop'") == 20
    assert score(f"psql -c '{'x ' * 600}drop'") == 0


def test_a_rule_of_the_policy_holds_for_a_command_that_only_reads() -> None:
    rule = {"id": "disks", "why": "It wakes the disks.", "command": "df", "match": ["df -h"]}
    policy = Policy(book=book(review=[rule]))
    assert judge(Action.shell("df -h"), Policy(), person=True).level is Level.SAFE
    verdict = judge(Action.shell("df -h"), policy, person=True)
    assert verdict.level is Level.REVIEW
    assert [rule.id for rule in verdict.rules] == ["disks"]


def test_what_would_be_touched_is_told() -> None:
    verdict = verdict_on("cat app.log /etc/hosts > out")
    assert verdict.reads == ()  # what is redirected is looked at first, and settles it
    assert verdict.writes == ("/srv/app/out",)
    verdict = verdict_on("cat app.log /etc/hosts")
    assert verdict.reads == ("/srv/app/app.log", "/etc/hosts")
    assert verdict_on("ping -c 1 db.example.net").network == ("db.example.net",)
    assert verdict_on("cat /etc/shadow").sensitive == ("/etc/shadow",)


def test_what_would_make_it_safe_is_told() -> None:
    def said(command: str) -> str:
        return safer(Action.shell(command), POLICY)

    assert said("find . -name core -delete") == "Without -delete this only reads."
    assert said("kubectl get pods --kubeconfig=x") == "Without --kubeconfig=x this only reads."
    assert said("ls") == ""
    assert said("rm x") == ""
    assert said("ls; rm x") == ""


def test_a_warm_gate_judges_the_same() -> None:
    before = [verdict_on(command) for command in SAFE[:5]]
    warm(POLICY)
    assert [verdict_on(command) for command in SAFE[:5]] == before


def test_the_directory_counts() -> None:
    assert verdict_on("cat shadow", cwd="/etc").level is not Level.SAFE
    assert verdict_on("cat shadow", cwd="/srv").level is Level.SAFE
    assert verdict_on("cat ../etc/shadow", cwd="/srv").level is not Level.SAFE


LOOKS = ToolSpec("check_port", "it connects.", (), Risk.LOW, changes=False)
CHANGES = ToolSpec("restart_node", "It restarts.", (), Risk.MEDIUM, changes=True)


@pytest.mark.parametrize(
    ("tool", "level", "risk"),
    [
        ("check_port", Level.SAFE, Risk.LOW),
        ("restart_node", Level.REVIEW, Risk.MEDIUM),
        ("unknown", Level.BLOCKED, Risk.HIGH),
        ("", Level.BLOCKED, Risk.HIGH),
        ("Shell", Level.BLOCKED, Risk.HIGH),
    ],
)
def test_a_tool_is_judged_by_what_is_known_of_it(tool: str, level: Level, risk: Risk) -> None:
    policy = replace(POLICY, tools=(LOOKS, CHANGES))
    verdict = judge(Action(tool, {"target": "a"}, target="a"), policy)
    assert (verdict.level, verdict.risk) == (level, risk)
    assert verdict.rules[0].id == ("default_deny" if level is Level.BLOCKED else f"tool[{tool}]")


@pytest.mark.parametrize("arguments", [{}, {"command": None}, {"command": 7}, {"cmd": "uptime"}])
def test_a_shell_action_without_a_command_is_not_safe(arguments: dict[str, int | None]) -> None:
    assert judge(Action("shell", arguments), POLICY).level is not Level.SAFE
