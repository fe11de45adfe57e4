"""Judging an action: pure, and closed by default."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from operator_protocols.domain.action import SHELL, Action
from operator_protocols.domain.confinement import Confinement
from operator_protocols.domain.tool import ToolSource, ToolSpec
from operator_protocols.domain.verdict import Level, Risk, Rule, Verdict
from operator_sre.gate.confinement import UNENFORCED, confinement_of
from operator_sre.gate.fork_bomb import FORK_BOMB, is_fork_bomb
from operator_sre.gate.grammar.findings import Finding, name_of, read
from operator_sre.gate.grammar.paths import Secrets, resolve_path
from operator_sre.gate.grammar.scene import Scene
from operator_sre.gate.grammar.tables import tables
from operator_sre.gate.policy import Policy
from operator_sre.gate.policy.rule import Decision
from operator_sre.gate.reserved_commands import FOR_PEOPLE, Ours, decides
from operator_sre.shell.line import parse
from operator_sre.shell.words import Script, Simple

__all__ = ["SCORES", "judge", "judge_tool", "risk_of", "safer", "score_of", "warm"]

SCORES = {Risk.LOW: 0, Risk.MEDIUM: 20, Risk.HIGH: 50, Risk.CRITICAL: 80}
_RULES = {
    "?": ("secrets", Risk.MEDIUM),
    "!": ("destroys_or_runs_code", Risk.HIGH),
    "~": ("changes", Risk.MEDIUM),
    ">": ("egress", Risk.MEDIUM),
    "": ("unproven", Risk.MEDIUM),
}
_MARKS = frozenset(_RULES) - {""}
# The marks of commands that change nothing: they read secrets, or ask other hosts.
_READING = frozenset("?>")
_SUDO = Rule("sudo", Level.REVIEW, "It runs as another user and requires approval.")
_SUDO_CHANGE = Rule("sudo_change", Level.BLOCKED, "It changes the system as another user.")
_NO_VENV = Rule("venv", Level.REVIEW, "The path does not look like a virtual environment.")
_IN_VENV = Rule(
    "venv", Level.REVIEW, "The virtual environment may replace the program with its own."
)
_PASSES = Rule("passes", Level.REVIEW, "It receives environment variables of Operator.")
_NO_SHELL = Rule("tools", Level.BLOCKED, "The policy denies command lines under 'tools'.")
_VENV = re.compile(r"(?:/(?!\.\.?/)[^/]+)*/(?:\.venv|venv|env|virtualenv)")
_NO_SECRETS = Secrets(())
_RISKS = tuple(Risk)
_LEVELS = tuple(Level)
_SAFER_WORDS_MAX = 24
# What our own tools call the arguments that the policy has a word on.
_SERVICE, _PATH = "service", "path"
_SUDO_SCORE, _MEDIUM_SCORE, _HIGH_SCORE = 30, 20, 50
_SCORE_MIN = {Level.SAFE: 0, Level.REVIEW: _MEDIUM_SCORE, Level.BLOCKED: _HIGH_SCORE}
_WEIGHTS = {
    **dict.fromkeys(("rm", "delete", "drop", "truncate", "format"), 20),
    **dict.fromkeys(("curl", "wget", "download", "fetch", "clone"), 10),
    **dict.fromkeys(("install", "uninstall", "update", "upgrade"), 15),
}
_VERB = re.compile(r"[A-Za-z]+")
_SCORED_WORDS_MAX = 256


def judge(
    action: Action, policy: Policy, *, person: bool = False, ours: Ours | None = None
) -> Verdict:
    """What the gate thinks of an action. The strictest rule wins; what is unknown is REVIEW.

    `person`: a person asks for it, who may reach more hosts than an agent, and who may decide what
    the operator does. `ours` knows the operator under another name.
    """
    if action.tool != SHELL:
        return judge_tool(action, policy)
    line = action.command
    script = parse(line)
    scene = _scene(action, policy, person=person)
    findings = read(script, scene, tables())
    unproven = any(finding.reason for finding in findings)
    rules: dict[tuple[str, str], Rule] = {}
    risks = {Risk.LOW}
    for rule in _rules_of_line(action, script, policy, person=person):
        rules[rule.id, ""] = rule
    if not person and decides(line, script, findings, ours):
        rules["for_people", ""] = FOR_PEOPLE
        risks.add(Risk.CRITICAL)
    if (script.trouble or unproven) and is_fork_bomb(line):
        rules["fork_bomb", ""] = FORK_BOMB
        risks.add(Risk.CRITICAL)
    reversals: set[bool | None] = set()
    for finding in findings:
        reversal = _add_rules(finding, policy, rules, risks)
        if reversal is not None or (finding.reason and _mark(finding.reason) not in _READING):
            reversals.add(reversal)
    strictest = max(rules.values(), key=_rank, default=None) if rules else None
    level = strictest.level if strictest else Level.SAFE
    score = score_of([finding.simple for finding in findings], level=level)
    risks.add(risk_of(score))
    risk = max(risks, key=_RISKS.index) if len(risks) > 1 else Risk.LOW
    if strictest is None:
        names = dict.fromkeys(
            name_of(finding.simple) for finding in findings if finding.simple.words
        )
        why = f"It only reads: {', '.join(list(names)[:6])}."
        rules["read_only", ""] = Rule("read_only", Level.SAFE, why)
    else:
        why = strictest.justification
    # A rule of the policy that calls a command SAFE does not prove that it only reads.
    known = Level.REVIEW if unproven and level is Level.SAFE else level
    confinement = confinement_of(findings, scene, known)
    if level is Level.REVIEW and not script.trouble:
        confinement = _confinement_of_question(action, script, findings) or confinement
    if policy.confines(action, level, person=person):
        confinement = policy.boundary
    elif confinement is not None and not person and (shown := policy.shown_files) is not None:
        confinement = replace(confinement, shown=shown)
    return Verdict(
        action=action,
        level=level,
        risk=risk,
        rules=tuple(rules.values()),
        explanation=why,
        policy_digest=policy.digest,
        score=max(score, SCORES[risk]),
        reads=_once(scene.reads),
        writes=_once(scene.writes),
        network=_once(scene.network),
        sensitive=_once(scene.sensitive),
        reversible=level is Level.SAFE or _worst(reversals),
        confinement=confinement,
        unenforced="" if confinement is not None else UNENFORCED,
    )


def _rank(rule: Rule) -> int:
    return _LEVELS.index(rule.level)


def _once(texts: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(texts)) if texts else ()


def _rules_of_line(
    action: Action, script: Script, policy: Policy, *, person: bool
) -> Iterator[Rule]:
    """What holds for a command line whatever its commands are."""
    if script.trouble:
        yield Rule("structure", Level.REVIEW, script.trouble)
    if action.venv and not _VENV.fullmatch(action.venv):
        yield _NO_VENV
    elif action.venv and not person:  # the owner of that folder decides what the names mean
        yield _IN_VENV
    if action.passes:
        yield _PASSES
    if not person and policy.word_on(SHELL) is Decision.DENY:
        yield _NO_SHELL


def _add_rules(
    finding: Finding, policy: Policy, rules: dict[tuple[str, str], Rule], risks: set[Risk]
) -> bool | None:
    """Add what the policy, and what is known of the tool, say of one command.

    Returns whether it is reversible, where a rule tells.
    """
    simple, reason = finding.simple, finding.reason
    spoken = policy.speaking(simple, finding.cwd)
    if spoken and not reason:  # built-in rules explain what is not proven
        spoken = [rule for rule in spoken if rule.level is Level.BLOCKED or not rule.is_built_in]
    mark, before = _mark(reason), len(rules)
    trusted = False
    for rule in spoken:
        risks.add(rule.risk)
        if rule.level is Level.SAFE:
            trusted = not simple.privileged
        else:
            rules.setdefault((rule.id, ""), Rule(rule.id, rule.level, rule.why))
    if reason:
        name, risk = _RULES[mark]
        risks.add(risk)
        if mark == "?" or not trusted:
            sentence = reason[len(mark) :]
            rules.setdefault((mark, sentence), Rule(name, Level.REVIEW, sentence))
    if name_of(simple) in ("sudo", "doas"):
        rules["sudo", ""] = _SUDO
    elif simple.privileged and (len(rules) > before or reason) and (spoken or mark in ("~", "!")):
        rules["sudo_change", ""] = _SUDO_CHANGE
    if not spoken:
        return None
    return _worst({rule.reversible for rule in spoken if rule.reversible is not None})


def _worst(reversals: set[bool | None]) -> bool | None:
    """Whether all of them can be reversed; None where that is not known of one."""
    if False in reversals:
        return False
    return True if reversals == {True} else None


def _confinement_of_question(
    action: Action, script: Script, findings: Sequence[Finding]
) -> Confinement | None:
    """What an approved command is held to that would be SAFE if it could ask and read all.

    None where it is not known to only read: a reason hides the reasons behind it.
    """
    marks = {_mark(finding.reason) for finding in findings if finding.reason}
    if not marks or not marks <= _READING:
        return None
    scene = Scene(_NO_SECRETS, lambda host: True, anywhere=True, cwd=action.cwd)
    again = read(script, scene, tables())
    if any(finding.reason or finding.simple.privileged for finding in again):
        return None
    held = confinement_of(again, scene, Level.SAFE)
    return replace(held, credentials="?" in marks) if held else None


def _mark(reason: str) -> str:
    return reason[0] if reason[:1] in _MARKS else ""


def _scene(action: Action, policy: Policy, *, person: bool) -> Scene:
    reaches = policy.reaches_for_person if person else policy.reaches
    anywhere = policy.book.egress.leads_anywhere(person=person)
    in_venv = _VENV.fullmatch(action.venv) is not None
    return Scene(policy.secrets, reaches, anywhere, action.cwd, venv=in_venv)


def warm(policy: Policy) -> None:
    """Prepare now what is otherwise prepared on first use: for a process that judges often."""
    tables().warm()
    policy.book.warm()


def safer(action: Action, policy: Policy, *, person: bool = False) -> str:
    """What would make a command SAFE, where leaving one word out does."""
    script = parse(action.command)
    if script.trouble or len(script.commands) != 1:
        return ""
    words = script.commands[0].words
    if len(words) > _SAFER_WORDS_MAX or judge(action, policy, person=person).level is Level.SAFE:
        return ""
    for index, word in enumerate(words[1:], start=1):
        if not word.text.startswith("-"):
            continue
        rest = Script((Simple((*words[:index], *words[index + 1 :])),))
        scene = _scene(action, policy, person=person)
        if not any(finding.reason for finding in read(rest, scene, tables())):
            return f"Without {word.text} this only reads."
    return ""


def score_of(commands: Sequence[Simple], *, level: Level) -> int:
    """The sum of the weights of all words in the commands.

    A verb counts as the program, as a word of its own, as an option, or as a word of a program text
    such as SQL, never as a part of a longer word: `terraform` is no `rm`.
    """
    score = 0
    seen: set[int] = set()
    for simple in commands:
        words = simple.words[:_SCORED_WORDS_MAX]
        if len(commands) > 1:  # a command inside of another has the same words
            words = tuple(word for word in words if id(word) not in seen)
            seen.update(map(id, words))
        if name_of(simple) in ("sudo", "doas"):
            score += _SUDO_SCORE
        for word in words:
            text = word.text
            if "/" in text and word is simple.words[0]:
                text = text.rpartition("/")[2]
            if " " in text:
                score += sum(_WEIGHTS.get(verb.lower(), 0) for verb in _VERB.findall(text[:1024]))
            else:
                score += _WEIGHTS.get(text.lstrip("-").lower(), 0)
    return max(score, _SCORE_MIN[level])


def risk_of(score: int) -> Risk:
    """The level of a score; CRITICAL is never a matter of adding up, but of a rule."""
    if score >= _HIGH_SCORE:
        return Risk.HIGH
    return Risk.MEDIUM if score >= _MEDIUM_SCORE else Risk.LOW


def judge_tool(action: Action, policy: Policy) -> Verdict:
    """What the gate thinks of it. The strictest rule wins; an unknown tool never runs. Pure."""
    spec, path = policy.tool(action.tool), ""
    rules: tuple[Rule, ...]
    if spec is None:
        why = f"The tool {action.tool!r} is unknown."
        rules, risk = (Rule("default_deny", Level.BLOCKED, why),), Risk.HIGH
    else:
        given = action.arguments.get(_PATH)
        ours = spec.source is ToolSource.TOOL and spec.parameter(_PATH) is not None
        path = resolve_path(given, "/") if ours and isinstance(given, str) and given else ""
        rules, risk = tuple(_rules_of_tool(action, spec, policy, path)), spec.risk
    changes = spec is not None and spec.changes
    own, strictest = rules[0], max(rules, key=lambda rule: rule.level)
    secret = (path,) if path and policy.secrets.holds(path) else ()
    if secret or strictest.level is Level.BLOCKED:
        risk = max(risk, Risk.HIGH if strictest.level is Level.BLOCKED else Risk.MEDIUM)
    elif strictest.level is Level.SAFE:
        risk = Risk.LOW
    touched = (action.target, path if changes else "") if strictest.level is not Level.SAFE else ()
    why_first = "" if strictest is own else f"{strictest.justification} "
    return Verdict(
        action=action,
        level=strictest.level,
        risk=risk,
        rules=rules,
        explanation=f"{why_first}{own.justification}",
        policy_digest=policy.digest,
        score=SCORES[risk],
        reads=(path,) if path and not changes else (),
        writes=tuple(filter(None, touched)),
        sensitive=secret,
        reversible=spec.reversible if spec and spec.changes else spec is not None or None,
    )


def _rules_of_tool(action: Action, spec: ToolSpec, policy: Policy, path: str) -> Iterator[Rule]:
    """What the tool is, what the policy says of it, and of the service or file that is named."""
    if spec.changes:
        why = f"{spec.name} makes changes: {spec.sentence}"
        yield Rule(f"tool[{spec.name}]", Level.REVIEW, why)
    else:
        yield Rule(f"tool[{spec.name}]", Level.SAFE, f"{spec.name} only reads: {spec.sentence}")
    word = policy.word_on(spec.name)
    if word is Decision.DENY:
        yield Rule("tools", Level.BLOCKED, f"The policy denies {spec.name} under 'tools'.")
    elif word is Decision.REQUIRE:
        why = f"The policy requires approval for {spec.name}."
        yield Rule("tools", Level.REVIEW, why)
    if not spec.changes and policy.decision(spec.risk) is not Decision.AUTO:
        why = f"The policy requires approval for actions of {spec.risk} risk."
        yield Rule("approval", Level.REVIEW, why)
    if spec.source is not ToolSource.TOOL:  # the services and files of a subject are its own
        return
    service = str(action.arguments.get(_SERVICE, ""))
    if spec.parameter(_SERVICE) is not None and not policy.manages(service):
        services = policy.book.services
        if service.removesuffix(".service").lower() in services.deny:
            why = f"The service {service[:60]!r} is denied by 'services: deny' in the policy."
        else:
            known = ", ".join(services.allow) or "none"
            why = f"The service {service[:60]!r} is not allowed. The policy allows: {known}."
        yield Rule("services", Level.BLOCKED, why)
    if spec.parameter(_PATH) is None:
        return
    if policy.secrets.holds(path):
        yield Rule("secrets", Level.REVIEW, f"{path} may hold secrets.")
    if spec.changes and not (path == action.arguments.get(_PATH) and policy.writes(path)):
        why = f"The policy does not allow writing {path}. List it under 'paths: write'."
        yield Rule("paths", Level.BLOCKED, why)
