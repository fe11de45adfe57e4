"""Which place of the policy stands in the way: `section[index]`, or `default_deny`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
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
    section = [rule.id for rule in book.rules if rule.level is found.level]
    return f"{found.level}[{section.index(id)}]"


def rule_at(book: Rulebook, place: str) -> PolicyRule | None:
    """The rule at a place, as `blocked[3]`."""
    found = _PLACE.fullmatch(place)
    if found is None:
        return None
    section = [rule for rule in book.rules if rule.level == found[1]]
    index = int(found[2])
    return section[index] if index < len(section) else None


def blocking_rule(book: Rulebook, verdict: Mapping[str, Any]) -> tuple[str, str]:
    """The place that denied an action and what it says, from the verdict as it is recorded."""
    levels = [level.value for level in Level]
    rules = sorted(  # the strictest first, and before it a level that is not known any more
        verdict.get("rules") or (),
        key=lambda rule: levels.index(rule["level"]) if rule["level"] in levels else len(levels),
        reverse=True,
    )
    action = verdict.get("action") or {}
    service = str((action.get("arguments") or {}).get("service", ""))
    # Sections other than rules, with what this verdict is about in each of them.
    sections: dict[str, tuple[Sequence[object], object]] = {
        "tools": (list(book.tools), action.get("tool")),
        "approval": (list(Risk), verdict.get("risk")),
        "services": (book.services.deny, service.removesuffix(".service").lower()),
    }
    for rule in rules:
        if rule["level"] == Level.SAFE:
            continue
        if rule["id"] in sections:
            known, name = sections[rule["id"]]
            place = f"{rule['id']}[{known.index(name)}]" if name in known else ""
        else:
            place = place_of(book, rule["id"])
        if place:
            return place, f"{rule['id']}: {rule['justification']}"
    from operator_sre.gate.policy.egress import Egress

    anywhere = Egress(allow=("*",))
    for at, pattern in enumerate(book.egress.deny):
        only = Egress(allow=("*",), deny=(pattern,))
        hosts = verdict.get("network") or ()
        if any(not only.reaches(host) and anywhere.reaches(host) for host in hosts):
            return f"egress[{at}]", "The policy denies this host under 'egress'."
    if rules and rules[0]["level"] != Level.SAFE:
        return DEFAULT_DENY, f"{rules[0]['id']}: {rules[0]['justification']}"
    return DEFAULT_DENY, "No rule of the policy allows the action."
