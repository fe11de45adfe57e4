"""Who may what, unless a plug-in says otherwise."""

from __future__ import annotations

from dataclasses import replace

import pytest

from operator_protocols.domain.action import Action
from operator_protocols.domain.entry import Actor
from operator_protocols.domain.verdict import Level, Risk, Verdict
from operator_protocols.ports import CapabilityChecker, PermissionChecker
from operator_sre.gate.authority import Grant, GrantedCapabilities, LocalPermissions, Role
from tests.contract.samples import approval

ROLES = {"vera": Role.VIEWER, "paul": Role.APPROVER, "anna": Role.ADMIN}
PEOPLE = LocalPermissions(ROLES)


def _verdict(level: Level = Level.REVIEW, tool: str = "shell") -> Verdict:
    return Verdict(Action(tool, {"command": "x"}), level, Risk.MEDIUM, (), "", "")


def test_the_defaults_meet_their_ports() -> None:
    assert isinstance(PEOPLE, PermissionChecker)
    assert isinstance(GrantedCapabilities(), CapabilityChecker)


@pytest.mark.parametrize("risk", list(Risk))
def test_a_single_local_user_may_everything(risk: Risk) -> None:
    alone = LocalPermissions()
    assert alone.may_request(Actor("me", "user"), _verdict()) == ""
    assert alone.may_approve("me", replace(approval(), risk=risk)) == ""
    assert alone.may_administer("me", "reset") == ""


@pytest.mark.parametrize(
    ("person", "risk", "why"),
    [
        ("vera", Risk.LOW, "'vera' is a viewer"),
        ("nobody", Risk.LOW, "'nobody' is a viewer"),
        ("paul", Risk.HIGH, ""),
        ("paul", Risk.CRITICAL, "up to high"),
        ("anna", Risk.CRITICAL, ""),
    ],
)
def test_who_may_approve_what(person: str, risk: Risk, why: str) -> None:
    said = PEOPLE.may_approve(person, replace(approval(), risk=risk))
    assert bool(said) is bool(why)
    assert why in said


def test_only_an_admin_undoes_what_holds_for_everybody() -> None:
    assert PEOPLE.may_administer("anna", "revoke a rule") == ""
    assert PEOPLE.may_administer("paul", "revoke a rule") == (
        "'paul' is not an admin and may not revoke a rule."
    )


def test_a_viewer_has_nothing_changed_and_a_machine_may_ask() -> None:
    assert PEOPLE.may_request(Actor("vera", "user"), _verdict())
    assert PEOPLE.may_request(Actor("vera", "user"), _verdict(Level.SAFE)) == ""
    assert PEOPLE.may_request(Actor("paul", "user"), _verdict()) == ""
    assert PEOPLE.may_request(Actor("system", "system"), _verdict()) == ""


@pytest.mark.parametrize(
    ("agent", "level", "tool", "why"),
    [
        ("looker:1", Level.SAFE, "shell", ""),
        ("looker:2", Level.REVIEW, "shell", "'looker' has no grant for review actions"),
        ("mender", Level.REVIEW, "restart_node", ""),
        ("mender", Level.REVIEW, "shell", "'mender' was not granted the tool 'shell'"),
        ("stranger", Level.SAFE, "shell", "'stranger' was granted nothing"),
    ],
)
def test_agents_have_what_they_were_granted(agent: str, level: Level, tool: str, why: str) -> None:
    granted = GrantedCapabilities(
        {
            "looker": Grant(frozenset({Level.SAFE})),
            "mender": Grant(tools=frozenset({"restart_node"})),
        }
    )
    said = granted.may_act(agent, _verdict(level, tool))
    assert bool(said) is bool(why)
    assert why in said


def test_a_star_is_everybody_else_and_no_grants_leave_it_to_the_mode() -> None:
    assert GrantedCapabilities({"*": Grant()}).may_act("stranger", _verdict()) == ""
    assert GrantedCapabilities().may_act("stranger", _verdict(Level.BLOCKED)) == ""
