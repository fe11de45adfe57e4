"""Which rules count when several speak, and what it costs to find them."""

from __future__ import annotations

import timeit

import pytest

from operator_protocols.domain.verdict import Level
from operator_sre.gate.grammar.shell import parse
from operator_sre.gate.policy import PolicyRule, built_in
from operator_sre.gate.policy.index import Index

SPEAKING_S_MAX = 30e-6


def _rule(id: str, level: Level, origin: str = "policy.yaml") -> PolicyRule:
    return PolicyRule(id, level, "Because.", command=("x",), origin=origin)


OURS = _rule("ours", Level.REVIEW, "built-in")
REVIEW = _rule("review", Level.REVIEW)
SAFE = _rule("safe", Level.SAFE)
BLOCKED = _rule("blocked", Level.BLOCKED, "built-in")


@pytest.mark.parametrize(
    ("rules", "counting"),
    [
        ([SAFE], ["safe"]),
        ([SAFE, OURS], ["safe"]),
        ([SAFE, OURS, REVIEW], ["review"]),
        ([SAFE, BLOCKED], ["blocked"]),
        ([SAFE, OURS, REVIEW, BLOCKED], ["blocked", "review"]),
        ([OURS, REVIEW], ["ours", "review"]),
        ([REVIEW, BLOCKED], ["blocked", "review"]),
    ],
    ids=lambda found: "+".join(getattr(one, "id", str(one)) for one in found),
)
def test_the_strictest_comes_first_and_safe_loosens_only_built_in_review(
    rules: list[PolicyRule], counting: list[str]
) -> None:
    simple = parse("x").commands[0]
    assert [rule.id for rule in Index(rules).speaking(simple)] == counting
    backwards = [rule.id for rule in Index(rules[::-1]).speaking(simple)]
    assert sorted(backwards) == sorted(counting)


def test_a_rule_that_names_a_command_twice_speaks_once() -> None:
    rule = PolicyRule("one", Level.REVIEW, "Because.", command=("mkfs", "mkfs*"))
    other = PolicyRule("two", Level.REVIEW, "Because.", command=("mk*",))
    simple = parse("mkfs").commands[0]
    assert [found.id for found in Index([rule, other]).speaking(simple)] == ["one", "two"]


@pytest.mark.parametrize("line", ["uptime", "ls -la /var/log /tmp", "ss -ltn 2>/dev/null"])
def test_a_command_that_no_rule_names_costs_next_to_nothing(line: str) -> None:
    simple = parse(line).commands[0]
    assert built_in().speaking(simple) == ()
    spent = min(timeit.repeat(lambda: built_in().speaking(simple), number=200, repeat=20)) / 200
    assert spent < SPEAKING_S_MAX
