"""A standing rule that a person cannot have made lets nothing run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from operator_protocols.domain.action import Action
from operator_protocols.domain.permit import Binding
from operator_protocols.domain.standing_rule import Likeness, Scope, StandingRule
from operator_protocols.domain.verdict import Level, Risk, Verdict
from operator_sre.gate import Standing
from tests.contract.clock import NOON
from tests.contract.samples import approval


class _Rules:
    """What somebody wrote into the database."""

    def __init__(self, *rules: StandingRule) -> None:
        self._rules = rules

    def find(self, *, revoked: bool = False) -> Sequence[StandingRule]:
        """All of them."""
        return self._rules


def _standing(*rules: StandingRule) -> Standing:
    stored: Any = _Rules(*rules)
    return Standing(stored, resolve=lambda path: path)


def _rule(command: str) -> StandingRule:
    action = Action.shell(command)
    asked = replace(approval(), action=action, binding=Binding(action.digest))
    return _standing().rule_of(
        asked, Likeness.PATH, Scope.EVERYWHERE, name="r", by="ada", at=NOON, path="/srv/app"
    )


def _runs(rule: StandingRule, command: str) -> bool:
    verdict = Verdict(Action.shell(command), Level.REVIEW, Risk.MEDIUM, (), "", "")
    return _standing(rule).allowing(verdict, None, "shop") is not None


def test_a_rule_for_a_directory_that_names_none_covers_no_file() -> None:
    rule = _rule("rm /srv/app/a")
    assert _runs(rule, "rm /srv/app/b")
    for command in ("rm /srv/app/b", "rm /etc/passwd"):
        assert not _runs(replace(rule, path=""), command)


@pytest.mark.parametrize("command", ["ls", "ls -l"])
def test_a_rule_for_a_directory_covers_no_command_without_a_file(command: str) -> None:
    rule = replace(_rule("ls /srv/app/a"), argv=tuple(command.split()))
    assert not _runs(rule, command)
