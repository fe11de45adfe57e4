"""Texts of an answer without a secret in them, in the short form of the contract."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any, TypeVar

from operator_sre.config import Config
from operator_sre.contract.messages import Message

__all__ = ["collapsed", "redacting", "without_secrets"]

KEY_BYTES = 32
M = TypeVar("M", bound=Message)
# What people and programs wrote; all else is an id, a number or a word of ours.
TEXTS = frozenset(
    {"content", "denied_action", "detail", "message", "rationale", "root_cause", "summary"}
)


def collapsed(text: str) -> str:
    """What came from the ledger has no secrets any more, only marks where they were."""
    if "[REDACTED:" not in text:
        return text
    from operator_sre.ledger.redaction import collapse

    return collapse(text)


def redacting(config: Config | None = None) -> Callable[[str], str]:
    """What takes the secrets out of text from outside; no mark tells one from another.

    With the settings of a home, those that are kept there too, whatever they look like.
    """
    from operator_sre.app.secret_store import KnownValues, open_secrets
    from operator_sre.ledger.redaction import Redactor, collapse

    known = KnownValues(open_secrets(config)) if config else dict
    redactor = Redactor(bytes(KEY_BYTES), known)
    return lambda text: collapse(redactor.text(text))


def without_secrets(message: M, redact: Callable[[str], str]) -> M:
    """The same message, every text in it redacted."""
    changed: dict[str, Any] = {}
    for one in fields(message):
        value = getattr(message, one.name)
        if isinstance(value, Message):
            changed[one.name] = without_secrets(value, redact)
        elif isinstance(value, tuple) and value and isinstance(value[0], Message):
            changed[one.name] = tuple(without_secrets(part, redact) for part in value)
        elif one.name in TEXTS and isinstance(value, str) and value:
            changed[one.name] = redact(value)
    return replace(message, **changed) if changed else message
