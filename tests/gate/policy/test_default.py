"""The rules that come with Operator: complete, proven, and quick to load."""

from __future__ import annotations

from pathlib import Path

import pytest

from operator_protocols.domain.action import Action
from operator_protocols.domain.verdict import Level, Risk
from operator_sre.gate import Policy, judge
from operator_sre.gate.policy import PolicyRule, built_in
from operator_sre.gate.policy.compile import FOLDER, SOURCE, compile_policy, source
from operator_sre.gate.policy.load import book_of, prove
from operator_sre.gate.policy.policy import COMPILED, decode_book, encode_book
from operator_sre.gate.policy.rule import compile_expression
from operator_sre.shell.words import Simple, literal
from tests.every import every
from tests.measuring import GROWTH_MAX, growth

RULES = built_in().rules
# What trust rules have to say of well known commands, whatever else they say.
SAFE = [
    *("ls", "ls -la", "pwd", "cat README.md", "grep -n error app.log", "find . -name '*.py'"),
    *("git status", "git log", "git log --oneline -5", "git diff"),
    *("pip list", "pip show requests", "pip freeze"),
    *("df", "df -h", "du -sh .", "free", "free -m", "ps aux", "top -b -n 1"),
]
REVIEW = [
    *("pip install numpy", "pip install requests", "npm install", "npm install express"),
    *("git add .", "git commit -m x", "git push", "git push origin main"),
    *("mv a b", "cp a b", "mkdir build", "chmod 644 x"),
    *("python script.py", "bash script.sh", "make", "make all", "pytest", "npm run build"),
    *("source .venv/bin/activate", "cat passwords.txt", "cat secret.txt", "nosuchtool --x"),
]
BLOCKED = [
    *("sudo rm -rf /", "rm -rf /", "dd if=/dev/zero of=/dev/sda", "dd if=x of=y", "mkfs /dev/sda"),
    *("mkfs.ext4 /dev/sda1", "shutdown", "shutdown -h now", "reboot", ":(){ :|:& };:"),
    *(
        "cat ~/.ssh/id_rsa",
        "cat ~/.ssh/id_ed25519",
        "cat ~/.ssh/id_ecdsa",
        "cat ~/.aws/credentials",
    ),
    *("DROP DATABASE prod", "TRUNCATE TABLE orders", "psql -c 'DROP DATABASE prod'"),
    *("mysql -e 'TRUNCATE TABLE orders'", "nmap 10.0.0.1", "sqlmap -u http://example.com"),
]


@every("command", SAFE)
def test_what_only_reads_is_not_spoken_of(command: str) -> None:
    verdict = judge(Action.shell(command), Policy(), person=True)
    assert verdict.level is Level.SAFE, verdict.explanation


@every("command", REVIEW)
def test_what_changes_something_is_for_a_person(command: str) -> None:
    assert judge(Action.shell(command), Policy(), person=True).level is Level.REVIEW


@every("command", BLOCKED)
def test_what_destroys_or_steals_never_runs(command: str) -> None:
    assert judge(Action.shell(command), Policy(), person=True).level is Level.BLOCKED


def test_the_compiled_rules_are_those_that_are_written() -> None:
    packed = (FOLDER / COMPILED).read_text(encoding="utf-8")
    assert packed == compile_policy(source()), "run: python -m operator_sre.gate.policy.compile"
    assert decode_book(packed.encode()) == built_in()


def test_every_example_holds() -> None:
    written = source()
    assert all(written.examples[rule.id][0] for rule in written.rules)
    prove(written, built_in())  # it fails at the first that does not


@every("rule", RULES)
def test_every_rule_says_why_and_shows_it(rule: PolicyRule) -> None:
    assert rule.why.endswith(".")
    assert rule.match
    assert rule.is_built_in
    assert rule.level is not Level.SAFE, "what is SAFE by itself is in the tables of the tools"
    assert rule.risk is Risk.CRITICAL or rule.level is not Level.BLOCKED


@every("rule", [rule for rule in RULES if rule.level is Level.BLOCKED])
def test_every_blocked_example_is_blocked_as_a_whole(rule: PolicyRule) -> None:
    levels = {judge(Action.shell(line), Policy(), person=True).level for line in rule.match}
    assert levels == {Level.BLOCKED}, rule.match


@every("rule", [rule for rule in RULES if rule.level is Level.REVIEW])
def test_every_review_example_is_review_as_a_whole(rule: PolicyRule) -> None:
    levels = {judge(Action.shell(line), Policy(), person=True).level for line in rule.match}
    assert levels == {Level.REVIEW}, rule.match


def test_expressions_mean_the_same_to_both_libraries() -> None:
    lines = [line for rule in RULES for line in (*rule.match, *rule.not_match)]
    texts = [filter(None, (rule.regex, rule.operand, rule.redirect)) for rule in RULES]
    expressions = [written for some in texts for written in some]
    assert len(expressions) > 50
    for written in expressions:
        ours, theirs = (
            compile_expression(written, trusted=True),
            compile_expression(written, trusted=False),
        )
        for line in lines:
            assert bool(ours.search(line)) is bool(theirs.search(line)), (written, line)


HOSTILE = [
    *(" -s", " --a", "a ", "/", "socket", "drop ", "; ", " =", " -", "  ", "x", " x", " 1", "exec"),
    *(" -u x", "kill ", " set ", "nft ", "' ", " delete from x"),
]


@pytest.mark.parametrize("hostile", HOSTILE)
def test_no_command_is_so_hostile_that_a_rule_takes_longer_than_it_is_long(hostile: str) -> None:
    names = sorted({name.replace("*", "") for rule in RULES for name in rule.command[:1]})

    def ask(size: int) -> None:
        for name in names:
            line = f"{name} {hostile * size}"[:size]
            words = tuple(literal(word) for word in line.split(" "))
            built_in().speaking(Simple(words), "/")

    assert growth(ask, 1000) <= GROWTH_MAX


def test_the_starter_changes_nothing_until_it_is_filled_in() -> None:
    text = (FOLDER / "starter.yaml").read_text(encoding="utf-8")
    assert book_of(text, "policy.yaml").digest == built_in().digest


def test_everything_in_the_starter_works_when_it_is_uncommented() -> None:
    lines = (FOLDER / "starter.yaml").read_text(encoding="utf-8").splitlines()
    # Prose begins with a capital or runs on; what can be used begins like YAML.
    used = [
        line[2:]
        for line in lines
        if line.startswith(("# ", "#  "))
        and (line[2:3] == " " or line[2:].split(":")[0] in SECTIONS)
    ]
    found = book_of("version: 1\n" + "\n".join(used) + "\n", "policy.yaml")
    assert {"queue_depth", "queue_drain", "queue_reset"} <= {rule.id for rule in found.rules}
    assert found.rule("drop_database") is None
    assert all((found.modes, found.roles, found.grants, found.limits, found.budgets))
    assert set(found.chains) == {"medium", "high"}


SECTIONS = {
    *("safe", "review", "blocked", "paths", "egress", "services", "approval", "modes", "roles"),
    *("approvers", "grants", "groups", "limits", "budgets", "overrides"),
}


def test_a_book_comes_back_from_its_json() -> None:
    assert decode_book(encode_book(built_in())) == built_in()
    assert Path(FOLDER / "default.yaml") == SOURCE
