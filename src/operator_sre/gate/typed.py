"""Judging a call of a typed tool: what it is, what the policy says of it, what it is to touch."""

from __future__ import annotations

from collections.abc import Iterator

from operator_protocols.domain.action import Action
from operator_protocols.domain.tool import ToolSource, ToolSpec
from operator_protocols.domain.verdict import Level, Risk, Rule, Verdict
from operator_sre.gate.grammar.paths import resolved
from operator_sre.gate.policy import Policy
from operator_sre.gate.policy.rule import Decision

__all__ = ["SCORES", "judge_tool"]

SCORES = {Risk.LOW: 0, Risk.MEDIUM: 20, Risk.HIGH: 50, Risk.CRITICAL: 80}
# What our own tools call the arguments that the policy has a word on.
SERVICE, PATH = "service", "path"


def judge_tool(action: Action, policy: Policy) -> Verdict:
    """What the gate thinks of it. The strictest rule wins; an unknown tool never runs. Pure."""
    spec = policy.tool(action.tool)
    rules: tuple[Rule, ...]
    if spec is None:
        why = f"The tool {action.tool!r} is not known here."
        rules, risk = (Rule("default_deny", Level.BLOCKED, why),), Risk.HIGH
    else:
        rules = (_own(spec), *_said(spec, policy), *_touching(action, spec, policy))
        risk = spec.risk
    strictest = max(rules, key=lambda rule: rule.level)
    path = _path(action, spec)
    secret = (path,) if path and policy.secrets.holds(path) else ()
    if secret or strictest.level is Level.BLOCKED:
        risk = max(risk, Risk.HIGH if strictest.level is Level.BLOCKED else Risk.MEDIUM)
    elif strictest.level is Level.SAFE:
        risk = Risk.LOW
    return Verdict(
        action=action,
        level=strictest.level,
        risk=risk,
        rules=rules,
        explanation=_explained(rules, strictest),
        policy_digest=policy.digest,
        score=SCORES[risk],
        reads=(path,) if path and spec and not spec.changes else (),
        writes=_writes(action, spec, strictest.level, path),
        sensitive=secret,
        reversible=spec.reversible if spec and spec.changes else spec is not None or None,
    )


def _own(spec: ToolSpec) -> Rule:
    if spec.changes:
        why = f"{spec.name} changes something: {spec.sentence}"
        return Rule(f"tool[{spec.name}]", Level.REVIEW, why)
    return Rule(f"tool[{spec.name}]", Level.SAFE, f"{spec.name} only looks: {spec.sentence}")


def _said(spec: ToolSpec, policy: Policy) -> Iterator[Rule]:
    """What the policy says of the tool itself, and of what only looks at its risk."""
    word = policy.word_on(spec.name)
    if word is Decision.DENY:
        yield Rule("tools", Level.BLOCKED, f"The policy denies {spec.name} under 'tools'.")
    elif word is Decision.REQUIRE:
        why = f"The policy has a person asked before every {spec.name}."
        yield Rule("tools", Level.REVIEW, why)
    if not spec.changes and policy.decision(spec.risk) is not Decision.AUTO:
        why = f"The policy lets nothing run by itself whose risk is {spec.risk}."
        yield Rule("approval", Level.REVIEW, why)


def _touching(action: Action, spec: ToolSpec, policy: Policy) -> Iterator[Rule]:
    """What the policy says of the service or the file that is named. A subject's are its own."""
    if spec.source is not ToolSource.TOOL:
        return
    if spec.parameter(SERVICE) is not None:
        service = str(action.arguments.get(SERVICE, ""))
        if not policy.manages(service):
            yield Rule("services", Level.BLOCKED, _unmanaged(service, policy))
    if spec.parameter(PATH) is None:
        return
    path, given = _path(action, spec), action.arguments.get(PATH)
    if policy.secrets.holds(path):
        yield Rule("secrets", Level.REVIEW, f"{path} may hold secrets.")
    if spec.changes and not (path == given and policy.writes(path)):
        why = f"The policy lets nobody write {path}: a file is named under 'paths: write' first."
        yield Rule("paths", Level.BLOCKED, why)


def _unmanaged(service: str, policy: Policy) -> str:
    services = policy.book.services
    if service.removesuffix(".service").lower() in services.deny:
        return f"The service {service[:60]!r} is never touched: 'services: deny' names it."
    known = ", ".join(services.allow) or "none"
    return f"The service {service[:60]!r} is not among those that may be touched: {known}."


def _path(action: Action, spec: ToolSpec | None) -> str:
    given = action.arguments.get(PATH)
    ours = spec is not None and spec.source is ToolSource.TOOL and spec.parameter(PATH) is not None
    return resolved(given, "/") if ours and isinstance(given, str) and given else ""


def _writes(action: Action, spec: ToolSpec | None, level: Level, path: str) -> tuple[str, ...]:
    if level is Level.SAFE:
        return ()
    touched = (action.target, path if spec and spec.changes else "")
    return tuple(one for one in touched if one)


def _explained(rules: tuple[Rule, ...], strictest: Rule) -> str:
    """Why it is so strict, after what it is."""
    own = rules[0].justification
    return own if strictest is rules[0] else f"{strictest.justification} {own}"
