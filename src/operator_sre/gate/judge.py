"""Judging an action: pure, and closed by default."""

from __future__ import annotations

import re
from collections.abc import Sequence

from operator_protocols.domain.action import SHELL, Action
from operator_protocols.domain.verdict import Level, Risk, Rule, Verdict
from operator_sre.gate.deciding import FOR_PEOPLE, Ours, decides
from operator_sre.gate.grammar.reading import Finding, name_of, read
from operator_sre.gate.grammar.scene import Scene
from operator_sre.gate.grammar.shell import parse
from operator_sre.gate.grammar.tables import tables
from operator_sre.gate.policy import Policy
from operator_sre.gate.policy.rule import PolicyRule
from operator_sre.gate.risk import risk_of, score_of
from operator_sre.gate.typed import SCORES, judge_tool

__all__ = ["judge", "safer", "warm"]

_RULES = {
    "?": ("secrets", Risk.MEDIUM),
    "!": ("destroys_or_runs_code", Risk.HIGH),
    "~": ("changes", Risk.MEDIUM),
    ">": ("egress", Risk.MEDIUM),
    "": ("unproven", Risk.MEDIUM),
}
_SUDO = Rule("sudo", Level.REVIEW, "It runs as another user, so a person has to see it.")
_SUDO_CHANGE = Rule("sudo_change", Level.BLOCKED, "It changes the system as another user.")
_NO_VENV = Rule("venv", Level.REVIEW, "By its name it is no virtual environment.")
_IN_VENV = Rule(
    "venv", Level.REVIEW, "What runs by its name may be a program of the virtual environment's own."
)
_PASSES = Rule("passes", Level.REVIEW, "It is given variables of the operator's environment.")
_VENV = re.compile(r"(?:/(?!\.\.?/)[^/]+)*/(?:\.venv|venv|env|virtualenv)")
_MARKS = frozenset(_RULES) - {""}
WORDS_MAX = 24


def judge(
    action: Action, policy: Policy, *, person: bool = False, ours: Ours | None = None
) -> Verdict:
    """What the gate thinks of an action. The strictest rule wins; what is unknown is REVIEW.

    `person`: a person asks for it, who may reach more hosts than an agent, and who may decide what
    the operator does. `ours` knows the operator under another name.
    """
    if action.tool != SHELL:
        return judge_tool(action, policy)
    return _judge_command(action, policy, person=person, ours=ours)


def warm(policy: Policy) -> None:
    """Make ready what is otherwise made when it is first needed, for whoever judges much."""
    tables().warm()
    policy.book.warm()


def safer(action: Action, policy: Policy, *, person: bool = False) -> str:
    """What would make a command SAFE, where leaving one word out does."""
    script = parse(action.command)
    if script.trouble or len(script.commands) != 1 or len(script.commands[0].words) > WORDS_MAX:
        return ""
    if judge(action, policy, person=person).level is Level.SAFE:
        return ""
    simple = script.commands[0]
    for index, word in enumerate(simple.words[1:], start=1):
        rest = (*simple.words[:index], *simple.words[index + 1 :])
        if word.text.startswith("-") and not _unsafe(rest, _scene(action, policy, person=person)):
            return f"Without {word.text} this only reads."
    return ""


def _scene(action: Action, policy: Policy, *, person: bool) -> Scene:
    reaches = policy.reaches_for_person if person else policy.reaches
    anywhere = policy.book.egress.leads_anywhere(person=person)
    return Scene(policy.secrets, reaches, anywhere, action.cwd)


def _unsafe(words: Sequence[object], scene: Scene) -> bool:
    from operator_sre.gate.grammar.words import Script, Simple

    simple = Simple(tuple(words))  # type: ignore[arg-type]
    return any(one.reason for one in read(Script((simple,)), scene, tables()))


_RISKS = tuple(Risk)
_LEVELS = tuple(Level)


def _judge_command(action: Action, policy: Policy, *, person: bool, ours: Ours | None) -> Verdict:
    script = parse(action.command)
    scene = _scene(action, policy, person=person)
    findings = read(script, scene, tables())
    rules: dict[tuple[str, str], Rule] = {}
    risks, reversible = {Risk.LOW}, None
    if script.trouble:
        rules["structure", ""] = Rule("structure", Level.REVIEW, script.trouble)
    if action.venv and not _VENV.fullmatch(action.venv):
        rules["venv", ""] = _NO_VENV
    elif action.venv and not person:  # whoever filled that folder decides what the names mean
        rules["venv", ""] = _IN_VENV
    if action.passes:
        rules["passes", ""] = _PASSES
    if not person and decides(action.command, script, findings, ours):
        rules["for_people", ""] = FOR_PEOPLE
        risks.add(Risk.CRITICAL)
    for finding in findings:
        spoken = _speaking(finding, policy)
        for one in spoken:
            risks.add(one.risk)
            reversible = one.reversible if one.reversible is not None else reversible
        if finding.reason:
            risks.add(_RULES[_mark(finding.reason)][1])
        if spoken or finding.reason or finding.simple.words:
            _add_rules(finding, spoken, rules)
    strictest = max(rules.values(), key=_rank, default=None)
    level = strictest.level if strictest else Level.SAFE
    score = score_of((one.simple for one in findings), level=level)
    risks.add(risk_of(score))
    risk = max(risks, key=_RISKS.index)
    return Verdict(
        action=action,
        level=level,
        risk=risk,
        rules=tuple(rules.values()) or (Rule("read_only", Level.SAFE, _reads(findings)),),
        explanation=strictest.justification if strictest else _reads(findings),
        policy_digest=policy.digest,
        score=max(score, SCORES[risk]),
        reads=_once(scene.reads),
        writes=_once(scene.writes),
        network=_once(scene.network),
        sensitive=_once(scene.sensitive),
        reversible=True if level is Level.SAFE else reversible,
    )


def _speaking(finding: Finding, policy: Policy) -> Sequence[PolicyRule]:
    """The rules of the policy that count; those that came with it explain what is not proven."""
    spoken = policy.speaking(finding.simple, finding.cwd)
    if finding.reason or not spoken:
        return spoken
    return [one for one in spoken if one.level is Level.BLOCKED or not one.is_built_in]


def _add_rules(
    finding: Finding, spoken: Sequence[PolicyRule], rules: dict[tuple[str, str], Rule]
) -> None:
    """What is to be said of one command: by the policy, and by what is known of its tool."""
    simple, reason = finding.simple, finding.reason
    mark, before = _mark(reason), len(rules)
    trusted = False
    for one in spoken:
        if one.level is Level.SAFE:
            trusted = not simple.privileged
        else:
            rules.setdefault((one.id, ""), Rule(one.id, one.level, one.why))
    if reason and (mark == "?" or not trusted):
        told = reason[len(mark) :]
        rules.setdefault((mark, told), Rule(_RULES[mark][0], Level.REVIEW, told))
    if name_of(simple) in ("sudo", "doas"):
        rules["sudo", ""] = _SUDO
    elif simple.privileged and (len(rules) > before or reason) and (spoken or mark in ("~", "!")):
        rules["sudo_change", ""] = _SUDO_CHANGE


def _mark(reason: str) -> str:
    return reason[0] if reason[:1] in _MARKS else ""


def _rank(rule: Rule) -> int:
    return _LEVELS.index(rule.level)


def _reads(findings: Sequence[Finding]) -> str:
    names = list(dict.fromkeys(name_of(one.simple) for one in findings if one.simple.words))
    return f"It only reads: {', '.join(names[:6])}."


def _once(found: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(found)) if found else ()
