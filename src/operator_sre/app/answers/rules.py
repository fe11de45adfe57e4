"""Which place of the policy stands in the way: `section[index]`, or `default_deny`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from operator_protocols.domain.verdict import Level, Risk

if TYPE_CHECKING:
    from operator_sre.gate.policy import PolicyRule, Rulebook

__all__ = ["DEFAULT_DENY", "blocking_rule", "place_of", "rule_at"]

DEFAULT_DENY = "default_deny"
_PLACE = re.compile(r"(safe|review|blocked)\[(\d{1,6})\]")


def place_of(book: Rulebook, id: str) -> str:
    """Where a rule stands among those of its section; empty when the policy has no such rule."""
    found = book.rule(id)
    if found is None:
        return ""
    section = [one.id for one in book.rules if one.level is found.level]
    return f"{found.level}[{section.index(id)}]"


def rule_at(book: Rulebook, place: str) -> PolicyRule | None:
    """The rule at a place, as `blocked[3]`."""
    found = _PLACE.fullmatch(place)
    if found is None:
        return None
    section = [one for one in book.rules if one.level == found[1]]
    index = int(found[2])
    return section[index] if index < len(section) else None


def blocking_rule(book: Rulebook, verdict: Mapping[str, Any]) -> tuple[str, str]:
    """The place that denied an action and what it says, from the verdict as it is recorded."""
    rules = sorted(verdict.get("rules") or (), key=_strictness, reverse=True)
    for rule in rules:
        if rule["level"] != Level.SAFE and (place := _placed(book, rule["id"], verdict)):
            return place, f"{rule['id']}: {rule['justification']}"
    if denied := _denied_host(book, verdict.get("network") or ()):
        return denied, "The policy denies this host under 'egress'."
    if rules and rules[0]["level"] != Level.SAFE:
        return DEFAULT_DENY, f"{rules[0]['id']}: {rules[0]['justification']}"
    return DEFAULT_DENY, "No rule of the policy allows it."


def _placed(book: Rulebook, id: str, verdict: Mapping[str, Any]) -> str:
    """A rule of the policy by its id, or one of its other sections."""
    action = verdict.get("action") or {}
    match id:
        case "tools":
            return _index("tools", list(book.tools), action.get("tool"))
        case "approval":
            return _index("approval", list(Risk), verdict.get("risk"))
        case "services":
            service = str((action.get("arguments") or {}).get("service", ""))
            return _index("services", book.services.deny, service.removesuffix(".service").lower())
        case _:
            return place_of(book, id)


def _denied_host(book: Rulebook, hosts: Iterable[str]) -> str:
    from operator_sre.gate.policy.egress import Egress

    for at, pattern in enumerate(book.egress.deny):
        only = Egress(allow=("*",), deny=(pattern,))
        if any(not only.reaches(host) and Egress(allow=("*",)).reaches(host) for host in hosts):
            return f"egress[{at}]"
    return ""


def _index(section: str, known: Sequence[object], name: object) -> str:
    return f"{section}[{known.index(name)}]" if name in known else ""


def _strictness(rule: Mapping[str, Any]) -> int:
    levels = [level.value for level in Level]
    return levels.index(rule["level"]) if rule["level"] in levels else len(levels)
