"""Reads a bash script into simple commands, as far as it takes to see what each of them runs.

It follows quotes, expansions, substitutions, here-documents and lists; it expands nothing. Its work
is linear in the text, and it reports text that is nested too deeply.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

__all__ = ["Command", "TooDeep", "Word", "commands_of"]

DEPTH_MAX = 24
_BLANKS = " \t"
_ENDS = ";&|\n()"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\[[^\]]*\])?\+?=")
_REDIRECTION = re.compile(r"(?:\{[A-Za-z_]\w*\}|\d+)?(?:&>>?|<<<|<<-?|<>|>>|>\||[<>]&|[<>](?!\())")
# Words after which another command begins.
_RESERVED = frozenset(
    {"!", "{", "}", "do", "done", "elif", "else", "esac", "fi", "if", "then", "time", "until"}
    | {"while", "coproc"}
)
_ESCAPES = re.compile(
    r"\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|([0-7]{1,3})|(.))", re.DOTALL
)
_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b"}


class TooDeep(Exception):
    """Substitutions inside of substitutions, more than a person would write."""


@dataclass(slots=True)
class Word:
    """One word: its letters without quotes, and whether something in it is known only later."""

    text: str = ""
    dynamic: bool = False
    quoted: bool = False


@dataclass(slots=True)
class Command:
    """One simple command. `piped` when it reads what another one writes."""

    line: int
    words: list[Word] = field(default_factory=list)
    piped: bool = False
    fed: bool = False  # by a here-document or a here-string
    prompted: bool = False  # an expansion of it runs its value as a prompt


@dataclass(slots=True)
class _Open:
    """A here-document whose body begins after this line."""

    end: str
    literal: bool
    indented: bool


def commands_of(text: str) -> list[Command]:
    """Every simple command, those in substitutions too. Raises TooDeep."""
    reader = _Reader(text.replace("\\\n", ""))
    reader.commands(close="", depth=0)
    return [each for each in reader.found if each.words or each.prompted]


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._line = 1
        self._documents: list[_Open] = []
        self.found: list[Command] = []

    def commands(self, *, close: str, depth: int) -> None:
        """Read commands up to the closing mark, or to the end."""
        if depth > DEPTH_MAX:
            raise TooDeep
        self._begin(piped=False)
        command = self.found[-1]
        while char := self._peek():
            if char == close:
                self._at += 1
                return
            if char in _BLANKS:
                self._at += 1
            elif char == "#":
                self._skip_to("\n")
            elif char in _ENDS:
                command = self._between(char, command, depth)
            elif found := _REDIRECTION.match(self._text, self._at):
                operator = found.group()
                self._at += len(operator)
                while self._peek() in _BLANKS and self._peek():
                    self._at += 1
                word = self._word(command, close, depth)
                kind = operator.lstrip("0123456789")
                if kind in ("<<", "<<-"):
                    command.fed = True
                    self._documents.append(_Open(word.text, word.quoted, kind == "<<-"))
                elif kind == "<<<" or (kind == "<" and word.dynamic):
                    command.fed = True
            else:
                self._word_of(command, close, depth)

    def _between(self, char: str, command: Command, depth: int) -> Command:
        """What separates commands; a new one begins behind it."""
        if char == "(" and self._text.startswith("((", self._at) and not command.words:
            self._at += 2
            self._arithmetic(depth)
            return command
        self._at += 1
        if char == "\n":
            self._line += 1
            # The bodies of here-documents begin here.
            documents, self._documents = self._documents, []
            for document in documents:
                began = self._at
                while self._at < len(self._text):
                    line = self._until("\n")
                    self._line += 1
                    if (line.lstrip("\t") if document.indented else line) == document.end:
                        break
                if not document.literal:
                    self._read_substitutions(self._text[began : self._at], depth)
        elif char == "(":
            if command.words and self._peek() == ")":
                self._at += 1  # the parentheses of a function's name
                return self._begin(piped=False)
            self.commands(close=")", depth=depth + 1)
        piped = char == "|" and self._peek() != "|"
        if char == "|" and not piped:
            self._at += 1
        if piped and self._peek() == "&":
            self._at += 1
        return self._begin(piped=piped)

    def _begin(self, *, piped: bool) -> Command:
        self.found.append(Command(self._line, piped=piped))
        return self.found[-1]

    def _word_of(self, command: Command, close: str, depth: int) -> None:
        word = self._word(command, close, depth)
        plain = not word.dynamic and not word.quoted
        if not command.words:
            if plain and word.text in _RESERVED:
                return
            if plain and word.text == "[[":
                self._condition(command, depth)
            command.line = self._line
        command.words.append(word)

    def _word(self, command: Command, close: str, depth: int) -> Word:
        """One word, from here to the next blank or end."""
        word = Word()
        while char := self._peek():
            if char in _BLANKS or char == close:
                break
            if char == "(" and _ASSIGNMENT.fullmatch(word.text) and not word.quoted:
                self._at += 1
                # The values between the parentheses of an assignment are no commands.
                if depth > DEPTH_MAX:
                    raise TooDeep
                while (letter := self._peek()) and letter != ")":
                    if letter in _BLANKS + "\n;&|(<>":
                        self._line += letter == "\n"
                        self._at += 1
                    elif letter == "#":
                        self._skip_to("\n")
                    else:
                        self._word(command, ")", depth + 1)
                self._at += 1
                word.text += "()"
            elif char in _ENDS or (char in "<>" and not self._text.startswith("(", self._at + 1)):
                break
            else:
                self._piece(char, word, command, depth)
        return word

    def _piece(self, char: str, word: Word, command: Command, depth: int) -> None:
        self._at += 1
        if char == "\\":
            word.text += self._peek()
            word.quoted = True
            self._at += 1
        elif char == "'":
            word.text += self._until("'")
            word.quoted = True
        elif char == '"':
            word.quoted = True
            while (letter := self._peek()) and letter != '"':
                self._at += 1
                if letter == "\\":
                    word.text += self._peek()
                    self._at += 1
                elif letter in "$`":
                    self._expansion(letter, word, command, depth, inside=True)
                else:
                    self._line += letter == "\n"
                    word.text += letter
            self._at += 1
        elif char in "$`":
            self._expansion(char, word, command, depth)
        elif char in "<>":  # a process substitution
            self._at += 1
            word.dynamic = True
            self.commands(close=")", depth=depth + 1)
        else:
            word.text += char

    def _expansion(
        self, char: str, word: Word, command: Command, depth: int, *, inside: bool = False
    ) -> None:
        """What follows a `$` or a backtick that has just been read."""
        following = self._peek()
        if char == "`":
            word.dynamic = True
            self.commands(close="`", depth=depth + 1)
        elif following == "(":
            word.dynamic = True
            self._at += 1
            if self._peek() == "(":
                self._at += 1
                self._arithmetic(depth)
            else:
                self.commands(close=")", depth=depth + 1)
        elif following == "{":
            word.dynamic = True
            # `${...}`, with whatever is substituted inside of it.
            began = self._at
            self._skip_balanced("{", "}", depth)
            if re.search(r"@P\}$", self._text[began : self._at]):
                command.prompted = True
        elif following == "'" and not inside:
            self._at += 1
            word.quoted = True
            word.text += _ESCAPES.sub(_unescape, self._until("'", escapes=True))
        elif found := _NAME.match(self._text, self._at):
            word.dynamic = True
            self._at = found.end()
        elif following and following in "@*#?$!-0123456789":
            word.dynamic = True
            self._at += 1
        elif following != '"':
            word.text += "$"

    def _arithmetic(self, depth: int) -> None:
        """From behind `((` to behind the `))`."""
        self._at -= 2
        self._skip_balanced("(", ")", depth)

    def _skip_balanced(self, opening: str, closing: str, depth: int) -> None:
        """To behind the mark that closes the one here; substitutions inside are read."""
        if depth > DEPTH_MAX:
            raise TooDeep
        level, ignored = 0, Command(self._line)
        while char := self._peek():
            self._at += 1
            if char == "\\":
                self._at += 1
            elif char in "$`":
                self._expansion(char, Word(), ignored, depth + 1)
            elif char == opening:
                level += 1
            elif char == closing:
                level -= 1
                if level == 0:
                    break
            else:
                self._line += char == "\n"
        if ignored.prompted:
            self.found.append(ignored)

    def _condition(self, command: Command, depth: int) -> None:
        """From behind `[[` to `]]`; operators inside divide no commands."""
        word = Word()
        while char := self._peek():
            if self._text.startswith("]]", self._at):
                self._at += 2
                return
            if char == "\n":
                self._line += 1
            if char in "\\'\"$`":
                self._piece(char, word, command, depth)
            else:
                self._at += 1

    def _read_substitutions(self, body: str, depth: int) -> None:
        """The commands that a here-document runs while it is read."""
        inner = _Reader(body)
        word, command = Word(), Command(self._line)
        while char := inner._peek():
            inner._at += 1
            if char == "\\":
                inner._at += 1
            elif char in "$`":
                inner._expansion(char, word, command, depth + 1, inside=True)
        for each in inner.found:
            each.line = self._line
        self.found[-1:-1] = inner.found
        if command.prompted:
            self.found.insert(-1, command)

    def _until(self, mark: str, *, escapes: bool = False) -> str:
        began = self._at
        while (char := self._peek()) and char != mark:
            self._at += 2 if escapes and char == "\\" else 1
            self._line += char == "\n"
        text = self._text[began : self._at]
        self._at += 1
        return text

    def _skip_to(self, mark: str) -> None:
        found = self._text.find(mark, self._at)
        self._at = len(self._text) if found < 0 else found

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]


def _unescape(found: re.Match[str]) -> str:
    for value, base in zip(found.groups()[:4], (16, 16, 16, 8), strict=True):
        if value is not None:
            return chr(min(int(value, base), 0x10FFFF))
    return _LETTERS.get(found[5], found[5])
