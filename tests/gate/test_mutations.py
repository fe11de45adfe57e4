"""Nothing that dresses a harmful command up makes it SAFE."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operator_protocols.domain.action import Action
from operator_protocols.domain.verdict import Level
from operator_sre.gate import Policy, judge
from tests.every import every
from tests.gate.mutations import HARMFUL, HARMLESS, WAYS, dressed_up

POLICY = Policy()


def level_of(command: str) -> Level:
    """What the gate thinks of a command line."""
    return judge(Action.shell(command), POLICY, person=True).level


@pytest.mark.parametrize("command", HARMLESS)
def test_the_harmless_ones_are_safe(command: str) -> None:
    assert level_of(command) is Level.SAFE


@every("command", HARMFUL)
def test_every_single_way_to_dress_a_harmful_command_up_fails(command: str) -> None:
    luck = random.Random(command)
    safe = [way for way in WAYS if level_of(WAYS[way](command, luck)) is Level.SAFE]
    assert level_of(command) is not Level.SAFE
    assert not safe


@given(st.sampled_from(HARMFUL), st.randoms(use_true_random=False), st.integers(1, 4))
def test_nor_do_several_of_them_together(command: str, luck: random.Random, depth: int) -> None:
    dressed = dressed_up(command, luck, depth)
    assert level_of(dressed) is not Level.SAFE, dressed


HARM = ["; rm y", " && rm y", " | sh", " > out", " >> out", " 2> out", " $(rm y)", " `rm y`", " &"]


@given(st.sampled_from(HARMLESS), st.sampled_from(HARM), st.sampled_from(HARMLESS))
def test_a_harmless_command_with_something_added_is_not_safe(
    command: str, harm: str, other: str
) -> None:
    assert level_of(f"{command}{harm}") is not Level.SAFE
    assert level_of(f"{other} | {command}{harm}") is not Level.SAFE


noise = st.text(st.sampled_from(list(" \t\n;|&<>()$`'\"\\{}[]*?~#!=-/.a1rmé\u200b")), max_size=12)


@given(st.text(max_size=500) | st.builds("{}{}{}".format, noise, st.sampled_from(HARMFUL), noise))
def test_any_text_gets_a_verdict(text: str) -> None:
    verdict = judge(Action.shell(text), POLICY, person=True)
    assert verdict.rules
    assert verdict.explanation
