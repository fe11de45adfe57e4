"""Texts of an answer without a secret in them, in the short form of the contract."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any, TypeVar

from operator_sre.config import Config
from operator_sre.contract.documents import inner_of
from operator_sre.contract.messages import Message

__all__ = ["build_redactor", "collapse_marks", "without_secrets"]

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
