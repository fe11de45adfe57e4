"""Another parser, of other people, sees no command in what is judged SAFE that we did not see."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import tree_sitter_bash
from hypothesis import given
from hypothesis import strategies as st
from tree_sitter import Language, Node, Parser

from operator_protocols.domain.action import Action
from operator_protocols.domain.verdict import Level
from operator_sre.gate import Policy, judge
from operator_sre.gate.grammar.compile import examples, sources
from operator_sre.gate.grammar.reading import name_of, read
from operator_sre.gate.grammar.scene import Scene
from operator_sre.gate.grammar.shell import parse
from operator_sre.gate.grammar.tables import tables
from tests.gate.mutations import HARMLESS

POLICY = Policy()
PARSER = Parser(Language(tree_sitter_bash.language()))
SAFE = sorted({command for command, safe in examples(sources()) if safe})


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


@pytest.mark.parametrize("command", SAFE)
def test_they_agree_on_every_example(command: str) -> None:
    assert judge(Action.shell(command), POLICY).level is Level.SAFE
    assert names_of_the_other(command) <= our_names(command)


joint = st.sampled_from([" | ", " ; ", " && ", " || ", "\n", " 2>/dev/null | ", "\t|\t"])


@given(st.lists(st.sampled_from(SAFE + HARMLESS), min_size=2, max_size=4), joint)
def test_they_agree_on_chains(commands: list[str], between: str) -> None:
    chain = between.join(commands)
    if judge(Action.shell(chain), POLICY).level is Level.SAFE:
        assert names_of_the_other(chain) <= our_names(chain)
