"""The tree of nouns and verbs as the command line knows it, and lines run in this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

import pytest
import typer

from operator_sre.faces.cli.main import command_line
from operator_sre.faces.cli.options import hoist
from tests.e2e.warm import Done

# The module: the package has a function of the same name.
_MAIN = import_module("operator_sre.faces.cli.main")

__all__ = [
    "Parameter",
    "Verb",
    "global_options",
    "own_sentences",
    "parse_line",
    "run_here",
    "verbs",
]


@dataclass(frozen=True, slots=True)
class Parameter:
    """One option or argument of a verb."""

    name: str
    option: str
    required: bool
    kind: str
    flag: bool
    help: str
    default: object
    many: bool

    def words(self, value: str) -> list[str]:
        """How it is given this value on a line."""
        return [f"{self.option}={value}"] if self.option else ["--", value]


@dataclass(frozen=True, slots=True)
class Verb:
    """One verb as it is typed, its help, and what it takes."""

    path: tuple[str, ...]
    help: str
    parameters: tuple[Parameter, ...]

    @property
    def line(self) -> str:
        """As it is typed."""
        return " ".join(self.path)


def verbs() -> list[Verb]:
    """Every verb there is, in the order of the help."""
    return list(_below(_tree(), ()))


def global_options() -> list[Parameter]:
    """What may stand anywhere on every line."""
    return [_parameter(one) for one in _tree().params]


def own_sentences() -> dict[str, str]:
    """What each noun says of itself, in the order of the help."""
    found = _tree().commands
    return {noun: found[noun].get_short_help_str(limit=200) for noun in _MAIN.NOUNS}


@cache
def _tree() -> Any:
    return typer.main.get_command(command_line())


def _below(command: Any, path: tuple[str, ...]) -> Iterator[Verb]:
    inner = getattr(command, "commands", None)
    if inner is None:
        yield Verb(path, command.help or "", tuple(map(_parameter, command.params)))
        return
    for name, one in inner.items():
        yield from _below(one, (*path, name))


def _parameter(one: Any) -> Parameter:
    option = max(one.opts, key=len) if one.param_type_name == "option" else ""
    kind = one.type.name.removesuffix(" range")
    return Parameter(
        name=one.name,
        option=option,
        required=bool(one.required),
        kind=kind,
        flag=bool(getattr(one, "is_flag", False)),
        help=getattr(one, "help", "") or "",
        default=one.default,
        many=one.nargs == -1 or bool(getattr(one, "multiple", False)),
    )


def parse_line(words: Sequence[str]) -> tuple[str, ...]:
    """The verb of a line, parsed to its end and not run; raises what the parser objects to."""
    path: tuple[str, ...] = ()
    command, context = _tree(), None
    rest = [word for word in hoist(words) if word not in ("--help", "--version")]
    while True:
        context = command.make_context(command.name, rest, parent=context)
        if not hasattr(command, "resolve_command"):
            return path
        given = [*context._protected_args, *context.args]
        name, command, rest = command.resolve_command(context, given)
        path = (*path, name)


def run_here(capsys: pytest.CaptureFixture[str], words: Sequence[str]) -> Done:
    """The line, run to its end in this process; the tree is built once, for all of them."""
    capsys.readouterr()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_MAIN, "command_line", lambda words, outline: _tree())
        with pytest.raises(SystemExit) as end:
            _MAIN.main(list(words))
    out, err = capsys.readouterr()
    code = end.value.code
    return Done(code if isinstance(code, int) else 1, out, err)
