"""What became tighter and what became looser."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from operator_sre.gate.policy import built_in
from operator_sre.gate.policy.difference import PolicyChange, differences
from tests.gate.policy.writing import RULE, book

OVERRIDE = {"rule": "dd", "reason": "Disks are tested here.", "by": "alice"}
ADDED: list[tuple[dict[str, Any], dict[str, str]]] = [
    ({"safe": [RULE]}, {"rule depth": "looser"}),
    ({"review": [RULE]}, {"rule depth": "tighter"}),
    ({"blocked": [RULE]}, {"rule depth": "tighter"}),
    ({"paths": {"sensitive": ["/srv/x"]}}, {"sensitive path": "tighter"}),
    ({"paths": {"write": ["/srv/x"]}}, {"writable path": "looser"}),
    ({"tools": {"read_file": "require"}}, {"tool read_file": "tighter"}),
    ({"egress": {"deny": ["x"]}}, {"egress deny": "tighter"}),
    ({"egress": {"people": ["*", "x"]}}, {"people egress": "looser"}),
    ({"egress": {"scripts": ["x:443"]}}, {"script egress": "looser"}),
    ({"services": {"deny": ["x"]}}, {"service deny": "tighter"}),
    ({"approval": {"critical": "deny"}}, {"approval critical": "tighter"}),
    ({"approval": {"medium": "auto"}}, {"approval medium": "looser"}),
    ({"overrides": [OVERRIDE]}, {"rule dd": "looser", "override dd": "looser"}),
]
OPPOSITE = {"looser": "tighter", "tighter": "looser"}


def _effects(changes: list[PolicyChange]) -> dict[str, str]:
    return {change.subject: change.effect.value for change in changes}


@pytest.mark.parametrize(("sections", "expected"), ADDED)
def test_what_is_added_and_taken_away_has_an_effect(
    sections: dict[str, Any], expected: dict[str, str]
) -> None:
    changed = book(**sections)
    assert _effects(differences(built_in(), changed)) == expected
    back = {what: OPPOSITE[effect] for what, effect in expected.items()}
    assert _effects(differences(changed, built_in())) == back


@pytest.mark.parametrize(
    ("old", "new", "effect"),
    [
        ({"modes": {"a": "observe"}}, {"modes": {"a": "execute"}}, "looser"),
        ({"modes": {"a": "approve"}}, {"modes": {"a": "observe"}}, "tighter"),
        ({"roles": {"a": "viewer"}}, {"roles": {"a": "admin"}}, "looser"),
        ({"roles": {}}, {"roles": {"a": "admin"}}, "changed"),
        ({"limits": {"blast_radius": 1}}, {"limits": {"blast_radius": 9}}, "looser"),
        ({"budgets": {"turns_max": 9}}, {"budgets": {"turns_max": 1}}, "tighter"),
        ({"limits": {}}, {"limits": {"blast_radius": 9}}, "changed"),
        ({"grants": {"a": ["safe"]}}, {"grants": {"a": ["review"]}}, "changed"),
        ({"review": [RULE]}, {"review": [{**RULE, "why": "Another."}]}, "changed"),
        ({"review": [RULE]}, {"blocked": [RULE]}, "tighter"),
        ({"review": [RULE]}, {"safe": [RULE]}, "looser"),
        ({"egress": {"allow": ["a", "b"]}}, {"egress": {"allow": ["a"]}}, "tighter"),
    ],
)
def test_what_is_changed_has_an_effect(
    old: dict[str, Any], new: dict[str, Any], effect: str
) -> None:
    found = differences(book(**old), book(**copy.deepcopy(new)))
    assert [change.effect for change in found] == [effect]
    assert found[0].sentence


def test_nothing_differs_from_itself() -> None:
    assert differences(built_in(), book()) == []
