"""Judging an action: pure, and closed by default."""

from __future__ import annotations

import posixpath
import re

from operator_protocols.domain.action import SHELL, Action
from operator_protocols.domain.verdict import Level, Risk, Rule, Verdict
from operator_sre.gate.commands import BLOCKED, READ_ONLY, Form
from operator_sre.gate.policy import Policy
from operator_sre.gate.words import fragments_of, words_of

__all__ = ["judge"]


def judge(action: Action, policy: Policy) -> Verdict:
    """What the gate thinks of an action. The strictest rule wins; what is unknown is REVIEW."""
    rules = _shell_rules(action, policy) if action.tool == SHELL else _tool_rules(action, policy)
    strictest = max(rules, key=lambda found: found[0].level.rank)
    rule = strictest[0]
    return Verdict(
        action=action,
        level=rule.level,
        risk=max(risk for _, risk in rules),
        rules=tuple(rule for rule, _ in rules),
        explanation=rule.justification,
        policy_digest=policy.digest,
    )


def _tool_rules(action: Action, policy: Policy) -> list[tuple[Rule, Risk]]:
    spec = policy.tool(action.tool)
    if spec is None:
        why = f"The tool {action.tool!r} is not known here."
        return [(Rule("default_deny", Level.BLOCKED, why), Risk.HIGH)]
    if not spec.changes:
        why = f"{spec.name} only looks: {spec.sentence}"
        return [(Rule(f"tool[{spec.name}]", Level.SAFE, why), Risk.LOW)]
    why = f"{spec.name} changes something: {spec.sentence}"
    return [(Rule(f"tool[{spec.name}]", Level.REVIEW, why), spec.risk)]


def _shell_rules(action: Action, policy: Policy) -> list[tuple[Rule, Risk]]:
    words = words_of(action.command)
    # What fits a closed form only reads, even a log with the name of something terrible.
    for index, form in enumerate(READ_ONLY):
        if words and form.name == words[0] and _fits(form, words[1:], policy):
            why = f"This form of {form.name} only reads."
            return [(Rule(f"read_only[{index}]", Level.SAFE, why), Risk.LOW)]
    blocked = _blocked(words or fragments_of(action.command))
    if blocked is not None:
        return [(blocked, Risk.CRITICAL)]
    if words is None:
        why = "It is more than one plain command, so it needs a person's eye."
        return [(Rule("default_review", Level.REVIEW, why), Risk.HIGH)]
    why = f"{words[0]!r} with these arguments is not in the table of read-only commands."
    return [(Rule("default_review", Level.REVIEW, why), Risk.MEDIUM)]


def _blocked(words: tuple[str, ...]) -> Rule | None:
    names = [posixpath.basename(word) for word in words]
    for index, rule in enumerate(BLOCKED):
        # `mkfs.ext4` is mkfs as well.
        named = any(name == rule.name or name.startswith(f"{rule.name}.") for name in names)
        if named and (not rule.needs or any(re.fullmatch(rule.needs, word) for word in words)):
            return Rule(f"blocked[{index}]", Level.BLOCKED, rule.why)
    return None


def _fits(form: Form, arguments: tuple[str, ...], policy: Policy) -> bool:
    valued = dict(form.valued)
    operands = []
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if word in valued:
            if not rest or not re.fullmatch(valued[word], rest.pop(0)):
                return False
        elif word.startswith("-"):
            if word not in form.flags:
                return False
        else:
            operands.append(word)
    if not form.operands:
        return not operands
    return bool(operands) and all(_operand_fits(form, word, policy) for word in operands)


def _operand_fits(form: Form, word: str, policy: Policy) -> bool:
    if not re.fullmatch(form.operands, word):
        return False
    if form.reads != "file":
        return True
    # Taken as it stands: behind a link, `..` leads elsewhere than its text says. An entry that ends
    # in a slash stands for all below it.
    return word == posixpath.normpath(word) and (
        word in policy.readable
        or any(entry.endswith("/") and word.startswith(entry) for entry in policy.readable)
    )
