"""Small languages that live inside of arguments: why a program does more than read and print.

Each answers None when it is proven that the program only reads its input and prints, else one
sentence. A `!` before the sentence says that it destroys or runs something, a `?` that it may
show a secret.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Generic, TypeVar

from operator_sre.gate.grammar.languages.find import find_commands

__all__ = ["LANGUAGES", "WORD_LANGUAGES", "find_commands"]

_Judge = TypeVar("_Judge")


class _Late(Mapping[str, _Judge], Generic[_Judge]):
    """Functions by name, each imported when it is first asked for: most commands need none."""

    def __init__(self, places: Mapping[str, str]) -> None:
        self._places = places
        self._loaded: dict[str, _Judge] = {}

    def __getitem__(self, name: str) -> _Judge:
        if name not in self._loaded:
            module, _, function = self._places[name].partition(":")
            self._loaded[name] = getattr(import_module(module), function)
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


LANGUAGES: Mapping[str, Callable[[str], str | None]] = _Late(
    {
        "awk": "operator_sre.gate.grammar.languages.awk:awk",
        "go_template": "operator_sre.gate.grammar.languages.go_template:go_template",
        "inspect_template": "operator_sre.gate.grammar.languages.go_template:inspect_template",
        "jq": "operator_sre.gate.grammar.languages.jq:jq",
        "mongo": "operator_sre.gate.grammar.languages.mongo:mongo",
        "psql": "operator_sre.gate.grammar.languages.sql:psql",
        "psql_meta": "operator_sre.gate.grammar.languages.sql:psql_meta",
        "sed": "operator_sre.gate.grammar.languages.sed:check_sed",
        "sql": "operator_sre.gate.grammar.languages.sql:sql",
        "yq": "operator_sre.gate.grammar.languages.jq:yq",
    }
)
WORD_LANGUAGES: Mapping[str, Callable[[Sequence[str]], str | None]] = _Late(
    {
        "find": "operator_sre.gate.grammar.languages.find:find",
        "redis": "operator_sre.gate.grammar.languages.redis:redis",
    }
)
