"""Programs of jq that only compute from their input."""

from __future__ import annotations

from collections.abc import Mapping

from operator_sre.gate.grammar.languages.jq_functions import JQ, JQ_REFUSED, KEYWORDS
from operator_sre.gate.grammar.languages.reason import TEXT_CHARACTERS_MAX, TOO_LONG, shown
from operator_sre.gate.grammar.patterns import re

__all__ = ["jq", "walk"]

_TOKEN = re.compile(
    r"""[ \t\n]*+(?:
      (?P<field>\.[A-Za-z_][A-Za-z0-9_]*+)
    | (?P<name>[A-Za-z_][A-Za-z0-9_]*+(?!::))
    | (?P<variable>\$[A-Za-z_][A-Za-z0-9_]*+(?!::))
    | (?P<number>(?>\d++(?:\.\d*+)?|\.\d++)(?:[eE][+-]?\d++)?)
    | (?P<format>@[a-z0-9]++)
    | (?P<quote>")
    | (?P<comment>\#[^\n\r\\]*+(?=\n|\Z))
    | (?P<mark>\.\.|[.\[\](){}|,:;=<>!+*/%?-])
    | (?P<end>\Z)
    )""",
    re.VERBOSE,
)
_STRING = re.compile(r'(?:[^"\\\x00]|\\[^(\x00])*+(?P<close>"|\\\()')
_DEFINED = re.compile(r"\bdef\s++([A-Za-z_]\w*+)\s*+(?:\(([^()]*+)\))?+\s*+:")
_PARAMETER = re.compile(r"\$?([A-Za-z_]\w*+)")
_CLOSES = {")": "(", "]": "[", "}": "{"}


def jq(text: str) -> str | None:
    """Why this program is not proven to only compute; None when it is."""
    return walk(text, JQ, JQ_REFUSED)


def walk(
    text: str, known: frozenset[str], refused: Mapping[str, str], *, strict_keys: bool = False
) -> str | None:
    """Why a program that may name only what is known is refused; None when it is not."""
    if len(text) > TEXT_CHARACTERS_MAX:
        return TOO_LONG
    own = _defined(text) if "def" in text else frozenset()
    place, last = 0, ""
    opened: list[str] = []  # brackets, and `"` for a string that goes on after its expression
    while True:
        found = _TOKEN.match(text, place)
        if found is None:
            return f"What begins at {shown(text[place : place + 12].lstrip())} is not understood."
        kind = found.lastgroup or "end"
        token, place = text[found.start(kind) : found.end()], found.end()
        if kind == "end":
            return "A bracket or a string does not end." if opened else None
        if kind in ("name", "format", "variable"):
            follows = text[place : place + 8].lstrip(" \t\n")[:1]
            if kind == "name" and opened and opened[-1] == "{" and last in ("{", ","):
                # The key of an object calls nothing; alone, it is the field of that name.
                reason = refused.get(token) if follows != ":" or strict_keys else None
                if reason is None and follows not in (":", ",", "}"):
                    return f"What follows the key {shown(token)} is not understood."
            else:
                reason = None if token in own else _name(token, kind, known, refused)
            if reason is not None:
                return reason
        elif kind == "quote" or (token == ")" and opened and opened[-1] == '"'):
            if token == ")":
                opened.pop()
            end = _STRING.match(text, place)
            if end is None:
                return "A string does not end."
            place = end.end()
            if end["close"] != '"':
                opened.append('"')
        elif token in ("(", "[", "{"):
            opened.append(token)
        elif token in _CLOSES and (not opened or opened.pop() != _CLOSES[token]):
            return "A bracket is closed that was not opened."
        if kind != "comment":
            last = token


def _name(token: str, kind: str, known: frozenset[str], refused: Mapping[str, str]) -> str | None:
    name = token.lstrip("$")
    if name in refused:
        return refused[name]
    if kind == "variable" or name in known or name in KEYWORDS:
        return None
    return f"The function {shown(name)} is not known."


def _defined(text: str) -> frozenset[str]:
    found = _DEFINED.findall(text)
    parameters = (name for _, inside in found for name in _PARAMETER.findall(inside))
    return (frozenset(name for name, _ in found) | frozenset(parameters)) - JQ_REFUSED.keys()
