"""The roles that Operator asks for: enough to observe, and nothing beyond."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import pytest
import yaml

from operator_sre.subjects.kubernetes.resources import WATCHED

ROLES = files("operator_sre.subjects.kubernetes") / "roles"


def rules_of(name: str) -> list[dict[str, Any]]:
    """The rules of a role."""
    role = yaml.safe_load((ROLES / f"{name}.yaml").read_text(encoding="utf-8"))
    found: list[dict[str, Any]] = role["rules"]
    return found


@pytest.mark.parametrize("name", ["observe", "repair", "repair-nodes"])
def test_no_role_has_a_wildcard_a_secret_or_a_way_into_a_container(name: str) -> None:
    rules = rules_of(name)
    assert rules
    for rule in rules:
        words = [word for values in rule.values() for word in values]
        assert not [word for word in words if "*" in word]
        resources = rule.get("resources", [])
        banned = ("secret", "exec", "attach", "portforward", "proxy", "impersonat", "roles")
        assert not [each for each in resources for word in banned if word in each]
        assert not {"bind", "escalate", "impersonate", "deletecollection"} & set(rule["verbs"])


def test_the_observing_role_only_reads_and_covers_every_watched_resource() -> None:
    granted = set()
    for rule in rules_of("observe"):
        assert set(rule["verbs"]) <= {"get", "list", "watch"}
        for group in rule.get("apiGroups", []):
            granted |= {(group, each) for each in rule["resources"] if "watch" in rule["verbs"]}
    assert granted == {(each.group, each.plural) for each in WATCHED}


def test_the_repairing_role_deletes_nothing_but_pods() -> None:
    rules = [*rules_of("repair"), *rules_of("repair-nodes")]
    deleted = [rule["resources"] for rule in rules if "delete" in rule["verbs"]]
    assert deleted == [["pods"]]
