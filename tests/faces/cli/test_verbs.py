"""The tree of nouns and verbs: each answers programs too, and each is driven by a test."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import get_args

import pytest
import typer

from operator_sre.faces.cli.contents import NOUNS
from operator_sre.faces.cli.main import command_line
from operator_sre.faces.cli.options import NUMBER_MAX, JsonOption, SubjectsOption, hoist
from tests.e2e.home import run_operator

TESTS = Path(__file__).parents[2]


def _verbs(command: object, path: tuple[str, ...] = ()) -> Iterator[tuple[str, list[str]]]:
    """Every verb as it is typed, with the names of its options."""
    inner = getattr(command, "commands", None)
    if inner is None:
        parameters = getattr(command, "params", [])
        yield " ".join(path), [name for one in parameters for name in one.opts]
        return
    for name, one in inner.items():
        yield from _verbs(one, (*path, name))


VERBS = dict(_verbs(typer.main.get_command(command_line())))
# These go on until they are stopped.
RUNNING = ("agent start", "monitor run", "up", "workers run")


@cache
def _texts() -> list[str]:
    return [path.read_text() for path in TESTS.rglob("*.py") if path != Path(__file__)]


def _is_typed(noun: str, rest: str, text: str) -> bool:
    """Whether a test types this verb, as words of a call or as a line."""
    if not rest:
        return f'"{noun}"' in text
    if f'"{noun}", "{rest}"' in text or (f'"{noun}", *words' in text and f'"{rest}"' in text):
        return True
    # A pattern takes a hundred times as long as looking for the words first.
    return f"{noun} {rest}" in text and re.search(rf"\b{noun} {rest}\b", text) is not None


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_is_driven_by_a_test(verb: str) -> None:
    noun, _, rest = verb.partition(" ")
    typed = any(_is_typed(noun, rest, text) for text in _texts())
    assert typed, f"no test types: operator {verb}"


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_answers_programs_too(verb: str) -> None:
    assert "--json" in VERBS[verb]


@pytest.mark.slow
@pytest.mark.parametrize("noun", NOUNS)
def test_every_noun_works_in_a_process_that_has_loaded_no_other(noun: str, tmp_path: Path) -> None:
    done = run_operator(noun, "--help", cwd=tmp_path)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(f"Usage: operator {noun}")


def test_options_that_several_verbs_have_are_declared_once() -> None:
    assert get_args(JsonOption)[0] is bool
    assert get_args(SubjectsOption)[0] == list[str] | None
    assert {verb for verb, options in VERBS.items() if "--interval-s" in options} == set(RUNNING)


@pytest.mark.parametrize(
    ("line", "hoisted"),
    [
        ("tickets list", "tickets list"),
        ("tickets list --home H", "--home H tickets list"),
        ("tickets --home=H list --debug", "--home=H --debug tickets list"),
        ("gate check -- --home H", "gate check -- --home H"),
        ("gate check x --mode", "gate check x --mode"),
        ("up --homestead H", "up --homestead H"),
    ],
)
def test_global_options_are_moved_to_the_front(line: str, hoisted: str) -> None:
    assert hoist(line.split()) == hoisted.split()


def test_numbers_are_limited_to_what_a_database_can_count() -> None:
    assert (NUMBER_MAX + 1).bit_length() == 64
