"""The policy in force: what it says and what it thinks of commands, and how two of them differ."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import msgspec

from operator_protocols.domain.action import Action
from operator_protocols.domain.budget import Budget
from operator_protocols.domain.entry import Draft, Kind
from operator_protocols.domain.verdict import Level, Verdict
from operator_protocols.errors import ConfigError, UsageError
from operator_sre.app.persons import by_an_agent
from operator_sre.config import Config
from operator_sre.enforcement import why_not_confined
from operator_sre.gate import Policy, judge, safer, warm
from operator_sre.gate.authority import Grant, Role
from operator_sre.gate.policy import PolicyRule, Rulebook, built_in
from operator_sre.gate.policy.reload import LOOK_S, PolicyFile
from operator_sre.venv import enter_venv

if TYPE_CHECKING:
    from operator_sre.app.wiring import App
    from operator_sre.gate.policy.difference import PolicyChange

__all__ = [
    "Checked",
    "Explained",
    "Judged",
    "answer_of",
    "budget_of",
    "check_command",
    "check_lines",
    "check_policy",
    "compare_policies",
    "explain_policy",
    "follow_policy",
    "grants_of",
    "policy_file",
    "policy_in_force",
    "record_overrides",
    "roles_of",
    "rule_fields",
    "shown_policy",
    "write_policy",
]

LINE_BYTES_MAX = 1_000_000


class _CommandLine(msgspec.Struct, forbid_unknown_fields=True):
    command: str
    cwd: str = "/"


@dataclass(frozen=True, slots=True)
class Checked:
    """A policy file without a mistake in it."""

    file: str
    rules: Mapping[Level, int]
    examples: int
    overrides: int
    digest: str


@dataclass(frozen=True, slots=True)
class Explained:
    """A rule, or a command with the rules that count for each part of it."""

    rule: PolicyRule | None = None
    verdict: Verdict | None = None
    parts: Sequence[tuple[str, Sequence[PolicyRule]]] = ()


@dataclass(frozen=True, slots=True)
class Judged:
    """A command that two policies judge differently."""

    command: str
    old: Level
    new: Level


@dataclass(frozen=True, slots=True)
class Compared:
    """How two policies differ: in what they say, and in what follows from it."""

    changes: Sequence[PolicyChange]
    commands: Sequence[Judged]
    judged: int


def policy_file(config: Config) -> PolicyFile:
    """The policy of these settings, followed as it changes."""
    return PolicyFile(
        config.policy_files, monotonic=time.monotonic, required=bool(config.values["policy"])
    )


def policy_in_force(config: Config) -> Policy:
    """What counts for a command of no subject in particular."""
    return Policy(mode=config.mode, book=policy_file(config).book())


def roles_of(book: Rulebook) -> dict[str, Role]:
    """What people are to Operator."""
    return {person: Role(role) for person, role in book.roles.items()}


def grants_of(book: Rulebook) -> dict[str, Grant]:
    """What agents may have done: the levels and the tools among the words of each."""
    grants = {}
    for agent, words in book.grants.items():
        levels = frozenset(Level(word) for word in words if word in tuple(Level))
        tools = frozenset(word for word in words if word not in tuple(Level))
        grants[agent] = Grant(levels or Grant().levels, tools)
    return grants


def budget_of(book: Rulebook) -> Budget:
    """The limits of one run."""
    default = Budget()
    limits = book.budgets
    return Budget(
        turns_max=int(limits.get("turns_max", default.turns_max)),
        commands_max=int(limits.get("commands_max", default.commands_max)),
        seconds_max=limits.get("seconds_max", default.seconds_max),
        attempts_max=int(limits.get("attempts_max", default.attempts_max)),
        tokens_max=int(limits.get("tokens_max", default.tokens_max)),
        usd_max=limits.get("usd_max", default.usd_max),
    )


def check_command(
    config: Config, command: str, *, cwd: str = "/", person: bool | None = None
) -> Verdict:
    """Judge one command under the policy in force, with what would make it safe.

    For a `person` or for an agent; by default for the present requester.
    """
    person = not by_an_agent() if person is None else person
    policy = policy_in_force(config)
    action = enter_venv(replace(Action.shell(command), cwd=cwd))
    verdict = _with_enforcement(judge(action, policy, person=person))
    return replace(verdict, safer=safer(action, policy, person=person))


def check_lines(
    config: Config, stream: BinaryIO, *, person: bool | None = None
) -> Iterator[Mapping[str, Any]]:
    """Judge JSON lines, each a command or an object with one; a broken line is answered as such."""
    person = not by_an_agent() if person is None else person
    policy = policy_in_force(config)
    warm(policy)
    for number, line in enumerate(_lines(stream), start=1):
        if not line.strip():
            continue
        try:
            if len(line) > LINE_BYTES_MAX:
                raise ValueError(f"it is longer than {LINE_BYTES_MAX // 1_000_000} MB")
            decoded = msgspec.json.decode(line, type=str | _CommandLine)
        except (msgspec.DecodeError, UnicodeDecodeError, ValueError) as error:
            yield {"error": f"Line {number} is not a command: {error}.", "line": number}
            continue
        request = _CommandLine(decoded) if isinstance(decoded, str) else decoded
        action = enter_venv(replace(Action.shell(request.command), cwd=request.cwd))
        yield answer_of(_with_enforcement(judge(action, policy, person=person)))


def _with_enforcement(verdict: Verdict) -> Verdict:
    """The verdict with what this machine can enforce of it."""
    if verdict.confinement is None or not (why := why_not_confined()):
        return verdict
    from operator_sre.executor.box import why_no_box  # rarely needed, and not quickly loaded

    return replace(verdict, confinement=None, unenforced=why) if why_no_box() else verdict


def answer_of(verdict: Verdict) -> dict[str, Any]:
    """A verdict as programs read it."""
    return {
        "command": verdict.action.command,
        "level": verdict.level,
        "risk_score": verdict.score,
        "risk_level": verdict.risk,
        "rules": verdict.rules,
        "explanation": verdict.explanation,
        "reads": verdict.reads,
        "writes": verdict.writes,
        "network": verdict.network,
        "sensitive": verdict.sensitive,
        "reversible": verdict.reversible,
        "confinement": verdict.confinement,
        "unenforced": verdict.unenforced,
        "policy_digest": verdict.policy_digest,
    }


def _lines(stream: BinaryIO) -> Iterator[bytes]:
    """Lines, of which an endless one costs no more memory than a long one."""
    while line := stream.readline(LINE_BYTES_MAX + 1):
        yield line
        while len(line) > LINE_BYTES_MAX and not line.endswith(b"\n"):
            line = stream.readline(LINE_BYTES_MAX + 1)


def check_policy(config: Config, *, file: Path | None) -> Checked:
    """Read a policy, or the one in force, and run every example in it."""
    from operator_sre.gate.policy.load import count, load_book

    found = file or policy_file(config).file
    book = load_book(found) if found else built_in()
    rules = [rule for rule in book.rules if not (found and rule.is_built_in)]
    return Checked(
        file=str(found or "built-in"),
        rules={level: sum(rule.level is level for rule in rules) for level in Level},
        examples=count(rules),
        overrides=len(book.overrides),
        digest=book.digest,
    )


def shown_policy(config: Config) -> tuple[str, str, dict[str, Any]]:
    """Where the policy in force comes from, its digest, and all that it says."""
    found = policy_file(config)
    book = found.book()
    fields = {name: msgspec.to_builtins(getattr(book, name)) for name in book.__struct_fields__}
    fields["rules"] = [rule_fields(rule) for rule in book.rules]
    return str(found.file or "built-in"), book.digest, fields


def rule_fields(rule: PolicyRule) -> dict[str, Any]:
    """The fields of a rule, without empty conditions."""
    always = ("id", "level", "risk", "origin", "why")
    found = {name: msgspec.to_builtins(getattr(rule, name)) for name in rule.__struct_fields__}
    rest = {name: value for name, value in found.items() if value not in (None, "", [], ())}
    return {name: found[name] for name in always} | rest


def explain_policy(config: Config, text: str) -> Explained:
    """The rule with this id or place, or the verdict of the policy on a command."""
    from operator_sre.app.answers.texts import rule_at
    from operator_sre.gate.policy.load import commands_of

    policy = policy_in_force(config)
    rule = policy.book.rule(text) or rule_at(policy.book, text)
    if rule is not None:
        return Explained(rule=rule)
    parts = [
        (" ".join(simple.argv), policy.speaking(simple, "/"))
        for simple in commands_of(text)
        if simple.words or simple.redirects
    ]
    return Explained(verdict=judge(Action.shell(text), policy, person=True), parts=parts)


def compare_policies(old: Path, new: Path) -> Compared:
    """What became tighter or looser, in the rules and for every example of either."""
    from operator_sre.gate.policy.difference import differences
    from operator_sre.gate.policy.load import load_book

    before, after = load_book(old), load_book(new)
    rules = [rule for book in (before, after, built_in()) for rule in book.rules]
    lines = list(dict.fromkeys(line for rule in rules for line in (*rule.match, *rule.not_match)))
    policies = (Policy(book=before), Policy(book=after))
    commands = []
    for line in lines:
        first, second = (
            judge(Action.shell(line), policy, person=True).level for policy in policies
        )
        if first is not second:
            commands.append(Judged(line, first, second))
    return Compared(differences(before, after), commands, len(lines))


def write_policy(config: Config, *, file: Path | None) -> str:
    """Write a starter policy. An existing file is not overwritten."""
    found = file or config.policy_files[0]
    text = (files("operator_sre.gate.policy") / "starter.yaml").read_text(encoding="utf-8")
    try:
        found.parent.mkdir(parents=True, exist_ok=True)
        with found.open("x", encoding="utf-8") as stream:
            stream.write(text)
    except FileExistsError:
        raise UsageError(
            f"{str(found)!r} already exists and is not overwritten.",
            next_step=f"Check it with: operator policy check {found}",
        ) from None
    except OSError as error:
        raise ConfigError(f"{str(found)!r} cannot be written: {error.strerror}.") from error
    return str(found)


async def record_overrides(app: App) -> str:
    """Write down once which built-in rules the policy in force takes away; its digest."""
    book = app.rules()
    if book.overrides:
        payload = {
            "digest": book.digest,
            "overrides": [
                {"rule": override.rule, "reason": override.reason, "by": override.by}
                for override in book.overrides
            ],
        }
        key = f"policy_overridden/{book.digest}"
        await app.store.journal.append(Draft(Kind.POLICY_OVERRIDDEN, payload, key=key))
    return book.digest


async def follow_policy(app: App) -> None:
    """Follow the policy until cancelled, and record the overrides of each new version."""
    recorded = ""
    while True:
        if app.rules().digest != recorded:
            recorded = await record_overrides(app)
        await app.clock.sleep(LOOK_S)
