"""Scripts of sed that only change what is printed."""

from __future__ import annotations

from operator_sre.gate.grammar.languages.reason import TEXT_CHARACTERS_MAX, TOO_LONG, quote_word
from operator_sre.gate.grammar.patterns import re

__all__ = ["check_sed"]


def _pattern(delimiter: str, brackets: str = "") -> str:
    """A regular expression up to its delimiter, which is not in brackets.

    Whether a delimiter in brackets ends the expression depends on the sed.
    """
    inside = rf"\\(?:{delimiter}|\\|(?=[^\\\n]))|(?!{delimiter})[^\]\n\\\[]"
    mark = rf"(?!{delimiter})[:.=]"
    kinds = rf"\[{mark}(?:(?!{delimiter})[a-z])*+{mark}\]|\[(?![:.=])"
    brackets = brackets or rf"\[\^?+(?!{delimiter})\]?+(?:{kinds}|{inside})*+\]"
    return rf"(?:(?!{delimiter})[^\\\n\[]|\\[^\n]|{brackets})*+"


_PUNCTUATION = r"[!\"#$%&'()*+,./:<=>?@_`|~-]"
_ADDRESS = rf"""(?:
    \d++(?:~\d++)?
  | \$
  | /{_pattern("/")}/[IM]*+
  | \\(?P<%s>{_PUNCTUATION}){_pattern("(?P=%s)")}(?P=%s)[IM]*+
)"""
_FIRST = _ADDRESS.replace("%s", "first")
_SECOND = _ADDRESS.replace("%s", "second")
_TEXT = r"(?:[^\\\n]|\\[\s\S])*+"
_COMMAND = re.compile(
    rf"""
    [ \t\n;]*+
    (?:{_FIRST}(?:[ \t]*+,[ \t]*+(?:[+~]\d++|{_SECOND}))?+)?+
    [ \t]*+(?:![! \t]*+)?+
    (?:
        (?:
            [=dDgGhHnNpPxzF]
          | [qQl][ \t]*+\d*+
          | [btT][ \t]*+(?:[A-Za-z0-9_]++)?+
          | s(?P<s>{_PUNCTUATION}){_pattern("(?P=s)")}(?P=s)
            (?:(?!(?P=s))[^\\\n]|\\[\s\S])*+(?P=s)[gpiImM0-9]*+
          | y(?P<y>{_PUNCTUATION})(?:(?!(?P=y))[^\\\n]|\\[^\n])*+(?P=y)
            (?:(?!(?P=y))[^\\\n]|\\[^\n])*+(?P=y)
          | \}}
        )
        [ \t]*+(?=[;\n}}#]|\Z)
      | \{{
      | :[ \t]*+[A-Za-z0-9_]++[ \t]*+(?=[;\n]|\Z)
      | [aic](?:[ \t]*+\\[ \t]*+\n|[ \t]*+\\?+)[ \t]*+(?=[^\s\\]){_TEXT}(?=\n|\Z)
      | \#[^\n]*+
    )
    [ \t\n;]*+
    """,
    re.VERBOSE,
)
_ALLOWED = re.compile(r"[\x20-\x7e\t\n\xa0-\U0010ffff]*+")
_BEFORE = re.compile(
    rf"[ \t\n;]*+(?:{_FIRST}(?:[ \t]*+,[ \t]*+(?:[+~]\d++|{_SECOND}))?+)?+[ \t!]*+", re.VERBOSE
)
# As new seds read it, with the delimiter in brackets; and as old ones do, without minding them.
_FREE_BRACKETS = r"\[\^?+\]?+(?:\[:[a-z]++:\]|[^\]\n\\\[])*+\]"
_BRACKETED = re.compile(
    rf"""[ \t\n;]*+(?:\d++|\$)?+[ \t]*+s(?P<s>{_PUNCTUATION})
    {_pattern("(?P=s)", _FREE_BRACKETS)}(?P=s)
    (?:(?!(?P=s))[^\\\n]|\\[\s\S])*+(?P=s)[gpiImM0-9]*+[ \t]*+(?:[;\n]|(?=\}})|\Z)""",
    re.VERBOSE,
)
_FLAGS = re.compile(
    rf"s({_PUNCTUATION})(?:(?!\1)[^\\\n]|\\[\s\S])*+\1(?:(?!\1)[^\\\n]|\\[\s\S])*+\1[gpiImM0-9]*+"
)
_FLAG_REASONS: dict[str, str] = {
    "e": "!The flag 'e' runs the result as a shell command.",
    "w": "!The flag 'w' writes a file.",
}
_REASONS: dict[str, str] = {
    "e": "!The command 'e' runs a shell command.",
    "r": "The command 'r' reads another file.",
    "R": "The command 'R' reads another file.",
    "s": "The command 's' has a flag or a form that is not understood.",
    "w": "!The command 'w' writes a file.",
    "W": "!The command 'W' writes a file.",
}


def check_sed(text: str) -> str | None:
    """Why this script is not proven to only print; None when it is."""
    if len(text) > TEXT_CHARACTERS_MAX:
        return TOO_LONG
    if not _ALLOWED.fullmatch(text):
        return "A control character is not understood."
    if (len(text) - len(text.rstrip("\\"))) % 2:
        return "The script ends in the middle of an escape."
    place = 0
    while place < len(text):
        found = _COMMAND.match(text, place)
        if found is None and (bracketed := _BRACKETED.match(text, place)):
            # A substitution that new seds accept, and that every other sed calls an error.
            flags = _FLAGS.match(text, text.index("s", place))
            after = text[flags.end() : flags.end() + 1] if flags else "?"
            found = bracketed if after and after not in " \t\n;}#ew" else None
        if found is None:
            before = _BEFORE.match(text, place)
            start = before.end() if before else place
            flags = _FLAGS.match(text, start)
            flag = text[flags.end() : flags.end() + 1] if flags else ""
            why = f"The command {quote_word(text[start : start + 12])} is not understood."
            return _FLAG_REASONS.get(flag) or _REASONS.get(text[start : start + 1], why)
        place = found.end()
    return None
