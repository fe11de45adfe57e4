"""Reading a command line: a closed part of the shell's language, exactly, in linear time.

What lies outside of it is named as trouble, and reading goes on as well as it can, so that
a dangerous command inside of something strange is still recognised. What lies inside of it is read
as every POSIX shell reads it.
"""

from __future__ import annotations

import re

from operator_sre.shell.structures import GROUPS_MAX, TOKEN, VALUES_MAX, WILD, Structured
from operator_sre.shell.words import (
    Building,
    Redirect,
    Script,
    Simple,
    Word,
    fill_mark,
    is_bland,
    texts_of,
)

__all__ = ["ASSIGNMENT", "COMMAND_BYTES_MAX", "UNCLOSED", "one_command", "parse"]

COMMAND_BYTES_MAX = 4096
DEPTH_MAX = 4
COMMANDS_MAX = 32
# Of what is too long to be judged, so much is read to explain it.
GLANCE_BYTES = 1024
BODIES_MAX = 4

_INSIDE = re.compile(r"[^\"\\$`]+|\\\n|\\[$`\"\\]|\\|\$|`|\"", re.DOTALL)
_VARIABLE = re.compile(r"\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)\}|([?$#]))")
ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?=)")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
# Removed by the shell before it reads anything, so that it may stand between `$` and `(`.
_BROKEN_WORD = re.compile(r"(?<![ \t])\\\n")
_WORD_END = re.compile(r"[\s;|&()<>]|\Z")

# What ends a word for certain; the empty text, at the end of the line, is in every text.
_AFTER_WORD = " \t\n;|"
_ARROWS = ("<", ">")
_MARK = "\x00"
UNCLOSED = "A quote is opened and never closed."


def parse(command: str) -> Script:
    """The simple commands of a line, and what of it is not understood."""
    whole = len(command) <= COMMAND_BYTES_MAX
    reader = _Reader((command if whole else command[:GLANCE_BYTES]).replace(_MARK, ""))
    if not whole:
        reader.note(f"It is longer than {COMMAND_BYTES_MAX} characters.")
    elif _CONTROL.search(command):
        reader.note("It contains control characters.")
    elif _BROKEN_WORD.search(command):
        reader.note("A line is broken in the middle of a word.")
    elif not command.isascii() and not all(
        letter.isprintable() or letter in "\n\t" for letter in command
    ):
        reader.note("It contains invisible characters.")
    elif not command.strip():
        reader.note("There is no command.")
    reader.read("")
    if not reader.commands:  # like a `!` that negates nothing
        reader.note("There is no command.")
    return Script(tuple(reader.commands), reader.trouble, reader.plain)


def one_command(command: str) -> tuple[str, ...] | None:
    """The words of a line that is one plain command of which everything is known; else None."""
    script = parse(command)
    if script.trouble or not script.plain or len(script.commands) != 1:
        return None
    simple = script.commands[0]
    known = not any(word.opaque or word.glob for word in simple.words)
    alone = not (simple.redirects or simple.assignments) and bool(simple.words)
    return simple.argv if known and alone else None


