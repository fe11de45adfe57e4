"""What a command line is made of once the shell's syntax is taken off."""

from __future__ import annotations

import re

import msgspec

__all__ = [
    "Building",
    "Redirect",
    "Script",
    "Simple",
    "Word",
    "fill_mark",
    "is_bland",
    "literal",
    "texts_of",
]


class Word(msgspec.Struct, frozen=True, gc=False):
    """One argument as the program will see it, as far as that can be known.

    `opaque`: part of it is only known when it runs. `splits`: it may become several words or none.
    `glob`: the shell may put names of files in its place. `bare`: nothing in it was quoted.
    `bland`: what is not known of it is a plain number, name or time.
    """

    text: str
    opaque: bool = False
    splits: bool = False
    glob: bool = False
    bare: bool = False
    bland: bool = False


class Redirect(msgspec.Struct, frozen=True, gc=False):
    """Where a command's input comes from or its output goes to."""

    operator: str
    word: Word
    descriptor: str = ""


class Simple(msgspec.Struct, frozen=True, gc=False):
    """One command with its arguments: what a rule is ever matched against.

    `piped`: it reads what another command writes; `from_line`: that is written in the line itself.
    `privileged`: it runs as another user. `moved`: its line changes the folder somewhere.
    """

    words: tuple[Word, ...]
    assignments: tuple[tuple[str, Word], ...] = ()
    redirects: tuple[Redirect, ...] = ()
    piped: bool = False
    from_line: bool = False
    privileged: bool = False
    moved: bool = False

    @property
    def argv(self) -> tuple[str, ...]:
        """The texts of its words."""
        return tuple(word.text for word in self.words)


class Script(msgspec.Struct, frozen=True, gc=False):
    """Every simple command of a line, in order, those inside of others first.

    `trouble` says what of the line is outside of the closed set of structures; with it, the
    commands are only good for explaining why the line is refused. `plain`: no group, loop or other
    structure is around any of them.
    """

    commands: tuple[Simple, ...]
    trouble: str = ""
    plain: bool = True


def literal(text: str) -> Word:
    """A word that is exactly this text."""
    return Word(text)


class Building:
    """A command that is being read."""

    __slots__ = (
        "assignments",
        "closed",
        "from_line",
        "last",
        "looped",
        "piped",
        "redirects",
        "words",
    )

    def __init__(
        self, *, closed: bool = False, piped: bool = False, from_line: bool = False
    ) -> None:
        self.words: list[Word] = []
        self.assignments: list[tuple[str, Word]] = []
        self.redirects: list[Redirect] = []
        self.closed = closed
        self.looped = False  # it ends a loop that reads lines, and may be given a file
        self.piped = piped
        self.from_line = from_line
        self.last = (0, 0)  # where the last word was written

    def build(self) -> Simple:
        """The command as it was read."""
        return Simple(
            *(tuple(self.words), tuple(self.assignments), tuple(self.redirects)),
            *(self.piped, self.from_line),
        )

    def only_tells(self) -> bool:
        """True when it writes nothing but what stands in the line."""
        known = not any(word.opaque or word.glob for word in self.words)
        return known and not self.redirects and [word.text for word in self.words[:1]] == ["echo"]


def texts_of(simple: Simple) -> list[str]:
    """Every text in a command."""
    words = [*simple.words, *(value for _, value in simple.assignments)]
    words += [redirect.word for redirect in simple.redirects]
    return [word.text for word in words]


def fill_mark(simple: Simple, mark: str, value: str) -> Simple:
    """The command with a value in the place of a mark."""

    def put(word: Word) -> Word:
        if mark not in word.text:
            return word
        text = word.text.replace(mark, value)
        glob = "*" in value or "?" in value  # the name of some file, of which only this is known
        opaque = word.opaque or (glob and word.text != mark)
        return Word(text, opaque, word.splits, word.glob or glob, word.bare, word.bland)

    return msgspec.structs.replace(
        simple,
        words=tuple(map(put, simple.words)),
        assignments=tuple((name, put(word)) for name, word in simple.assignments),
        redirects=tuple(
            Redirect(redirect.operator, put(redirect.word), redirect.descriptor)
            for redirect in simple.redirects
        ),
    )


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
    """True when the caller cannot choose what it prints."""
    if not simple.words or simple.assignments:
        return False
    known = _BLAND.get(simple.words[0].text)
    if known is None or any(
        word.opaque or not known.fullmatch(word.text) for word in simple.words[1:]
    ):
        return False
    return all(
        redirect.operator == ">" and redirect.descriptor == "2" for redirect in simple.redirects
    )
