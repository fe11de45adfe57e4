"""The structures of the shell around commands: branches, loops, groups and conditions.

All commands inside of them are judged, whichever way it goes; so it only matters that no word is
taken for another. What is not in the right order is named as trouble.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod

from operator_sre.shell.words import Building, Word

__all__ = ["GROUPS_MAX", "TOKEN", "VALUES_MAX", "WILD", "Structured"]

VALUES_MAX = 32
GROUPS_MAX = 16

TOKEN = re.compile(
    r"""
    (?P<blank>[ \t]+|\\\n)
    |(?P<bare>[A-Za-z0-9_@%+=:,./^\]-]+)
    |(?P<single>'[^']*')
    |(?P<double>"[^"\\$`]*")
    |(?P<separator>&&|\|\||\|&|;;|[;|\n])
    |(?P<redirect><<<|<<-?|<>|<&|<\(|>\(|&>>|&>|>>|>&|>\||[<>])
    |(?P<escape>\\[\x20-\x7e])
    |(?P<glob>[*?\[])
    |(?P<rest>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_PLAIN = re.compile(r"[A-Za-z0-9_@%+=:,./-]+")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Words that start or continue a structure; a command may follow each of them.
_STRUCTURES = frozenset(
    {
        *("if", "then", "elif", "else", "fi", "while", "until", "do", "done", "case", "esac"),
        *("function", "select", "coproc", "{", "}", "[[", "]]"),
    }
)
_OPENS = frozenset({"if", "for", "while", "{"})
# Which word may follow inside of a structure, by how far that has come; and which ends it.
_FOLLOWS = {
    "then": ("if", "elif"),
    "elif": ("then",),
    "else": ("then",),
    "do": ("for", "while"),
}
_CLOSED = {"fi": ("then", "else"), "done": ("do for", "do while"), "}": ("{",)}
# In `[[ ]]` these calculate with both of their sides, and a calculation can run code.
_CALCULATES = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge"})
_NUMBERS = frozenset({"$()", "$?", "$#", "$$"})
_INTEGER = re.compile(r"-?[0-9]{1,18}")
# `$(seq 1 5)` and `{1..5}`.
_COUNTED = re.compile(
    r"(?:\$\(seq ([0-9]{1,4})(?: ([0-9]{1,4}))?\)|\{([0-9]{1,4})\.\.([0-9]{1,4})\})(?=[ \t\n;])"
)
_GLOB = re.compile(r"(?:/|\./|[A-Za-z0-9])[A-Za-z0-9_@%+=:,./*?-]*")
WILD = re.compile(r"[*?]")
_LINE_NAME = re.compile(r"[a-z_][a-z0-9_]*")


class Structured(ABC):
    """A reader of a line, as far as it reads structures."""

    text: str
    at: int
    fed: bool
    plain: bool

    def __init__(self) -> None:
        self._given = False  # what the reader itself was fed
        self._loops: dict[str, list[str]] = {}
        self._open: list[str] = []  # how far each structure around here has come
        self._names: list[str] = []  # of the variables of the loops among them
        self._read: list[list[str]] = []  # names that the loops among them read lines into

    @abstractmethod
    def note(self, trouble: str) -> None:
        """Remember the first thing that is not understood."""

    @abstractmethod
    def word(self) -> Word:
        """One word from here on."""

    def _structure(self, simple: Building, text: str) -> bool:
        """True when the word is part of a structure and not of a command."""
        if text not in _STRUCTURES and text not in ("for", "!", "time"):
            return False
        self.plain = False
        if text in ("!", "time"):
            return text == "!" or not simple.assignments
        if simple.assignments or simple.redirects:  # to the shell it is a word like others then
            self.note(f"{text!r} does not begin a command.")
        around = self._open[-1] if self._open else ""
        if text in _OPENS:
            if (simple.piped and not self.fed and text != "while") or len(self._open) > GROUPS_MAX:
                self.note("A pipe leads into a group of commands.")
            self._open.append(text)
            if text == "for":
                self._loop_head()
            elif text == "while":
                self._read.append([])
        elif text == "[[":
            self._condition(simple)
        elif around in _FOLLOWS.get(text, ()):
            self._open[-1] = text
            if around in ("for", "while"):
                self._open[-1] = f"do {around}"
        elif around in _CLOSED.get(text, ()):
            self._open.pop()
            simple.closed = True
            if around == "do for":
                self._loops.pop(self._names.pop(), None)
            elif around == "do while":
                self._read.pop()
                simple.looped = True
        else:
            self.note(f"{text!r} makes it a script.")
            simple.closed = text in ("}", "fi", "done", "esac")
        self.fed = self._given or bool(self._read)
        return True

    def _condition(self, simple: Building) -> None:
        """`[[ ... ]]`, as `test` for each of its parts; nothing in it is split or becomes files."""
        words = [Word("test")]
        text, match = self.text, TOKEN.match
        while self.at < len(text):
            token = match(text, self.at)
            assert token is not None
            if token.lastgroup == "blank" or token.group() in ("&&", "||"):
                self.at = token.end()
                if token.lastgroup != "blank":
                    words += [Word("-a")]
            elif token.lastgroup in ("separator", "redirect") or token.group() in "()&#":
                break
            else:
                word = self.word()
                if word.text == "]]" and word.bare:
                    simple.words.extend(words)
                    simple.closed = True
                    break
                words.append(
                    Word("=" if word.text == "=~" else word.text, word.opaque, bland=word.bland)
                )
        for place, word in enumerate(words):
            beside = (*words[max(place - 1, 0) : place], *words[place + 1 : place + 2])
            if word.text in _CALCULATES and not all(
                _INTEGER.fullmatch(neighbour.text)
                or (neighbour.bland and neighbour.text in _NUMBERS)
                for neighbour in beside
            ):
                self.note("It evaluates arithmetic on a value that may not be a number.")
        if not simple.words:
            self.note("'[[' makes it a script.")

    def _loop_head(self) -> None:
        """`for NAME in WORD ...;` with nothing but plain words, so that it can be rolled out.

        Counting is done here; a glob stands for all the files that it may become.
        """
        words: list[Word] = []
        text, match = self.text, TOKEN.match
        while self.at < len(text):
            token = match(text, self.at)
            assert token is not None
            if token.lastgroup == "blank":
                self.at = token.end()
            elif token.lastgroup == "separator":
                self.at = token.end()
                break
            elif counted := _COUNTED.match(text, self.at):
                self.at = counted.end()
                ends = [int(end) for end in counted.groups() if end]
                first, last = sorted(ends if len(ends) == 2 else [1, *ends])
                words += [Word(str(number)) for number in range(first, min(last, first + 99) + 1)]
            elif token.lastgroup == "redirect" or token.group() in "()&#":
                break
            else:
                words.append(self.word())
        plain = all(
            (_GLOB if word.glob else _PLAIN).fullmatch(word.text) and not word.opaque
            for word in words
        )
        values = [word.text for word in words[2:]]
        heading = len(words) > 2 and _NAME.fullmatch(words[0].text) and words[1].text == "in"
        if not (heading and plain and len(values) <= VALUES_MAX and len(self._names) < 2):
            self.note("It loops over values that are not known until it runs.")
            self._names.append("")
            return
        self._loops[words[0].text] = values
        self._names.append(words[0].text)

    def _is_read(self, simple: Building) -> bool:
        """True for `read` into plain names, which then stand for lines that are read."""
        words = [word.text for word in simple.words]
        settings = all(
            name == "IFS" and not word.opaque and not word.glob for name, word in simple.assignments
        )
        names = words[2:] if words[1:2] == ["-r"] else words[1:]
        if words[:1] != ["read"] or not settings or simple.redirects or self._read[-1]:
            return False
        if not names or not all(map(_LINE_NAME.fullmatch, names)):
            return False
        self._read[-1] = names
        self.fed = True
        return True
