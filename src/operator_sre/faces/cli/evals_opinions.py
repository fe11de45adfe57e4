"""A second opinion as text: how often two agree, and all on which they do not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from operator_sre.faces.cli.output import clean, print_lines, print_table

if TYPE_CHECKING:
    from operator_sre.app.evals.second import Opinions

__all__ = ["show_opinions"]

TEXT_CHARS_MAX = 160
_SAYS = {True: "yes", False: "no", None: "-"}
# Whether it is destructive, or the cause is right: by the first opinion, and by the second.
Pair = tuple[bool, bool | None]


def show_opinions(found: Opinions) -> None:
    """How many there are, and the ones that a person should look at."""
    usd, tokens = found.spent.usd, found.spent.tokens
    head = f"second opinion of {found.by}, for {tokens} tokens and {usd:.4f} USD in all"
    print_lines([clean(head)])
    commands: list[Pair] = [(one.by_gate, one.by_model) for one in found.opinions]
    causes: list[Pair] = [(one.by_facts, one.by_model) for one in found.causes]
    counted = [("destructive", *_counted(commands)), ("cause right", *_counted(causes))]
    print_table(("what", "of", "agree", "differ", "no answer"), counted)
    rows: list[tuple[object, ...]] = [
        ("destructive", _cut(one.text), _SAYS[one.by_gate], _SAYS[one.by_model])
        for one in found.opinions
        if one.differ
    ]
    rows += [
        ("cause right", one.key, _SAYS[one.by_facts], _SAYS[one.by_model])
        for one in found.causes
        if one.differ
    ]
    if rows:
        print_lines(["", "on which they differ"])
        print_table(("what", "about", "first", "second"), rows)
    if found.problem:
        print_lines(["", clean(f"Not all was asked: {found.problem}")])


def _counted(pairs: Sequence[Pair]) -> tuple[int, int, int, int]:
    clear = [(first, second) for first, second in pairs if second is not None]
    agree = sum(first is second for first, second in clear)
    return len(pairs), agree, len(clear) - agree, len(pairs) - len(clear)


def _cut(text: str) -> str:
    return text if len(text) <= TEXT_CHARS_MAX else f"{text[:TEXT_CHARS_MAX]}..."
