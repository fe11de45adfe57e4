"""The backslash commands of psql that only list."""

from __future__ import annotations

from operator_sre.gate.grammar.languages.reason import TEXT_CHARACTERS_MAX, TOO_LONG, shown
from operator_sre.gate.grammar.languages.sql import sql
from operator_sre.gate.grammar.patterns import re

__all__ = ["psql", "psql_meta"]

# No backtick, which runs a command, no colon, which puts a variable in, no quote but for names.
_ONE = re.compile(r"\\([A-Za-z_]++[+]?+|\?)((?:[ \t]++[A-Za-z0-9_.*?\"$(),+\[\]-]++)*+)[ \t]*+")
_LISTS = re.compile(
    r"""(?:
      d[a-zA-Z]?
    | d[tivmsE]++
    | dA[cfop] | ddp | de[stw] | df[anptw]++ | dF[dpt]? | drds | drg | dRp | dconfig
    | l | list | z | sf | sv | conninfo | lo_list | dx | dX | dy | dP[int]*
    )S?[+]?""",
    re.VERBOSE,
)
_SETTINGS = frozenset({"a", "t", "timing", "x"})
_ALONE = frozenset({"copyright", "encoding", "errverbose", "q", "?"})
_REASONS: dict[str, str] = {
    "c": "The command \\c opens another connection.",
    "connect": "The command \\connect opens another connection.",
    "copy": "!The command \\copy moves rows between tables, files and programs.",
    "deu": "?Mappings of users may hold passwords.",
    "deu+": "?Mappings of users may hold passwords.",
    "dRs": "?Subscriptions may hold passwords.",
    "dRs+": "?Subscriptions may hold passwords.",
    "e": "!The command \\e starts an editor.",
    "edit": "!The command \\edit starts an editor.",
    "g": "The command \\g can write a file or run a command.",
    "gexec": "!The command \\gexec runs what a query returns.",
    "getenv": "?The command \\getenv reads the environment.",
    "i": "!The command \\i runs a file.",
    "include": "!The command \\include runs a file.",
    "ir": "!The command \\ir runs a file.",
    "o": "!The command \\o writes a file or runs a command.",
    "out": "!The command \\out writes a file or runs a command.",
    "password": "!The command \\password changes a password.",
    "set": "The command \\set changes a variable.",
    "w": "!The command \\w writes a file.",
    "write": "!The command \\write writes a file.",
}


def psql_meta(text: str) -> str | None:
    """Why these backslash commands are not proven to only list; None when they are."""
    if len(text) > TEXT_CHARACTERS_MAX:
        return TOO_LONG
    text = text.strip(" \t\n")
    if not text:
        return "There is no command."
    place = 0
    while place < len(text):
        if text.startswith("\\!", place):
            return "!The command \\! runs a shell command."
        found = _ONE.match(text, place)
        if found is None:
            return f"What begins at {shown(text[place : place + 12])} is not understood."
        reason = _command(found[1], found[2].split())
        if reason is not None:
            return reason
        place = found.end()
    return None


def psql(text: str) -> str | None:
    """What psql takes as one command: a backslash command, or else SQL."""
    return psql_meta(text) if text.lstrip(" \t\n").startswith("\\") else sql(text)


def _command(name: str, arguments: list[str]) -> str | None:
    if name in _REASONS:
        return _REASONS[name]
    if name.startswith("dconfig") and any("conn" in word for word in arguments):
        return "?The connection string of a standby may hold a password."
    if _LISTS.fullmatch(name):
        return None
    if name in _SETTINGS and all(word in ("auto", "off", "on") for word in arguments[:1]):
        return None if len(arguments) < 2 else "There are too many words."
    if name in _ALONE and not arguments:
        return None
    if name in ("h", "help") and all(word.isalpha() for word in arguments):
        return None
    return f"The command {shown(name)} is not known to only list."