class _Reader(Structured):
    """Reads from `at` on; commands and trouble are gathered as it goes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text
        self.at = 0
        self.depth = 0
        self.commands: list[Simple] = []
        self.trouble = ""
        self.plain = True
        self.fed = False
        self._at_hand = Building()
        self._bodies: list[str] = []
        self._bland = True

    def note(self, trouble: str) -> None:
        """Remember the first thing that is not understood."""
        if trouble and not self.trouble:
            self.trouble = trouble

    def read(self, until: str) -> None:
        """Read a list of commands up to the closing sign, which is taken away."""
        text, match = self.text, TOKEN.match
        simple = self._begin_command()
        groups = 0
        end = len(text)
        while self.at < end:
            token = match(text, self.at)
            assert token is not None
            kind = token.lastgroup
            after = token.end()
            if kind == "blank":
                self.at = after
            elif kind == "bare" and simple.words and text[after : after + 1] in _AFTER_WORD:
                simple.words.append(Word(token.group(), bare=True))  # as `_take` does
                simple.last = (self.at, after)
                self.at = after + 1 if text[after : after + 1] == " " else after
            elif kind == "separator":
                self.at = token.end()
                if token.group() == "\n":
                    for delimiter in self._bodies[:BODIES_MAX]:  # of here-documents
                        body = re.compile(rf"^\t*{re.escape(delimiter)}$", re.MULTILINE)
                        last = body.search(text, self.at)
                        self.at = min(last.end() + 1, end) if last else end
                    self._bodies.clear()
                elif token.group() == ";;":
                    self.note("';;' makes it a script.")
                self._finish(simple)
                piped = token.group() in ("|", "|&")
                simple = self._begin_command(piped=piped, from_line=piped and simple.only_tells())
            elif kind == "redirect":
                self.at = token.end()
                self._redirect(token, simple)
            elif kind == "rest" and (sign := token.group()) in "()&#":
                if sign == ")" and until == ")" and not groups:
                    self.at += 1
                    self._finish(simple)
                    if self._open:
                        self.note("Something is opened and never closed.")
                    return
                groups += self._sign(sign, simple)
                if groups > GROUPS_MAX:
                    self.note("It is nested too deeply.")
                    self.at = end
                if sign != "#":
                    self._finish(simple)
                    simple = self._begin_command(closed=sign == ")")
            else:
                self._take(simple, token)
        self._finish(simple)
        if until or groups or self._open:
            self.note("Something is opened and never closed.")

    def _begin_command(
        self, *, closed: bool = False, piped: bool = False, from_line: bool = False
    ) -> Building:
        """The next command, which reads what those around it read unless a pipe leads into it."""
        self._at_hand = Building(closed=closed, piped=piped or self.fed, from_line=from_line)
        return self._at_hand

    def _sign(self, sign: str, simple: Building) -> int:
        """What a parenthesis, an ampersand or a hash means here: by how much groups grow."""
        self.at += 1
        if sign == "&":
            self.note("It leaves a process running in the background.")
        elif sign == "#":
            self.note("It contains a comment, as scripts do.")
            newline = self.text.find("\n", self.at)
            self.at = len(self.text) if newline < 0 else newline
        elif sign == "(":
            self.plain = False
            if simple.piped:
                self.note("A pipe leads into a group of commands.")
            if simple.words or simple.assignments or self.text[self.at : self.at + 1] == "(":
                self.note("It defines a function or evaluates arithmetic.")
            return 1
        return -1 if sign == ")" else 0

    def _take(self, simple: Building, token: re.Match[str]) -> None:
        """Read the word that begins with a token, and put it where it belongs."""
        start, end = self.at, token.end()
        if token.lastgroup == "bare" and self.text[end : end + 1] in _AFTER_WORD:
            self.at = end  # most words are one token
            word = Word(token.group(), bare=True)
        else:
            word = self.word()
        simple.last = (start, self.at)
        if simple.words:
            simple.words.append(word)
            return
        if word.bare and self._structure(simple, word.text):
            return
        if simple.closed and not (
            word.text.isdigit() and self.text[self.at : self.at + 1] in _ARROWS
        ):
            self.note("Something follows a closing parenthesis.")
        assignment = ASSIGNMENT.match(self.text, start)
        if assignment is not None:  # as it is written: what is quoted is no assignment
            simple.assignments.append((assignment[1], word))
        else:
            simple.words.append(word)

    def word(self) -> Word:
        """One word from here on."""
        pieces: list[str] = []
        text, match = self.text, TOKEN.match
        opaque = splits = glob = False
        bare = bland = True
        brace = False  # whether one is open that is not quoted
        while self.at < len(text):
            token = match(text, self.at)
            assert token is not None
            kind, piece = token.lastgroup, token.group()
            if kind == "bare":
                pieces.append(piece)
                if brace and ("," in piece or ".." in piece):
                    self.note("Braces expand to several words.")
                    splits = opaque = True
                self.at = token.end()
            elif kind in ("single", "double"):
                pieces.append(piece[1:-1])
                bare = False
                self.at = token.end()
            elif kind == "escape":
                pieces.append(piece[1])
                bare = False
                self.at = token.end()
            elif kind == "glob":
                pieces.append(piece)
                glob = True
                self.at = token.end()
            elif kind == "rest" and piece not in "()&":
                if piece == "#" and not pieces and bare:
                    break
                if piece == '"':
                    self.at += 1
                    unknown, plain = self._read_quotes(pieces)
                    opaque, bland, bare = opaque or unknown, bland and plain, False
                elif piece == "$":
                    unknown, plain = self._dollar(pieces, quoted=False)
                    opaque, bland = opaque or unknown, bland and plain
                    splits = splits or unknown
                else:
                    brace = brace or piece == "{"
                    self.at += 1
                    if piece == "`":
                        self._read_backquotes()
                    elif piece == "'":
                        self.note(UNCLOSED)
                    elif piece == "\\":
                        self.note("It ends in a backslash, or escapes an invisible character.")
                    else:  # ~ ! { } are themselves, or are checked as a whole word
                        if not piece.isascii():
                            why = "It contains unquoted non-ASCII letters."
                            self.note(why)
                        pieces.append(piece)
            elif piece == "\\\n":
                self.at = token.end()
            else:
                break
        found = "".join(pieces)
        return Word(found, opaque, splits, glob, bare, opaque and bland)

    def _read_backquotes(self) -> None:
        self.note("Backquotes run a command inside another. Use $( ) instead.")
        end = self.text.find("`", self.at)
        end = end if end >= 0 else len(self.text)
        inner, self.at = self.text[self.at : end], min(end + 1, len(self.text))
        if self.depth < DEPTH_MAX:
            reader = _Reader(inner)
            reader.depth = self.depth + 1
            reader.read("")
            self.commands.extend(reader.commands)

    def _read_quotes(self, pieces: list[str]) -> tuple[bool, bool]:
        """The rest of a double-quoted text: whether part of it is unknown, and plain."""
        opaque, bland = False, True
        while self.at < len(self.text):
            token = _INSIDE.match(self.text, self.at)
            assert token is not None
            piece = token.group()
            if piece == "$":
                unknown, plain = self._dollar(pieces, quoted=True)
                opaque, bland = opaque or unknown, bland and plain
                continue
            self.at = token.end()
            if piece == '"':
                return opaque, bland
            if piece == "`":
                self._read_backquotes()
                opaque = True
            elif piece[0] == "\\" and len(piece) == 2:
                pieces.append("" if piece[1] == "\n" else piece[1])
            else:
                pieces.append(piece)
        self.note(UNCLOSED)
        return True, False

    def _dollar(self, pieces: list[str], *, quoted: bool) -> tuple[bool, bool]:
        """What follows a dollar sign: whether it is unknown, and if it is plain all the same."""
        text, at = self.text, self.at
        following = text[at + 1 : at + 2]
        if following == "(":
            self.at += 2
            if text[self.at : self.at + 1] == "(":
                self.note("It evaluates arithmetic.")
            return True, self._substitute(pieces)
        variable = _VARIABLE.match(text, at)
        if variable is not None:
            self.at = variable.end()
            name = variable[1] or variable[2] or ""
            values = self._loops.get(name)
            if not name:
                pieces.append(f"${variable[3]}")  # a number, but which is not known
                return True, True
            if any(name in names for names in self._read):
                pieces.append("$()")  # a line of what is read, which is shown already
                return True, False
            if values is None:
                pieces.append(f"${name}")
                return True, False
            if not quoted and any(map(WILD.search, values)):
                pieces.append("$()")  # the name of a file may hold blanks
                return True, False
            pieces.append(f"{_MARK}{name}{_MARK}")
            return False, True
        self.at += 1
        if following in "{'\"" and following and not (quoted and following != "{"):
            self.note("It uses an expansion that can hide what runs.")
            pieces.append("$")
            return True, False
        if following and following in "@*!-0123456789_[":
            self.note("It uses an expansion that can hide what runs.")
            return True, False
        pieces.append("$")
        return False, True

    def _substitute(self, pieces: list[str]) -> bool:
        """$( ): its commands are judged like any other; True when its output is plain."""
        pieces.append("$()")
        if self.depth >= DEPTH_MAX:
            self.note("It is nested too deeply.")
            return False
        reader = _Reader(self.text)
        reader.at, reader.depth = self.at, self.depth + 1
        reader._loops = self._loops
        reader.fed = reader._given = self._at_hand.piped and not self._at_hand.from_line
        reader._read = [names for names in self._read if names]
        reader.read(")")
        self.at = reader.at
        self.note(reader.trouble)
        self.commands.extend(reader.commands)
        return len(reader.commands) == 1 and is_bland(reader.commands[0])

    def _redirect(self, token: re.Match[str], simple: Building) -> None:
        """One redirection with what follows it."""
        operator = token.group()
        start = token.start()
        if operator in ("<(", ">("):  # the name of a pipe in the place of a word
            apart = start == 0 or self.text[start - 1] in " \t\n"
            if operator == ">(" or not simple.words:
                self.note("It writes into another command, or runs its output.")
            self._substitute([])
            if not (apart and _WORD_END.match(self.text, self.at)):
                self.note("A process substitution is part of a longer word.")
            simple.words.append(Word("/dev/fd/63"))
            return
        # The number right before the sign is no argument then.
        begin, end = simple.last
        descriptor = self.text[begin:end] if operator[0] in "<>" and end == start else ""
        if simple.words and descriptor.isdigit():
            simple.words.pop()
        else:
            descriptor = ""
        while (blank := TOKEN.match(self.text, self.at)) and blank.lastgroup == "blank":
            self.at = blank.end()
        word = self.word()
        if operator in ("<<", "<<-"):
            self.note("It contains a here-document.")
            self._bodies.append(word.text)
            return
        if not word.text and word.bare:
            self.note("A redirection has no target.")
        fed = operator[0] == "<" and (operator, word.text) != ("<", "/dev/null")
        if simple.closed and fed and not simple.looped:
            self.note("A group of commands reads from a file.")
        simple.redirects.append(Redirect(operator, word, descriptor))

    def _finish(self, simple: Building) -> None:
        if not (simple.words or simple.assignments or simple.redirects):
            return
        if self._open and self._open[-1] == "while" and not self._is_read(simple):
            self.note("'while' makes it a script.")
        elif self._open and self._open[-1] == "while":
            return
        if self._names and simple.words and simple.words[0].text == "cd":
            self.note("It changes its directory in a loop.")
        if len(self.commands) >= COMMANDS_MAX:
            self.note(f"It holds more than {COMMANDS_MAX} commands.")
            self.at = len(self.text)
            return
        # Once for every value of the loops' variables in it.
        found = [simple.build()]
        for name, values in self._loops.items():
            mark = f"{_MARK}{name}{_MARK}"
            if any(mark in text for command in found for text in texts_of(command)):
                if len(found) * len(values) > VALUES_MAX:
                    self.note("Its loops run too many commands.")
                    found = found[:1]
                    break
                found = [fill_mark(command, mark, value) for command in found for value in values]
        self.commands.extend(found)
