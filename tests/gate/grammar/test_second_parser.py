"""Another parser, of other people, sees no command in what is judged SAFE that we did not see."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import tree_sitter_bash
from hypothesis import given
from hypothesis import strategies as st
from tree_sitter import Language, Node, Parser

from operator_protocols.domain.action import Action
from operator_protocols.domain.verdict import Level
from operator_sre.gate import Policy, judge
from operator_sre.gate.grammar.compile import FOLDER, examples, tables_in
from operator_sre.gate.grammar.findings import name_of, read
from operator_sre.gate.grammar.scene import Scene
from operator_sre.gate.grammar.tables import tables
from operator_sre.shell.line import parse
from tests.every import expect_each
from tests.gate.mutations import HARMLESS

POLICY = Policy()
PARSER = Parser(Language(tree_sitter_bash.language()))
TABLES = sorted((FOLDER / "tools").glob("*.yaml"))


@cache
def safe_in(file: Path) -> list[str]:
    """The SAFE examples of the tables in one file."""
    found = examples(tables_in(file.read_text(encoding="utf-8")))
    return sorted({command for command, safe in found if safe})


def names_of_the_other(command: str) -> set[str]:
    """The names of the commands that the other parser finds."""
    found = set()
    for node in nodes(PARSER.parse(command.encode()).root_node):
        if node.type == "command_name":
            text = command.encode()[node.start_byte : node.end_byte].decode()
            found.add(text.strip("'\"\\").rpartition("/")[2])
    return found


def nodes(root: Node) -> Iterator[Node]:
    """Every node of a tree."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(node.children)


def our_names(command: str) -> set[str]:
    """The names of the commands that we looked at."""
    scene = Scene(POLICY.secrets, POLICY.reaches)
    found = {name_of(one.simple) for one in read(parse(command), scene, tables())}
    # Words of the shell to us, commands to the other.
    return found | {"time", "["}


@pytest.mark.parametrize("file", TABLES, ids=lambda file: file.stem)
def test_they_agree_on_every_example(file: Path) -> None:
    def agree(command: str) -> None:
        assert judge(Action.shell(command), POLICY, person=True).level is Level.SAFE
        assert names_of_the_other(command) <= our_names(command)

    expect_each(((command,) for command in safe_in(file)), agree)


def harmless() -> st.SearchStrategy[str]:
    """Any command that is SAFE, ours and those of the tables."""
    return st.sampled_from([command for file in TABLES for command in safe_in(file)] + HARMLESS)


joint = st.sampled_from([" | ", " ; ", " && ", " || ", "\n", " 2>/dev/null | ", "\t|\t"])


@given(st.lists(st.deferred(harmless), min_size=2, max_size=4), joint)
def test_they_agree_on_chains(commands: list[str], between: str) -> None:
    chain = between.join(commands)
    if judge(Action.shell(chain), POLICY, person=True).level is Level.SAFE:
        assert names_of_the_other(chain) <= our_names(chain)
