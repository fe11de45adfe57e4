"""Judging is closed by default: SAFE is a short list, and no disguise gets into it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operator_protocols.domain.action import Action
from operator_protocols.domain.run import ToolSpec
from operator_protocols.domain.verdict import Level, Risk, Rule, Verdict
from operator_sre.gate import Policy, judge
from operator_sre.gate.commands import BLOCKED, READ_ONLY, Blocked, Form
from tests.gate.commands import CORPORA, Case, cases, corpus

POLICY = Policy()
CASES = cases()
NOT_SAFE = [case for case in CASES if case.expect is not Level.SAFE]


def _level(command: str, policy: Policy = POLICY) -> Level:
    return judge(Action.shell(command), policy).level


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.kind}: {case.command[:40]!r}")
def test_a_command_is_judged_as_the_table_says(case: Case) -> None:
    assert _level(case.command) is case.expect


def test_the_table_has_many_cases_of_every_class() -> None:
    counts = Counter(case.kind for case in CASES)
    assert sum(counts.values()) >= 300
    assert min(counts.values()) >= 10
    assert len({case.command for case in CASES}) == len(CASES)


@pytest.mark.parametrize("form", READ_ONLY, ids=lambda form: form.name)
def test_the_example_of_a_read_only_form_is_safe(form: Form) -> None:
    verdict = judge(Action.shell(form.example), POLICY)
    assert (verdict.level, verdict.risk) == (Level.SAFE, Risk.LOW)
    assert form.example.split()[0] == form.name
    assert verdict.rules[0].id == f"read_only[{READ_ONLY.index(form)}]"


@pytest.mark.parametrize("rule", BLOCKED, ids=lambda rule: rule.name)
def test_the_example_of_a_blocked_command_is_blocked(rule: Blocked) -> None:
    verdict = judge(Action.shell(rule.example), POLICY)
    assert (verdict.level, verdict.risk) == (Level.BLOCKED, Risk.CRITICAL)
    assert verdict.explanation == rule.why
    assert verdict.rules == (Rule(f"blocked[{BLOCKED.index(rule)}]", Level.BLOCKED, rule.why),)


@pytest.mark.parametrize("rule", [rule for rule in BLOCKED if rule.needs], ids=lambda one: one.name)
def test_what_a_blocked_command_needs_makes_the_difference(rule: Blocked) -> None:
    assert _level(f"{rule.name} something") is Level.REVIEW


def test_a_verdict_explains_itself() -> None:
    for case in CASES:
        verdict: Verdict = judge(Action.shell(case.command), POLICY)
        assert verdict.explanation.endswith(".")
        assert verdict.policy_digest == POLICY.digest
        assert max(rule.level for rule in verdict.rules) is verdict.level
        assert (verdict.risk is Risk.LOW) is (verdict.level is Level.SAFE)


# Ways to hide a command in another text: none of them may turn it into something SAFE.
WRAPS = [
    "{}; uptime",
    "uptime; {}",
    "uptime && {}",
    "uptime || {}",
    "uptime & {}",
    "uptime | {}",
    "uptime\n{}",
    "{}\nuptime",
    "uptime\r\n{}",
    "uptime `{}`",
    "uptime $({})",
    'uptime "$({})"',
    "uptime <({})",
    "uptime > >({})",
    "({})",
    "{{ {}; }}",
    "! {}",
    "time {}",
    "eval '{}'",
    "sh -c '{}'",
    "sudo {}",
    "env {}",
    "xargs {}",
    "A=1 {}",
    "{} > /tmp/x",
    "{} 2>/dev/null",
    "{} < /dev/null",
    "{} &",
    "{} # uptime",
    "# uptime\n{}",
    "uptime() {{ {}; }}; uptime",
    "cat <<EOF | sh\n{}\nEOF",
    "\\{}",
    "'{}'",
    '"{}"',
    "$'{}'",
    "  {}  ",
    "{} uptime",
    "uptime {}",
]


def _quoted(word: str, at: int, how: str) -> str:
    at = at % (len(word) + 1)
    inner = {"single": "''", "double": '""', "slash": "\\", "join": "\\\n", "zero": "\u200b"}[how]
    return f"{word[:at]}{inner}{word[at:]}"


_HIDDEN = st.sampled_from([case.command for case in NOT_SAFE if case.command.strip()])
_WRAPPED = st.recursive(
    _HIDDEN,
    lambda inner: st.tuples(st.sampled_from(WRAPS), inner).map(
        lambda pair: pair[0].format(pair[1])
    ),
    max_leaves=4,
)
_HOW = st.sampled_from(["single", "double", "slash", "join", "zero"])


@given(st.tuples(st.sampled_from(WRAPS), _WRAPPED).map(lambda pair: pair[0].format(pair[1])))
def test_no_wrapping_makes_a_command_safe(command: str) -> None:
    assert _level(command) is not Level.SAFE


@given(_HIDDEN, st.lists(st.tuples(st.integers(0, 200), _HOW), min_size=1, max_size=4))
def test_no_quoting_makes_a_command_safe(command: str, places: list[tuple[int, str]]) -> None:
    for at, how in places:
        command = _quoted(command, at, how)
    assert _level(command) is not Level.SAFE


@given(
    st.sampled_from([form.example for form in READ_ONLY]),
    st.text(st.sampled_from(';&|<>`$(){}[]*?~!#"\\\n\r\t\x00\u200bé'), min_size=1, max_size=3),
    st.integers(0, 200),
)
def test_no_character_of_the_shell_is_in_a_safe_command(safe: str, added: str, at: int) -> None:
    at = at % (len(safe) + 1)
    assert _level(safe[:at] + added + safe[at:]) is not Level.SAFE


@given(st.text(max_size=200))
def test_any_text_is_judged(command: str) -> None:
    assert _level(command) in set(Level)


@given(st.text(st.sampled_from("/.~*? 'abcdefgvarlogetcshadow"), max_size=30))
def test_only_readable_paths_are_read(path: str) -> None:
    level = _level(f"tail -n 5 /var/log/{path}")
    if level is Level.SAFE:
        words = f"/var/log/{path}".split()
        assert all(".." not in word.split("/") for word in words)
        assert all(word.startswith("/var/log/") for word in words)


@pytest.mark.parametrize("length", [4000, 5000, 200_000])
@pytest.mark.parametrize("piece", ["a ", "a|", "' ", "ps ", "<<E ", "(", "\\\n", "a=", "é"])
def test_a_text_that_is_too_long_is_not_safe(piece: str, length: int) -> None:
    command = (piece * length)[:length]
    assert _level(command) is not Level.SAFE
    if length > 4096:
        assert _level("uptime" + " " * length) is not Level.SAFE


READABLE = [
    ({"/srv/app.log"}, "/srv/app.log", True),
    ({"/srv/app.log"}, "/srv/app.log.1", False),
    ({"/srv/app.log"}, "/srv/app.log/x", False),
    ({"/srv/app.log"}, "/srv/./app.log", False),
    ({"/srv/app.log"}, "/var/log/app.log", False),
    ({"/srv/"}, "/srv/a/b", True),
    ({"/srv/"}, "/srv", False),
    ({"/srv/"}, "/srvx/a", False),
    ({"/srv"}, "/srv/a", False),
    (set[str](), "/var/log/a", False),
]


@pytest.mark.parametrize(("readable", "path", "safe"), READABLE)
def test_only_what_the_policy_names_is_readable(readable: set[str], path: str, safe: bool) -> None:
    policy = replace(POLICY, readable=frozenset(readable))
    assert (_level(f"tail {path}", policy) is Level.SAFE) is safe


LOOKS = ToolSpec("check_port", "it connects.", {}, Risk.LOW, changes=False)
CHANGES = ToolSpec("restart_node", "It restarts.", {}, Risk.MEDIUM, changes=True)


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


@pytest.mark.parametrize("name", ["dangerous.jsonl", "sensitive.jsonl"])
def test_nothing_dangerous_from_public_research_is_safe(name: str) -> None:
    if not CORPORA.is_dir():
        pytest.skip("the corpora of public research are not beside this checkout")
    commands = corpus(name)
    assert len(commands) > 50
    assert [command for command in commands if _level(command) is Level.SAFE] == []
