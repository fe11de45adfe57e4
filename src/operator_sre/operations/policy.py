"""Policy: the rules that decide what runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta

from operator_protocols.domain.confirmation import Confirmation
from operator_protocols.domain.token import Role
from operator_protocols.domain.verdict import Level
from operator_sre.app.policy import (
    Checked,
    Judged,
    compare_policies,
    explain_policy,
    rule_fields,
)
from operator_sre.contract import SCHEMA_VERSION
from operator_sre.contract.schemas import Maybe, fields_of
from operator_sre.gate.policy import PolicyRule, Rulebook
from operator_sre.gate.policy.difference import Effect as Strictness
from operator_sre.operations.operation import (
    TEXT_MAX,
    Effect,
    Local,
    Operation,
    Request,
    Table,
    View,
)

if TYPE_CHECKING:
    from operator_sre.app.confirmations import Asked
    from operator_sre.app.wiring import App
    from operator_sre.config import Config

__all__ = [
    "OPERATIONS",
    "SUMMARY",
    "changed_policy",
    "compare_files",
    "explain_text",
    "policy_change",
]

SUMMARY = "Check, explain and change the rules that decide what runs."
File = Annotated[Path | None, Meta(description="The policy file; the active one by default.")]
_ALWAYS = ("id", "level", "risk", "origin", "why")
_RULE = {name: it if name in _ALWAYS else Maybe(it) for name, it in fields_of(PolicyRule).items()}


class CheckPolicy(Request, frozen=True):
    """Which policy."""

    file: File = None


class ShowPolicy(Request, frozen=True):
    """No parameters."""


class ExplainPolicy(Request, frozen=True):
    """Which rule, or which command."""

    rule_or_command: Annotated[
        str,
        Meta(
            max_length=TEXT_MAX,
            description="A rule id, or a quoted command.",
            extra={"metavar": "RULE|COMMAND"},
        ),
    ]


class ComparePolicies(Request, frozen=True):
    """Which two."""

    old: Annotated[Path, Meta(description="The old policy file.")]
    new: Annotated[Path, Meta(description="The new policy file.")]


class ChangePolicy(Request, frozen=True):
    """What to allow."""

    request: Annotated[
        str, Meta(max_length=TEXT_MAX, description="What to allow, in plain words, quoted.")
    ]
    risk: Annotated[
        str, Meta(max_length=20, description="Set to high to allow broad or private access.")
    ] = ""


class InitPolicy(Request, frozen=True):
    """Where to write it."""

    file: File = None


@dataclass(frozen=True, slots=True)
class CheckedPolicy:
    """A policy without a mistake in it."""

    policy: Checked
    schema_version: str = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class PolicyDocument:
    """The active policy: where it comes from, and everything that it says."""

    file: str
    digest: str
    policy: Annotated[Mapping[str, Any], {**fields_of(Rulebook), "rules": [_RULE]}]
    schema_version: str = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class ExplainedRule:
    """One rule."""

    rule: Annotated[Mapping[str, Any], _RULE]
    schema_version: str = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class ExplainedCommand:
    """What the policy says of a command, and the ids of the rules that apply to each part of it.

    `lines` say the same to people.
    """

    level: Level
    explanation: str
    parts: Annotated[Sequence[Mapping[str, Any]], [{"command": str, "rules": [str]}]]
    lines: Sequence[str]
    rule: None = None
    schema_version: str = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class PolicyDifference:
    """How two policies differ, in what they say and in what they decide."""

    changes: Annotated[
        Sequence[Mapping[str, str]], [{"effect": Strictness, "what": str, "sentence": str}]
    ]
    commands: Annotated[Sequence[Judged], [Judged]]
    judged: int
    schema_version: str = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class ChangedPolicy:
    """The confirmation with which a policy was changed."""

    confirmation: Confirmation
    schema_version: str = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class WrittenPolicy:
    """The file that was written."""

    file: str
    schema_version: str = SCHEMA_VERSION


def explain_text(config: Config, *, rule_or_command: str) -> ExplainedRule | ExplainedCommand:
    """The rule with this id, or the rules that apply to a command."""
    found = explain_policy(config, rule_or_command)
    if found.rule is not None:
        return ExplainedRule(rule_fields(found.rule))
    assert found.verdict is not None
    parts, lines = [], []
    for command, rules in found.parts:
        parts.append({"command": command, "rules": [rule.id for rule in rules]})
        lines.append(f"  {command}")
        lines += [f"    {rule.level} {rule.id} ({rule.origin}): {rule.why}" for rule in rules]
        if not rules:
            lines.append("    no rule matches; the table of its tool decides")
    return ExplainedCommand(found.verdict.level, found.verdict.explanation, parts, lines)


def compare_files(config: Config, *, old: Path, new: Path) -> PolicyDifference:
    """What becomes stricter or looser."""
    compared = compare_policies(old, new)
    changes = [
        {"effect": change.effect, "what": change.subject, "sentence": change.sentence}
        for change in compared.changes
    ]
    return PolicyDifference(changes, compared.commands, compared.judged)


def policy_change(app: App, *, request: str, risk: str) -> Asked:
    """The change that a request in plain words stands for."""
    from operator_sre.app.patches import sketch_for

    return sketch_for(app, request, risk=risk).wanted


def changed_policy(
    app: App, *, request: str, risk: str, confirmation: Confirmation
) -> Confirmation:
    """The confirmation that made the change."""
    return confirmation


def _checked_view(found: CheckedPolicy, now: datetime) -> View:
    policy = found.policy
    rules = ", ".join(f"{number} {level}" for level, number in policy.rules.items())
    return [
        f"{policy.file} is valid: {rules}; {policy.examples} examples hold.",
        f"overrides: {policy.overrides}, digest: {policy.digest}",
    ]


def _policy_view(found: PolicyDocument, now: datetime) -> View:
    names = ("id", "level", "risk", "origin", "why")
    rows = [[rule[name] for name in names] for rule in found.policy["rules"]]
    lines = []
    for section, body in found.policy.items():
        if section in ("rules", "overrides"):
            continue
        if isinstance(body, dict):
            lines += [f"{section} {key}: {_join(value)}" for key, value in body.items()]
        else:
            lines.append(f"{section}: {_join(body)}")
    return [
        f"policy: {found.file}",
        f"digest: {found.digest}",
        "",
        Table(("rule", "level", "risk", "from", "why"), rows),
        "",
        *lines,
        *(
            f"overridden {override['rule']} by {override['by']}: {override['reason']}"
            for override in found.policy["overrides"]
        ),
    ]


def _explained_view(found: ExplainedRule | ExplainedCommand, now: datetime) -> View:
    if isinstance(found, ExplainedRule):
        return [f"{key}: {_join(value)}" for key, value in found.rule.items()]
    return [f"{found.level.upper()}: {found.explanation}", *found.lines]


def _join(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _difference_view(found: PolicyDifference, now: datetime) -> View:
    return [
        *(f"{each['effect']:<8} {each['what']}: {each['sentence']}" for each in found.changes),
        *(f"{each.old} -> {each.new}: {each.command}" for each in found.commands),
        f"{len(found.commands)} of {found.judged} commands are judged differently.",
    ]


def _patch_view(change: Asked) -> View:
    from operator_sre.app.patches import patch_of

    return [*patch_of(change).splitlines(), ""]


def _changed_view(found: ChangedPolicy, now: datetime) -> View:
    confirmation = found.confirmation
    return [f"{confirmation.outcome or confirmation.state}: {confirmation.rationale}"]


_local_operation = partial(Operation, opens="settings", local=Local.FILES)
OPERATIONS = (
    _local_operation(
        name="policy check",
        help="Check a policy and run its examples. Exit 2 with FILE:LINE:COLUMN if it is invalid.",
        request=CheckPolicy,
        result=CheckedPolicy,
        call="operator_sre.app.policy.check_policy",
        view=_checked_view,
        arguments=("file",),
    ),
    _local_operation(
        name="policy show",
        help="Show the active policy: the built-in rules with your overrides.",
        request=ShowPolicy,
        result=PolicyDocument,
        call="operator_sre.app.policy.shown_policy",
        view=_policy_view,
    ),
    _local_operation(
        name="policy explain",
        help="Explain a rule, or which rules apply to a command and why.",
        request=ExplainPolicy,
        result=ExplainedRule,
        others=(ExplainedCommand,),
        call="operator_sre.operations.policy.explain_text",
        view=_explained_view,
        arguments=("rule_or_command",),
        unprinted=("lines",),
    ),
    _local_operation(
        name="policy diff",
        help="Compare two policies: what becomes stricter or looser, with sample commands.",
        request=ComparePolicies,
        result=PolicyDifference,
        call="operator_sre.operations.policy.compare_files",
        view=_difference_view,
        arguments=("old", "new"),
    ),
    Operation(
        name="policy change",
        help="Allow a host or a command, or raise a budget. Shows the diff before you confirm.",
        request=ChangePolicy,
        result=ChangedPolicy,
        call="operator_sre.operations.policy.policy_change",
        confirmation="operator_sre.operations.policy.policy_change",
        confirmed="operator_sre.operations.policy.changed_policy",
        preview=_patch_view,
        view=_changed_view,
        effect=Effect.CHANGE,
        role=Role.ADMIN,
        arguments=("request",),
        local=Local.FILES,
    ),
    _local_operation(
        name="policy init",
        help="Write a commented policy to start from. Overwrites nothing.",
        request=InitPolicy,
        result=WrittenPolicy,
        call="operator_sre.app.policy.write_policy",
        view=lambda found, now: [
            f"Wrote {found.file}. Check it with: operator policy check {found.file}"
        ],
        effect=Effect.CHANGE,
        role=Role.ADMIN,
        arguments=("file",),
    ),
)
