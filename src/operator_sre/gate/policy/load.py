"""From a file to a book: the built-in rules with what the user wrote over them, examples proven."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import msgspec

from operator_protocols.domain.verdict import Level
from operator_protocols.errors import ConfigError
from operator_sre.gate.grammar.findings import read
from operator_sre.gate.grammar.paths import Secrets
from operator_sre.gate.grammar.scene import Scene
from operator_sre.gate.grammar.tables import tables
from operator_sre.gate.policy.egress import Egress
from operator_sre.gate.policy.policy import Rulebook, Services, built_in
from operator_sre.gate.policy.rule import Index, PolicyRule
from operator_sre.gate.policy.schema import FILE_BYTES_MAX, Written, read_policy
from operator_sre.shell.line import parse
from operator_sre.shell.words import Simple

__all__ = [
    "book_of",
    "commands_of",
    "count",
    "load_book",
    "merge",
    "prove",
    "read_text",
    "rules_for",
]

_NO_SECRETS = Secrets(())


@lru_cache(maxsize=1024)
def commands_of(line: str) -> tuple[Simple, ...]:
    """Every simple command of a line, and those inside of others."""
    scene = Scene(_NO_SECRETS, lambda host: True, anywhere=True)
    return tuple(found.simple for found in read(parse(line), scene, tables()))


def rules_for(line: str, book: Rulebook) -> list[PolicyRule]:
    """The rules that count for a line, each once."""
    found = [rule for simple in commands_of(line) for rule in book.speaking(simple)]
    return list({rule.id: rule for rule in found}.values())


def count(rules: Sequence[PolicyRule]) -> int:
    """How many examples there are."""
    return sum(len(rule.match) + len(rule.not_match) for rule in rules)


def prove(written: Written, book: Rulebook) -> None:
    """Run every example of a file; the first that is wrong is an error at its place."""
    for rule in written.rules:
        matches, others = written.examples[rule.id]
        alone = Index([rule])
        for node in matches:
            if not _speaks(alone, node.text, rule):
                raise node.error(f"{rule.id!r} does not match its example {node.text[:80]!r}.")
            for other in rules_for(node.text, book) if rule.level is Level.SAFE else ():
                if other.level is Level.BLOCKED:
                    raise node.error(
                        f"{node.text[:80]!r} is blocked by {other.id!r}, and nothing in 'safe' can"
                        " loosen that."
                    )
        for node in others:
            if _speaks(alone, node.word(), rule):
                raise node.error(f"{rule.id!r} matches {node.text[:80]!r}, and should not.")


def _speaks(index: Index, line: str, rule: PolicyRule) -> bool:
    """Whether a rule speaks of a line, where it is started in a folder that the rule names."""
    cwd = rule.cwd[0] if rule.cwd else ""
    return any(index.speaking(simple, cwd) for simple in commands_of(line))


def load_book(file: Path) -> Rulebook:
    """The book of a file. An error is one sentence with file, line and column."""
    return book_of(read_text(file), str(file))


def book_of(text: str, file: str) -> Rulebook:
    """The built-in rules with those of a text over them, every example proven."""
    written = read_policy(text, file, origin=Path(file).name)
    book = merge(written, built_in())
    prove(written, book)
    return book


def read_text(file: Path) -> str:
    """A file's text, or why it cannot be had."""
    try:
        with file.open("rb") as stream:
            data = stream.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(f"{file}:1:1: The policy cannot be read: {reason}.") from error
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        line, column = before.count(b"\n") + 1, error.start - before.rfind(b"\n")
        raise ConfigError(f"{file}:{line}:{column}: This is not UTF-8.") from error


def merge(written: Written, base: Rulebook) -> Rulebook:
    """Rules and what is denied or sensitive are added; other lists and numbers are replaced."""
    known = {rule.id for rule in base.rules}
    for rule in written.rules:
        if rule.id in known:
            place = written.places[rule.id]
            hint = "Choose another id; a built-in rule is removed under 'overrides'."
            raise place.error(f"{rule.id!r} is the id of a built-in rule.", next_step=hint)
    gone = set()
    for override, node in written.overrides:
        if override.rule not in known:
            raise node.unknown(override.rule, sorted(known), "a built-in rule")
        if override.rule in gone:
            raise node.error(f"{override.rule!r} is overridden twice.")
        gone.add(override.rule)
    return msgspec.structs.replace(
        base,
        rules=(*(rule for rule in base.rules if rule.id not in gone), *written.rules),
        sensitive=_join(base.sensitive, written.sensitive),
        writable=base.writable if written.writable is None else written.writable,
        egress=Egress(
            written.egress.get("allow", base.egress.allow),
            _join(base.egress.deny, written.egress.get("deny", ())),
            written.egress.get("scripts", base.egress.scripts),
            # A list of allowed hosts is for everybody, unless it has its own list for people.
            written.egress.get("people", () if "allow" in written.egress else base.egress.people),
        ),
        services=Services(
            written.services.get("allow", base.services.allow),
            _join(base.services.deny, written.services.get("deny", ())),
        ),
        approval={**base.approval, **written.approval},
        tools={**base.tools, **written.tools},
        modes={**base.modes, **written.modes},
        roles={**base.roles, **written.roles},
        grants={**base.grants, **written.grants},
        budgets={**base.budgets, **written.budgets},
        limits={**base.limits, **written.limits},
        chains={**base.chains, **written.chains},
        overrides=(*base.overrides, *(override for override, _ in written.overrides)),
    )


def _join(these: tuple[str, ...], those: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*these, *those)))
