"""The tree in the docstring is the tree in the code."""

from __future__ import annotations

import inspect
import re

import pytest

from operator_protocols import errors
from operator_protocols.domain.category import ErrorCategory, FailureCategory, NextAction
from operator_protocols.errors import MissingExtraError, OperatorError
from operator_protocols.installation import how_to_add_extra

_LINE = re.compile(r"^((?:[│├└─ ]{4})*)(\w+Error)\s{2,}(.*)$")

# name -> exit code, category, next action
EXPECTED = {
    "OperatorError": (1, "agent_runtime_exception", "ask_user"),
    "UsageError": (2, "policy_validation_failed", "fix_code"),
    "ConfigError": (2, "policy_validation_failed", "fix_code"),
    "NotFoundError": (2, "policy_validation_failed", "fix_code"),
    "ExecutorError": (1, "agent_runtime_exception", "rerun"),
    "MissingExtraError": (1, "dependency_conflict", "install_dependency"),
    "MissingPluginError": (1, "dependency_conflict", "install_dependency"),
    "StoreError": (1, "harness_health_failed", "ask_user"),
    "ConflictError": (1, "harness_health_failed", "ask_user"),
    "LedgerDamagedError": (1, "harness_health_failed", "export_audit"),
    "RigError": (1, "harness_health_failed", "rerun"),
    "MissingProgramError": (1, "dependency_conflict", "install_dependency"),
    "PortTakenError": (1, "harness_health_failed", "rerun"),
    "PermitError": (3, "policy_denied", "review_policy_patch"),
    "AuthorityError": (3, "policy_denied", "ask_user"),
    "ModelError": (1, "agent_runtime_exception", "rerun"),
    "ObservationError": (1, "harness_health_failed", "ask_user"),
}


def _drawn() -> list[tuple[str, str | None, str]]:
    """Name, parent and remark of each class, as the docstring draws them."""
    path: list[str] = []
    found: list[tuple[str, str | None, str]] = []
    for line in (errors.__doc__ or "").splitlines():
        if match := _LINE.match(line):
            depth = len(match[1]) // 4
            path[depth:] = [match[2]]
            found.append((match[2], path[depth - 1] if depth else None, match[3]))
    return found


def _classes() -> dict[str, type[OperatorError]]:
    return {
        name: kind
        for name, kind in inspect.getmembers(errors, inspect.isclass)
        if issubclass(kind, OperatorError)
    }


def test_the_drawing_is_the_tree() -> None:
    drawn = {name: parent for name, parent, _ in _drawn()}
    assert drawn == {
        name: None if kind is OperatorError else kind.__mro__[1].__name__
        for name, kind in _classes().items()
    }
    assert set(drawn) == set(errors.__all__) == set(EXPECTED)


def test_the_drawing_tells_every_unusual_exit_code() -> None:
    drawn = list(_drawn())
    assert len(drawn) == len(EXPECTED)
    for name, parent, remark in drawn:
        kind = _classes()[name]
        told = re.search(r"\(exit (\d)\)", remark)
        inherited = _classes()[parent].exit_code if parent else 1
        assert kind.exit_code == (int(told[1]) if told else inherited)


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_every_error_has_its_code_category_and_next_action(name: str) -> None:
    kind = _classes()[name]
    assert (kind.exit_code, kind.category.value, kind.next_action.value) == EXPECTED[name]


def test_an_error_is_a_sentence_and_the_next_step() -> None:
    error = errors.ConfigError("'mdoe' is not a setting.", next_step="Did you mean 'mode'?")
    assert str(error) == "'mdoe' is not a setting. Did you mean 'mode'?"
    assert (error.message, error.next_step) == ("'mdoe' is not a setting.", "Did you mean 'mode'?")
    assert str(OperatorError("It failed.")) == "It failed."


def test_a_missing_extra_says_how_to_install_it() -> None:
    error = MissingExtraError("lab", needed_for="The rig")
    assert "'lab'" in error.message
    assert how_to_add_extra("lab") in error.next_step


def test_the_words_are_those_of_the_contract() -> None:
    """Adding a word is a minor version of the contract, renaming or removing one is a major."""
    assert [str(word) for word in ErrorCategory] == [
        *("dependency_conflict", "docker_unavailable", "policy_denied", "missing_secret_binding"),
        *("budget_exceeded", "trigger_auth_failed", "harness_health_failed"),
        *("agent_runtime_exception", "policy_validation_failed", "network_sandbox_failed"),
        *("secret_scan_failed", "package_verification_failed", "dashboard_unavailable"),
    ]
    assert [str(word) for word in NextAction] == [
        *("fix_code", "install_dependency", "start_docker", "set_secret", "review_policy_patch"),
        *("review_handoff", "increase_budget", "rerun", "export_audit", "ask_user"),
    ]
    assert [str(word) for word in FailureCategory] == [
        *("timeout", "permission", "not_found", "syntax", "runtime", "resource", "network"),
    ]
