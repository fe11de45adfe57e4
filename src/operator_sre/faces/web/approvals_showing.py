"""A command as it is: what cannot be seen, and what only looks like something else, is marked."""

from __future__ import annotations

import unicodedata
from itertools import groupby

from markupsafe import Markup, escape

__all__ = ["exact"]

# Letters and marks that count as printable, and that nobody sees.
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
_KINDS = {"odd": "hidden", "foreign": "not ASCII"}


def exact(text: str) -> Markup:
    """A text in which every character is seen for what it is, to look at before saying yes.

    What is invisible, turns the direction of writing or steers a terminal is written as its code
    and marked; so is space at the end of a line. Letters beyond ASCII are marked as such, because
    some look like others.
    """
    return Markup("\n").join(_line(one) for one in text.split("\n"))


def _line(text: str) -> Markup:
    body = text.rstrip(" \t")
    tail = text[len(body) :]
    shown = Markup("").join(
        _run(kind, "".join(found)) for kind, found in groupby(body, key=_kind_of)
    )
    if tail:
        shown += _marked("odd", "".join("␠" if one == " " else "␉" for one in tail), "space")
    return shown


def _run(kind: str, text: str) -> Markup:
    if not kind:
        return escape(text)
    names = ", ".join(dict.fromkeys(_name(one) for one in text[:8]))
    told = "".join(map(_coded, text)) if kind == "odd" else text
    return _marked(kind, told, f"{_KINDS[kind]}: {names}")


def _marked(kind: str, text: str, title: str) -> Markup:
    return Markup('<mark class="{}" title="{}">{}</mark>').format(kind, title, text)


def _kind_of(one: str) -> str:
    if " " <= one <= "~" or one == "\t":
        return ""
    invisible = not one.isprintable() or one in _BLANK
    return "odd" if invisible or unicodedata.category(one) in ("Mn", "Me") else "foreign"


def _coded(one: str) -> str:
    return one.encode("unicode_escape").decode()


def _name(one: str) -> str:
    return f"U+{ord(one):04X} {unicodedata.name(one, '')}".strip()
