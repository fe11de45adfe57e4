"""What runs by itself, and that no change of a policy goes unnoticed."""

from __future__ import annotations

from dataclasses import fields, replace

import msgspec
import pytest

from operator_protocols.domain.action import Action
from operator_protocols.domain.confinement import Confinement
from operator_protocols.domain.precondition import Precondition
from operator_protocols.domain.tool import Parameter, ToolSource, ToolSpec
from operator_protocols.domain.verdict import Level, Mode, Risk
from operator_sre.gate import Policy, Profile
from operator_sre.gate.policy import Decision, Rulebook, Services, built_in
from tests.every import every

TARGET = (Parameter("target", "a name"),)
SPEC = ToolSpec("restart_node", "It restarts.", TARGET, Risk.MEDIUM, changes=True)
LAB = Policy(
    mode=Mode.EXECUTE,
    profile=Profile.LAB,
    tools=(SPEC,),
    boundary_tools=frozenset({"restart_node"}),
    boundary_targets=frozenset({"node-1", "node-2"}),
)

CHANGES: dict[str, list[object]] = {
    "mode": [Mode.OBSERVE, Mode.APPROVE],
    "profile": [Profile.STANDARD],
    "tools": [(), (SPEC, SPEC), (SPEC, replace(SPEC, name="other"))],
    "boundary_tools": [frozenset(), frozenset({"restart_node", "shell"})],
    "boundary_targets": [frozenset(), frozenset({"node-1"}), frozenset({"node-1node-2"})],
    "auto": [frozenset(), frozenset(Risk)],
    "hosts": [frozenset({"db.example.com"}), frozenset({"a", "b"})],
    "boundary": [Confinement(inside="shop"), Confinement(inside="other")],
    "book": [Rulebook(), msgspec.structs.replace(built_in(), sensitive=())],
}
SPEC_CHANGES: dict[str, list[object]] = {
    "name": ["other"],
    "sentence": ["It deletes."],
    "parameters": [(), (Parameter("target", "another"),), (*TARGET, Parameter("hard", "yes"))],
    "risk": [Risk.LOW, Risk.CRITICAL],
    "changes": [False],
    "reversible": [True],
    "source": [ToolSource.SUBJECT],
    "idempotent": [True],
    "undo": ["other"],
    "expected": ["It is up."],
    "verify": ["Look again."],
    "timeout_s": [1.0],
    "settle_s": [1.0],
    "ends": [("process_dead",)],
    "plans": [("node_down",)],
    "exclusive": [True],
    "on": [("node",)],
    "requires": [(Precondition("has_data", "It has its data.", "data_present", equals=True),)],
}


def test_every_field_of_a_policy_is_changed_below() -> None:
    assert {field.name for field in fields(Policy)} == set(CHANGES)
    assert {field.name for field in fields(ToolSpec)} == set(SPEC_CHANGES)


@every(("name", "value"), [(name, value) for name, values in CHANGES.items() for value in values])
def test_the_digest_covers_every_field(name: str, value: object) -> None:
    changed = replace(LAB, **{name: value})  # type: ignore[arg-type]
    assert changed.digest != LAB.digest
    assert changed.digest.startswith("sha256:")


@every(
    ("name", "value"), [(name, value) for name, values in SPEC_CHANGES.items() for value in values]
)
def test_the_digest_covers_every_field_of_a_tool(name: str, value: object) -> None:
    changed = replace(SPEC, **{name: value})  # type: ignore[arg-type]
    assert replace(LAB, tools=(changed,)).digest != LAB.digest


def test_the_digest_does_not_depend_on_an_order() -> None:
    other = replace(SPEC, name="other")
    one, two = replace(LAB, tools=(SPEC, other)), replace(LAB, tools=(other, SPEC))
    assert one.digest == two.digest
    assert LAB.digest == replace(LAB).digest


def test_a_policy_is_strict_unless_it_is_told_otherwise() -> None:
    policy = Policy()
    assert (policy.mode, policy.profile) == (Mode.OBSERVE, Profile.STANDARD)
    assert policy.boundary_tools == policy.boundary_targets == frozenset()
    assert policy.tools == ()
    assert policy.hosts == frozenset()
    assert policy.tool("restart_node") is None


INSIDE = Action("restart_node", {"target": "node-1"}, target="node-1")


@pytest.mark.parametrize(
    ("change", "inside"),
    [
        ({}, True),
        ({"target": "node-2", "arguments": {"target": "node-2"}}, True),
        ({"target": "elsewhere"}, False),
        ({"target": ""}, False),
        ({"tool": "shell"}, False),
        ({"tool": "resume_node"}, False),
        ({"arguments": {"target": "elsewhere"}}, False),
    ],
    ids=str,
)
def test_the_boundary_is_the_tools_and_targets_of_the_rig(
    change: dict[str, object], inside: bool
) -> None:
    assert LAB.inside(replace(INSIDE, **change)) is inside  # type: ignore[arg-type]


def test_the_levels_and_risks_of_the_matrix_are_all_there_are() -> None:
    assert len(Level) == 3
    assert len(Risk) == 4
    assert len(Mode) == 3
    assert len(Profile) == 2


DECISIONS = [
    (None, {}, ["auto", "require", "require", "require"]),
    (
        None,
        {"medium": Decision.AUTO, "critical": Decision.DENY},
        ["auto", "auto", "require", "deny"],
    ),
    (frozenset({Risk.HIGH}), {}, ["require", "require", "auto", "require"]),
    (frozenset(Risk), {"high": Decision.DENY}, ["auto", "auto", "deny", "auto"]),
]


@pytest.mark.parametrize(("auto", "approval", "expected"), DECISIONS)
def test_a_risk_has_a_decision(
    auto: frozenset[Risk] | None, approval: dict[str, Decision], expected: list[str]
) -> None:
    book = msgspec.structs.replace(built_in(), approval=approval)
    policy = Policy(auto=auto, book=book)
    assert [policy.decision(risk) for risk in Risk] == expected


def test_the_digest_is_calculated_once() -> None:
    assert LAB.digest is LAB.digest
    assert LAB.book.digest is LAB.book.digest


@pytest.mark.parametrize(
    ("service", "managed"),
    [
        ("nginx", True),
        ("nginx.service", True),
        ("redis-server", True),
        ("sshd", False),
        ("SSHD", False),
        ("sshd.service", False),
        ("systemd-networkd", False),
        ("cron", False),
        ("../nginx", False),
        ("a/nginx", False),
        ("", False),
    ],
)
def test_only_services_on_the_list_are_touched(service: str, managed: bool) -> None:
    assert Policy().manages(service) is managed


def test_a_service_that_is_denied_is_not_touched_even_when_it_is_allowed() -> None:
    services = Services(allow=("shop",), deny=("shop",))
    assert not Policy(book=Rulebook(services=services)).manages("shop")
