"""Texts of an answer without a secret in them, in the short form of the contract."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, TypeVar

from operator_protocols.domain.verdict import Level, Risk
from operator_sre.config import Config
from operator_sre.contract.documents import inner_of
from operator_sre.contract.messages import Message

if TYPE_CHECKING:
    from operator_sre.gate.policy import PolicyRule, Rulebook

__all__ = [
    "DEFAULT_DENY",
    "blocking_rule",
    "build_redactor",
    "collapse_marks",
    "place_of",
    "rule_at",
    "without_secrets",
]

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


KEY_BYTES = 32
M = TypeVar("M", bound=Message)
# What people and programs wrote; all else is an id, a number or a word of ours.
TEXTS = frozenset(
    {"content", "denied_action", "detail", "message", "rationale", "root_cause", "summary"}
)
# The fields of a message with external text, and the fields with messages.
_PLACES: dict[type[Message], tuple[tuple[str, ...], tuple[str, ...]]] = {}


def collapse_marks(text: str) -> str:
    """What came from the ledger has no secrets any more, only marks where they were."""
    if "[REDACTED:" not in text:
        return text
    from operator_sre.ledger.redaction import collapse

    return collapse(text)


def build_redactor(config: Config | None = None) -> Callable[[str], str]:
    """What takes the secrets out of text from outside; no mark tells one from another.

    With the settings of a home, also the secrets that it stores.
    """
    from operator_sre.app.redaction import KnownValues
    from operator_sre.app.secret_store import open_secrets
    from operator_sre.ledger.redaction import Redactor, collapse

    known = KnownValues(open_secrets(config)) if config else dict
    redactor = Redactor(bytes(KEY_BYTES), known)
    return lambda text: collapse(redactor.text(text))


def without_secrets(message: M, redact: Callable[[str], str]) -> M:
    """The same message, every text in it redacted."""
    kind = type(message)
    if kind not in _PLACES:
        texts = tuple(field.name for field in fields(kind) if field.name in TEXTS)
        _PLACES[kind] = texts, tuple(name for name, _ in inner_of(kind))
    texts, inner = _PLACES[kind]
    changed: dict[str, Any] = {}
    for name in texts:
        text = getattr(message, name)
        if text and (clean := redact(text)) is not text:
            changed[name] = clean
    for name in inner:
        value = getattr(message, name)
        if isinstance(value, tuple):
            parts = tuple([without_secrets(part, redact) for part in value])
            if any(map(operator.is_not, parts, value)):
                changed[name] = parts
        elif value is not None:
            changed[name] = without_secrets(value, redact)
    return replace(message, **changed) if changed else message
