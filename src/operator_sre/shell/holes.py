"""Where in a command line data may stand, so that whatever it says, it is never code.

Data is put in between single quotes. That makes it one inert argument only where the shell is not
inside other quotes, a substitution or a here-document, and where no program reads it as code.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

__all__ = ["HOLE", "line_trouble", "quote", "words_trouble"]

# Stands for data in a line that is checked; no command line contains it.
HOLE = "\0"

_BEFORE = re.compile(r"[\sA-Za-z0-9_=:/.,+@%\0-]")
_BEHIND = re.compile(r"[\sA-Za-z0-9_=:/.,+@%\0;|&)-]")
_LITERAL = re.compile(r"[A-Za-z0-9_./+-]+")
_ASSIGNS = re.compile(r"[A-Za-z_]\w*=")
_KEYWORDS = frozenset(
    {
        *("if", "then", "else", "elif", "do", "while", "until", "!", "time"),
        *("{", "}", "fi", "done", "esac"),
    }
)
_WRAPPERS = frozenset(
    {
        *("command", "builtin", "exec", "env", "nohup", "nice", "setsid", "timeout", "stdbuf"),
        *("sudo", "doas"),
    }
)
# Programs that read what they are given as code, here or elsewhere.
_SHELLS = frozenset(
    {
        *("eval", "bash", "sh", "dash", "ash", "ksh", "mksh", "zsh", "fish"),
        *("rbash", "busybox", "su", "ssh", "xargs", "parallel", "watch", "script"),
    }
)
_BUILTINS = frozenset(
    {
        *("source", ".", "trap", "let", "declare", "typeset", "local", "readonly", "export"),
        *("unset", "read", "mapfile", "readarray", "alias", "[[", "wait", "getopts", "hash"),
        *("enable", "complete", "compgen", "bind", "fc"),
    }
)
_INTERPRETERS = re.compile(
    r"(?:python|perl|ruby|node|php|lua|tclsh|deno|awk|gawk|mawk|nawk|sed|jq|yq)[\d.]*"
)
_PROGRAM_FIRST = re.compile(r"(?:g|m|n)?awk|sed|jq|yq")
_CODE_OPTIONS = re.compile(
    r"-\w*[ceEfrpx]|--(?:eval|exec|execute|expression|file|command|source)=?"
)


def quote(text: str) -> str:
    """The text as one argument of a shell; in quotes even where it would not need them."""
    return "'" + text.replace("'", "'\"'\"'") + "'"


def line_trouble(line: str) -> str:
    """Why data may not stand where a line has its holes, or ""."""
    scanner = _Scanner(line)
    trouble = scanner.scan()
    if trouble:
        return trouble
    for words in scanner.commands:
        if any(HOLE in word for word in words):
            trouble = words_trouble(words)
            if trouble:
                return trouble
    return ""


def words_trouble(words: Sequence[str]) -> str:
    """Why data may not be an argument of these words, or ""; the first is the program."""
    rest = [*words]
    while rest and _ASSIGNS.match(rest[0]):
        if HOLE in rest[0]:
            return "data cannot be a variable assignment before a command"
        rest = rest[1:]
    if not rest or HOLE in rest[0]:
        return "data cannot be the name of the program"
    if not _LITERAL.fullmatch(rest[0]) and rest[0] not in ("[", "[[", "."):
        return f"which program {rest[0]!r} is is known only at run time"
    names = [word.rpartition("/")[2] for word in rest]
    wrapped = names[0] in _WRAPPERS
    for name in names if wrapped else names[:1]:
        if name in _BUILTINS or name in _SHELLS:
            return f"{name!r} reads its arguments as code"
    if any(name in _SHELLS for name in names):
        return "a shell among the words would read the data as code"
    if names[0] == "env" and any(word.startswith(("-S", "--split")) for word in rest):
        return "'env -S' reads its argument as code"
    if names[0] in ("printf", "test", "[") and any(word in ("-v", "-R") for word in rest):
        return f"{names[0]!r} reads the name of a variable as code"
    found = next((at for at, name in enumerate(names) if _INTERPRETERS.fullmatch(name)), None)
    if found is None:
        return ""
    name, first_is_code = names[found], _PROGRAM_FIRST.fullmatch(names[found])
    given = False
    for at, word in enumerate(rest[found + 1 :], start=found + 1):
        before = rest[at - 1]
        if HOLE in word and (_CODE_OPTIONS.match(before) or _CODE_OPTIONS.match(word)):
            return f"{name!r} reads this argument as code"
        if HOLE in word and first_is_code and not given and before not in ("-v", "--arg"):
            return f"{name!r} reads its first argument as code"
        option = word.startswith("-") or before in ("-v", "-F", "--arg")
        given = given or not option
    return ""


@dataclass(slots=True)
class _Scanner:
    """Reads a line the way a shell does, as far as quotes and the ends of words go."""

    line: str
    commands: list[list[str]] = field(default_factory=lambda: [[]])
    _word: str = ""
    _begun: bool = False
    _redirects: bool = False

    def scan(self) -> str:
        """Take all of it in; why data cannot be put there, or ""."""
        at = 0
        while at < len(self.line):
            found = self._next(at)
            if isinstance(found, str):
                return found
            at = found
        self._end_word()
        return ""

    def _next(self, at: int) -> int | str:
        line, char = self.line, self.line[at]
        pair = line[at : at + 2]
        if char == "\\":
            if pair[1:] in (HOLE, ""):
                return "there is a backslash before it"
            return self._add(pair[1], at + 2)
        if char == "'":
            return self._read_quoted(at, "'")
        if char == '"':
            return self._read_quoted(at, '"')
        if char == "`" or pair in ("$(", "${", "$'", '$"', "$\0", "<<", "((", "<(", ">("):
            return f"the line has {pair.replace(HOLE, '{data}')!r}, after which data may be code"
        if char in "{}":
            return "the line has unquoted braces"
        if char == "#" and not self._begun:
            return "the line has a comment"
        if char == HOLE:
            before, behind = self.line[at - 1 : at], self.line[at + 1 : at + 2]
            if before and not _BEFORE.match(before):
                return f"data cannot follow {before!r}"
            if behind and not _BEHIND.match(behind):
                return f"data cannot precede {behind!r}"
            return self._add(HOLE, at + 1)
        if char in " \t":
            self._end_word()
            return at + 1
        if char in ";|&()\n":
            self._end_word()
            self.commands.append([])
            return at + 1
        if char in "<>":
            self._end_word()
            self._redirects = True
            return at + 1
        return self._add(char, at + 1)

    def _read_quoted(self, at: int, mark: str) -> int | str:
        end = at + 1
        while end < len(self.line) and self.line[end] != mark:
            if self.line[end] == HOLE:
                return "data cannot be inside quotes: remove the quotes, Operator adds them"
            if mark == '"' and (self.line[end] == "`" or self.line[end : end + 2] == "$("):
                return "the line has a substitution, after which data may be code"
            end += 2 if mark == '"' and self.line[end] == "\\" else 1
        if end >= len(self.line):
            return "a quote is not closed"
        return self._add(self.line[at + 1 : end], end + 1)

    def _add(self, text: str, at: int) -> int:
        self._word += text
        self._begun = True
        return at

    def _end_word(self) -> None:
        if self._begun and not self._redirects:
            command = self.commands[-1]
            if command or self._word not in _KEYWORDS:
                command.append(self._word)
        if self._begun:
            self._redirects = False
        self._word, self._begun = "", False
