"""Variants compare what an agent works with: typed tools only, the shell only, or both."""

from __future__ import annotations

from pathlib import Path

import pytest

from operator_evals.campaign import Kit, Variant, denied_tools, read_variant, variant_from
from operator_protocols.domain.action import SHELL, Action
from operator_protocols.domain.verdict import Level
from operator_protocols.errors import ConfigError
from operator_sre.gate import Policy, judge
from operator_sre.gate.policy.load import book_of

FOLDER = Path(__file__).parents[2] / "evals" / "variants"
KNOWN = ("check_port", "restart_node", "wait")


def test_a_variant_offers_only_its_tools() -> None:
    denied = {
        name: denied_tools(read_variant(FOLDER / f"{name}.toml"), KNOWN)
        for name in ("tools_only", "shell_only", "full_kitchen")
    }
    assert denied == {"tools_only": [SHELL], "shell_only": sorted(KNOWN), "full_kitchen": []}
    some = Variant("some", tools=("wait",))
    assert denied_tools(some, KNOWN) == ["check_port", "restart_node"]
    both = Variant("some", tools=("wait",), kit=Kit.TOOLS)
    assert denied_tools(both, KNOWN) == ["check_port", "restart_node", SHELL]


def test_an_unknown_kit_is_named() -> None:
    with pytest.raises(ConfigError, match="'kit' of the variant in x must be one of tools, shell"):
        variant_from({"name": "v", "kit": "kitchen"}, "x")


def test_a_denied_shell_runs_no_line_of_an_agent() -> None:
    policy = Policy(book=book_of("version: 1\ntools: {shell: deny}\n", "policy.yaml"))
    for line in ("ls", "kill -9 4242"):
        verdict = judge(Action.shell(line), policy)
        assert verdict.level is Level.BLOCKED
        assert "tools" in {rule.id for rule in verdict.rules}
    assert judge(Action.shell("ls"), policy, person=True).level is Level.SAFE
