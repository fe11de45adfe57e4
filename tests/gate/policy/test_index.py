"""Which rules count when several speak, and what it costs to find them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from operator_protocols.domain.verdict import Level
from operator_sre.gate.policy import PolicyRule, built_in
from operator_sre.gate.policy.rule import Index
from operator_sre.shell.line import parse
from tests.measuring import times_as_long


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
def test_a_command_that_no_rule_names_costs_the_same_however_many_rules_there_are(
    line: str,
) -> None:
    simple = parse(line).commands[0]
    assert built_in().speaking(simple) == ()
    many, few = (
        Index(
            PolicyRule(f"r{n}", Level.REVIEW, "Because.", command=(f"command-{n}",))
            for n in range(count)
        )
        for count in (4000, 40)
    )

    def asking(index: Index) -> Callable[[], object]:
        return lambda: [index.speaking(simple) for _ in range(200)]

    # Who asked every rule would need a hundred times as long.
    assert times_as_long(asking(many), asking(few), enough=3.0) <= 3.0
