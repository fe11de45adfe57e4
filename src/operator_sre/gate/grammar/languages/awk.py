"""Programs of awk that only print: no command, no file, no environment."""

from __future__ import annotations

from collections.abc import Sequence

from operator_sre.gate.grammar.languages.reason import TEXT_CHARACTERS_MAX, TOO_LONG, quote_word
from operator_sre.gate.grammar.patterns import re

__all__ = ["awk"]

_TOKEN = re.compile(
    r"""[ \t]*+(?:
      (?P<word>[A-Za-z_][A-Za-z0-9_]*+)
    | (?P<number>(?>\d++(?:\.\d*+)?|\.\d++)(?:[eE][+-]?\d++)?)
    | (?P<string>"(?:[^"\\\n]|\\[^\n])*+")
    | (?P<comment>\#[^\n\\]*+(?=\n|\Z))
    | (?P<slash>/)
    | (?P<mark>&&|\|\||>>|>=|\+\+|--|[\n$()\[\]{};,?:+*%^!<>=~-])
    | (?P<end>\Z)
    )""",
    re.VERBOSE,
)
_REGEX = re.compile(r"(?:[^/\\\n]|\\[^\n])++/")
_BRACKETS = re.compile(r"(?:[^\[\\/]|\\.|\[\^?+\]?+(?:\[:[a-z]++:\]|[^\]\\]|\\.)*+\])*+/")
_BRACKETS_RAW = re.compile(r"(?:[^\[\\/]|\\.|\[\^?+\]?+(?:\[:[a-z]++:\]|[^\]])*+\])*+/")
_FUNCTIONS = frozenset(
    """
    and asort asorti atan2 close compl cos exp fflush gensub gsub index int isarray length log
    lshift match mktime or patsplit rand rshift sin split sprintf sqrt srand strftime strtonum sub
    substr systime tolower toupper typeof xor
    """.split()  # noqa: SIM905
)
_KEYWORDS = frozenset(
    """
    BEGIN BEGINFILE END ENDFILE break case continue default delete do else exit for func function
    if in next nextfile print printf return switch while
    """.split()  # noqa: SIM905
)
# What some awks know as a keyword or a function, and others as a variable to be divided.
_SLASH_UNCLEAR = (
    (_KEYWORDS - {"do", "else", "exit", "in", "print", "printf", "return"})
    | _FUNCTIONS
    | {"++", "--", "if)"}
)
_CONTROL = frozenset({"for", "if", "switch", "while"})
_REASONS: dict[str, str] = {
    "ARGC": "ARGC decides which files are read.",
    "ARGV": "ARGV decides which files are read.",
    "ENVIRON": "?ENVIRON holds the environment, which may hold secrets.",
    "FUNCTAB": "!FUNCTAB calls functions by a name that is not shown.",
    "SYMTAB": "?SYMTAB gives access to every variable, also to the environment.",
    "getline": "!The word 'getline' reads a file or runs a command.",
    "system": "!The function 'system' runs a shell command.",
}
_STREAMS = re.compile(r'>[ \t]*+"/dev/std(?:err|out)"[ \t]*+(?=[;}\n]|\Z)')
_DEFINED = re.compile(r"\bfunc(?:tion)?[ \t]++([A-Za-z_][A-Za-z0-9_]*+)")
_ODD: dict[str, str] = {
    "|": "!A pipe runs a command.",
    "@": "!An '@' loads code or calls a function by a hidden name.",
    "\\": "A line that continues on the next one is not understood.",
    "#": "A comment that ends in a backslash is not understood.",
}


def awk(text: str) -> str | None:
    """Why this program is not proven to only print; None when it is."""
    if len(text) > TEXT_CHARACTERS_MAX:
        return TOO_LONG
    if "/inet" in text:
        return "!A file below '/inet' is a connection to another machine."
    return _Scan(text).reason()


class _Scan:
    """One walk over the tokens, which knows what the last one was and whether it prints."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._defined = frozenset(_DEFINED.findall(text))
        self._place = 0
        self._last = ""
        self._operand = False  # whether a slash here divides
        self._open: list[bool] = []  # for every open bracket: whether a condition is in it
        self._print = -1  # how many brackets were open at `print`; -1 outside of one

    def reason(self) -> str | None:
        """The first thing that is more than printing."""
        text = self._text
        while True:
            found = _TOKEN.match(text, self._place)
            if found is None:
                rest = text[self._place :].lstrip(" \t")
                return _ODD.get(
                    rest[:1], f"What begins at {quote_word(rest[:12])} is not understood."
                )
            kind, token = found.lastgroup, text[found.start(found.lastgroup or 0) : found.end()]
            self._place = found.end()
            if kind == "end":
                return None
            if kind == "word":
                if token in _REASONS:
                    return _REASONS[token]
                following = text[self._place : self._place + 8].lstrip(" \t")[:1]
                is_known = token in _FUNCTIONS or token in self._defined
                if token in ("print", "printf"):
                    self._print = len(self._open)
                elif token not in _KEYWORDS and following == "(" and not is_known:
                    return f"The function {quote_word(token)} is not known."
                self._last, self._operand = token, token not in _KEYWORDS
            elif kind == "mark":
                reason = self._mark(token)
                if reason is not None:
                    return reason
            elif kind == "slash" and self._last in _SLASH_UNCLEAR:
                return "Not every awk reads this slash in the same way."
            elif kind == "slash" and self._operand:
                self._last, self._operand = "/", False
            elif kind == "slash":
                regex = _REGEX.match(text, self._place)
                if regex is None:
                    return "A regular expression does not end."
                whole: Sequence[re.Pattern[str]] = (_BRACKETS, _BRACKETS_RAW)
                if "[" in regex[0] and any(
                    pattern.fullmatch(regex[0]) is None for pattern in whole
                ):
                    return "A slash in brackets is not read in the same way by every awk."
                self._place = regex.end()
                self._last, self._operand = "regex", True
            elif kind != "comment":
                self._last, self._operand = token, True

    def _mark(self, mark: str) -> str | None:
        last, self._last = self._last, mark
        self._operand = False
        if mark in "([":
            self._open.append(mark == "(" and last in _CONTROL)
        elif mark in ")]":
            if not self._open:
                return "A bracket is closed that was not opened."
            # After the bracket of a condition, some awks read a slash as one thing, some another.
            self._last = "if)" if self._open.pop() else mark
            self._operand = True
        elif mark in ";}":
            self._print = -1
        elif mark == ">>" or (mark == ">" and self._print == len(self._open)):
            found = _STREAMS.match(self._text, self._place - 1) if mark == ">" else None
            if found is None or self._print < 0:
                return "!It prints into a file."
            self._place, self._operand = found.end(), True
        return None
