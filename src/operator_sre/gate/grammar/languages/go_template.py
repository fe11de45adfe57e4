"""Templates that print fields of an answer: harmless, unless they print an environment."""

from __future__ import annotations

from operator_sre.gate.grammar.languages.reason import TEXT_CHARACTERS_MAX, TOO_LONG
from operator_sre.gate.grammar.patterns import re

__all__ = ["go_template", "inspect_template"]

_PRINTABLE = re.compile(r"[\x20-\x7e\t\n\xa1-\ud7ff]*+")
_ENVIRONMENT = re.compile(r"(?<![A-Za-z0-9])env(?:ironment|from|s)?(?![A-Za-z0-9])", re.IGNORECASE)
# The whole configuration of a container holds its environment too.
_CONFIGURATION = re.compile(r"\.Config(?![A-Za-z0-9_.])|\"Config\"|'Config'")
_WHOLE = re.compile(r"(?<![A-Za-z0-9_)\]])\.(?![A-Za-z0-9_])|\$(?![A-Za-z0-9_.])|\$\.(?![A-Za-z])")
_ESCAPED = re.compile(r"\\[ux0-7]")


def go_template(text: str) -> str | None:
    """Why this template may print an environment; None when it does not."""
    if len(text) > TEXT_CHARACTERS_MAX:
        return TOO_LONG
    if not _PRINTABLE.fullmatch(text):
        return "A control character is not understood."
    if _ENVIRONMENT.search(text):
        return "?The environment often holds secrets."
    if _CONFIGURATION.search(text):
        return "?The whole configuration holds the environment, which may hold secrets."
    return "An escaped character hides a name." if _ESCAPED.search(text) else None


def inspect_template(text: str) -> str | None:
    """The same for the whole description of a container, which itself holds an environment."""
    reason = go_template(text)
    if text and "{{" not in text and (reason or "?")[0] == "?":
        return None  # without an action it prints nothing but itself
    if reason is None and (not text or _WHOLE.search(text)):
        return "?The whole description holds the environment, which may hold secrets."
    return reason
