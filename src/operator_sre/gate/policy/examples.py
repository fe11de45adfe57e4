"""Running the examples of rules through the same parser that judges commands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

from operator_protocols.domain.verdict import Level
from operator_sre.gate.grammar.paths import Secrets
from operator_sre.gate.grammar.reading import read
from operator_sre.gate.grammar.scene import Scene
from operator_sre.gate.grammar.shell import parse
from operator_sre.gate.grammar.tables import tables
from operator_sre.gate.grammar.words import Simple
from operator_sre.gate.policy.book import Rulebook
from operator_sre.gate.policy.index import Index
from operator_sre.gate.policy.rule import PolicyRule
from operator_sre.gate.policy.schema import Written

__all__ = ["commands_of", "count", "prove", "rules_for"]

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
            if rule.level is Level.SAFE and (stricter := _blocked(node.text, book)):
                raise node.error(
                    f"{node.text[:80]!r} is blocked by {stricter!r}, and nothing in 'safe' can"
                    " loosen that."
                )
        for node in others:
            if _speaks(alone, node.word(), rule):
                raise node.error(f"{rule.id!r} matches {node.text[:80]!r}, and should not.")


def _speaks(index: Index, line: str, rule: PolicyRule) -> bool:
    """Whether a rule speaks of a line, where it is started in a folder that the rule names."""
    cwd = rule.cwd[0] if rule.cwd else ""
    return any(index.speaking(simple, cwd) for simple in commands_of(line))


def _blocked(line: str, book: Rulebook) -> str:
    rules: Iterator[PolicyRule] = iter(rules_for(line, book))
    return next((rule.id for rule in rules if rule.level is Level.BLOCKED), "")
