"""What a command line is made of once the shell's syntax is taken off."""

from __future__ import annotations

import msgspec

__all__ = ["Redirect", "Script", "Simple", "Word", "literal"]


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

    `piped`: it reads what another command writes; `told`: that is written in the line itself.
    `privileged`: it runs as somebody else. `moved`: its line changes the folder somewhere.
    """

    words: tuple[Word, ...]
    assignments: tuple[tuple[str, Word], ...] = ()
    redirects: tuple[Redirect, ...] = ()
    piped: bool = False
    told: bool = False
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
