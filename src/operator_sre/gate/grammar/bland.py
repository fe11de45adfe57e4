"""Commands that only ever print numbers, plain names and times."""

from __future__ import annotations

import re

from operator_sre.gate.grammar.words import Simple

__all__ = ["is_bland"]

# Commands whose output is a number, a plain name or a time whatever the machine is like, with the
# arguments that leave it so: no text of the caller's choice is printed.
_TIME = r"[+](?:%[-_0^]?[YmdHMSsNFTjyuVUeIlpaAbBC]|[-_:.T])*"
_BLAND: dict[str, re.Pattern[str]] = {
    "date": re.compile(
        rf"-u|--utc|-d|--date=[^\n]*|(?![-+/.~])[\w:+@., -]+|-\d[\w ]*|-I\w*|{_TIME}"
    ),
    "id": re.compile(r"-[ugGn]+|--(?:user|group|name)|[A-Za-z0-9_]+"),
    "nproc": re.compile(r"--all|--ignore=\d+"),
    "pgrep": re.compile(r"-[cfnoxi]+|-[cfnoxi]*d,|-[uUPg]|[^-].*"),
    "pidof": re.compile(r"-[sx]+|[^-].*"),
    "uname": re.compile(r"-[asnrvmpio]+"),
    "whoami": re.compile(r"(?!)"),
}


def is_bland(simple: Simple) -> bool:
    """True when what it prints cannot be a text of somebody's choice."""
    if not simple.words or simple.assignments:
        return False
    known = _BLAND.get(simple.words[0].text)
    if known is None or any(
        one.opaque or not known.fullmatch(one.text) for one in simple.words[1:]
    ):
        return False
    return all(one.operator == ">" and one.descriptor == "2" for one in simple.redirects)
