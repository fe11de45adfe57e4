"""A permit is bound to an action by its digest, so the digest must cover what decides."""

from __future__ import annotations

import json
from dataclasses import fields, replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from operator_protocols.domain.action import (
    SHELL,
    SHELL_S,
    TIMEOUT_S,
    TIMEOUT_S_MAX,
    Action,
    Outcome,
    Result,
    Urgency,
    digest_of,
)
from operator_protocols.domain.observation import Value

BASE = Action("restart_node", {"target": "node-1"}, target="node-1", reasoning="r", expected="e")
DECIDING: dict[str, object] = {
    "tool": "resume_node",
    "arguments": {"target": "node-2"},
    "target": "node-2",
    "cwd": "/tmp",
    "timeout_s": 1.0,
    "venv": "/srv/.venv",
    "passes": ("KUBECONFIG",),
    "place": "docker://3f2a",
}
WORDS: dict[str, object] = {
    "reasoning": "another",
    "expected": "another",
    "urgency": Urgency.IMMEDIATE,
    "inferred": ("target",),
}

_VALUES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
_ARGUMENTS = st.dictionaries(st.text(), _VALUES, max_size=4)


def test_every_field_is_sorted_into_deciding_or_words() -> None:
    assert {field.name for field in fields(Action)} == {*DECIDING, *WORDS}


@pytest.mark.parametrize("name", sorted(DECIDING))
def test_the_digest_changes_with_every_deciding_field(name: str) -> None:
    changed = replace(BASE, **{name: DECIDING[name]})  # type: ignore[arg-type]
    assert changed.digest != BASE.digest


@pytest.mark.parametrize("name", sorted(WORDS))
def test_the_digest_does_not_change_with_the_words_around_it(name: str) -> None:
    changed = replace(BASE, **{name: WORDS[name]})  # type: ignore[arg-type]
    assert changed.digest == BASE.digest


@given(_ARGUMENTS, _ARGUMENTS)
def test_other_arguments_are_another_action(a: dict[str, Value], b: dict[str, Value]) -> None:
    assume(json.dumps(a, sort_keys=True) != json.dumps(b, sort_keys=True))
    assert replace(BASE, arguments=a).digest != replace(BASE, arguments=b).digest


def test_one_and_true_and_their_texts_are_different_arguments() -> None:
    digests = {replace(BASE, arguments={"n": n}).digest for n in (1, 1.0, True, "1", "true", None)}
    assert len(digests) == 6


def test_the_order_of_arguments_does_not_matter() -> None:
    one = replace(BASE, arguments={"a": 1, "b": 2})
    other = replace(BASE, arguments={"b": 2, "a": 1})
    assert one.digest == other.digest


def test_any_text_has_a_digest() -> None:
    hostile = Action.shell("echo \ud800 \x00")
    assert hostile.digest != Action.shell("echo \udfff \x00").digest


def test_the_canonical_form_is_stable_for_all_time() -> None:
    assert digest_of({"b": [1, None, "ü"], "a": True}) == (
        "sha256:c7e9e1bd58838c64e76acd5c32e7b7309c84979ad14bd6dd74fd3a682123189a"
    )


def test_a_command_is_shown_as_people_write_it() -> None:
    shell = Action.shell("ps -p 1", target="node-1", reasoning="why")
    assert (shell.tool, shell.command, shell.target) == (SHELL, "ps -p 1", "node-1")
    call = Action("restart_node", {"target": "node-1", "hard": True})
    assert call.command == "restart_node(hard=True, target=node-1)"


@pytest.mark.parametrize("outcome", list(Outcome))
@pytest.mark.parametrize("code", [0, 1, None])
def test_only_a_run_to_a_good_end_is_ok(outcome: Outcome, code: int | None) -> None:
    assert Result(outcome, code).ok is (outcome is Outcome.RAN and code == 0)


def test_a_program_is_told_as_a_line_and_has_its_words() -> None:
    action = Action.program(["printf", "%s", "a b'c"])
    assert action.command == "printf %s 'a b'\"'\"'c'"
    assert action.argv == ("printf", "%s", "a b'c")
    assert Action.shell("ls").argv == ()
    assert Action.shell("ls").timeout_s == SHELL_S < TIMEOUT_S < TIMEOUT_S_MAX
