"""Finding the rules that speak of a command without asking all of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from fnmatch import translate

from operator_protocols.domain.verdict import Level
from operator_sre.gate.grammar.words import Simple
from operator_sre.gate.policy.matching import Matcher, Seen, goes_nowhere
from operator_sre.gate.policy.rule import PolicyRule

__all__ = ["Index"]

_WILD = re.compile(r"[*?\[]")
_NOTHING = re.compile(r"(?!)")


class Index:
    """Rules by the name of the command. A rule is compiled when it is first asked."""

    def __init__(self, rules: Iterable[PolicyRule]) -> None:
        self._named: dict[str, list[PolicyRule]] = {}
        self._wild: list[tuple[re.Pattern[str], PolicyRule]] = []
        self._always: list[PolicyRule] = []
        self._redirecting: list[PolicyRule] = []
        self._matchers: dict[str, Matcher] = {}
        self._rules = ordered = sorted(rules, key=lambda rule: -rule.level.rank)
        self._places = {rule.id: place for place, rule in enumerate(ordered)}
        for rule in ordered:
            self._add(rule)
        wild = "|".join(pattern.pattern for pattern, _ in self._wild)
        self._any_wild = re.compile(wild) if wild else _NOTHING

    def _add(self, rule: PolicyRule) -> None:
        if not rule.command:
            (self._redirecting if rule.redirect else self._always).append(rule)
        for name in rule.command:
            if _WILD.search(name):
                self._wild.append((re.compile(translate(name)), rule))
            else:
                self._named.setdefault(name.rpartition("/")[2], []).append(rule)

    def speaking(self, simple: Simple, cwd: str = "") -> Sequence[PolicyRule]:
        """The rules that count for one command, the strictest first.

        A rule of `safe` stands against built-in rules of `review`, and against nothing else.
        """
        name = simple.words[0].text.rpartition("/")[2] if simple.words else ""
        candidates = [*self._named.get(name, ()), *self._always]
        if simple.redirects and not all(map(goes_nowhere, simple.redirects)):
            candidates += self._redirecting
        if self._any_wild.match(name):
            candidates += [rule for pattern, rule in self._wild if pattern.match(name)]
        if not candidates:
            return ()
        seen = Seen(simple, cwd)
        found = [rule for rule in candidates if self._matcher(rule).speaks(seen)]
        return _counting(sorted(found, key=self._place)) if len(found) > 1 else found

    def warm(self) -> None:
        """Compile all rules now, for whoever judges many commands."""
        for rule in self._rules:
            self._matcher(rule)

    def _place(self, rule: PolicyRule) -> int:
        return self._places[rule.id]

    def _matcher(self, rule: PolicyRule) -> Matcher:
        try:
            return self._matchers[rule.id]
        except KeyError:
            made = self._matchers[rule.id] = Matcher(rule)
            return made


def _counting(found: Sequence[PolicyRule]) -> Sequence[PolicyRule]:
    once = list({rule.id: rule for rule in found}.values())
    if once[-1].level is not Level.SAFE:
        return once
    strict = [
        rule
        for rule in once
        if rule.level is Level.BLOCKED or (rule.level is Level.REVIEW and not rule.is_built_in)
    ]
    return strict or [rule for rule in once if rule.level is Level.SAFE]
