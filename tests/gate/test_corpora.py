"""Measured on whole collections of commands, which were written from how the tools work.

`tests/cases` holds what an engineer on call types to look at a system, what does harm, and what
shows secrets. None of them is ever run: they are judged as text.
"""

from __future__ import annotations

from collections import Counter

import pytest

from operator_protocols.domain.action import Action
from operator_protocols.domain.verdict import Level, Verdict
from operator_sre.gate import Policy, judge
from tests.cases.corpora import CORPORA, commands_in
from tests.every import expect_each

POLICY = Policy()
ASKING = pytest.mark.parametrize("person", [True, False], ids=["person", "agent"])
# An agent reaches fewer hosts than a person, so that fewer of its questions are SAFE.
SAFE_MIN = {True: 0.95, False: 0.87}
COUNT_MIN = {"diagnostics": 300, "dangerous": 250, "secrets": 60, "blocked": 40}


def verdict_on(command: str, *, person: bool) -> Verdict:
    """What the gate thinks of a command line."""
    return judge(Action.shell(command), POLICY, person=person)


def test_every_collection_is_there_and_has_nothing_twice() -> None:
    assert set(CORPORA) == set(COUNT_MIN)
    for name in CORPORA:
        counted = Counter(commands_in(name))
        assert len(counted) >= COUNT_MIN[name], name
        assert [command for command, times in counted.items() if times > 1] == [], name


@ASKING
@pytest.mark.parametrize("name", ["dangerous", "secrets"])
def test_none_that_does_harm_or_shows_a_secret_is_safe(name: str, person: bool) -> None:
    def is_not_safe(command: str) -> None:
        level = verdict_on(command, person=person).level
        assert level is not Level.SAFE

    expect_each(zip(commands_in(name), strict=True), is_not_safe)


@ASKING
def test_what_ends_a_machine_or_its_data_never_runs(person: bool) -> None:
    def is_blocked(command: str) -> None:
        level = verdict_on(command, person=person).level
        assert level is Level.BLOCKED

    expect_each(zip(commands_in("blocked"), strict=True), is_blocked)


@ASKING
def test_nearly_all_that_only_looks_is_safe(person: bool) -> None:
    verdicts = [(one, verdict_on(one, person=person)) for one in commands_in("diagnostics")]
    others = [f"{one}: {said.explanation}" for one, said in verdicts if said.level != Level.SAFE]
    share = 1 - len(others) / len(verdicts)
    assert share >= SAFE_MIN[person], "\n".join([f"{share:.1%} are SAFE; these are not:", *others])
