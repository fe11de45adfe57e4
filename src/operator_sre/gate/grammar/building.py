"""A command while it is being read, and filled in for each turn of a loop."""

from __future__ import annotations

import msgspec

from operator_sre.gate.grammar.words import Redirect, Simple, Word

__all__ = ["Building", "filled", "texts_of"]


class Building:
    """A command that is being read."""

    __slots__ = ("assignments", "closed", "last", "looped", "piped", "redirects", "told", "words")

    def __init__(self, *, closed: bool = False, piped: bool = False, told: bool = False) -> None:
        self.words: list[Word] = []
        self.assignments: list[tuple[str, Word]] = []
        self.redirects: list[Redirect] = []
        self.closed = closed
        self.looped = False  # it ends a loop that reads lines, and may be given a file
        self.piped = piped
        self.told = told
        self.last = (0, 0)  # where the last word was written

    def done(self) -> Simple:
        """The command as it was read."""
        return Simple(
            *(tuple(self.words), tuple(self.assignments), tuple(self.redirects)),
            *(self.piped, self.told),
        )

    def only_tells(self) -> bool:
        """True when it writes nothing but what stands in the line."""
        known = not any(word.opaque or word.glob for word in self.words)
        return known and not self.redirects and [one.text for one in self.words[:1]] == ["echo"]


def texts_of(simple: Simple) -> list[str]:
    """Every text in a command."""
    words = [*simple.words, *(one for _, one in simple.assignments)]
    return [one.text for one in (*words, *(one.word for one in simple.redirects))]


def filled(simple: Simple, mark: str, value: str) -> Simple:
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
            Redirect(one.operator, put(one.word), one.descriptor) for one in simple.redirects
        ),
    )
