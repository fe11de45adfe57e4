"""How long a verdict takes, compared with other work of the same moment."""

from __future__ import annotations

import re
from functools import partial

import pytest

from operator_protocols.domain.action import Action
from operator_sre.gate import Policy, judge, warm
from operator_sre.gate.grammar.tables import tables
from tests.cases.corpora import commands_in
from tests.measuring import times_as_long

PATTERNS = 137
# Measured: 5.7 times a list of expressions, and 7.8 times before needless stages were removed.
RATIO_MAX = 7.5
# Measured: 1.0 to 1.2 times. Searching the whole text takes 2 to 5 times as long.
LENGTH_RATIO_MAX = 1.6


def test_a_verdict_takes_few_times_as_long_as_a_list_of_expressions() -> None:
    names = tables().names()[:PATTERNS]
    patterns = [
        re.compile(rf"^{re.escape(name)}\s.*(?!.*\.(?:ssh|aws)|.*password)") for name in names
    ]
    lines = [*commands_in("diagnostics"), *commands_in("dangerous")]
    policy = Policy()
    warm(policy)

    def judge_all() -> None:
        for line in lines:
            judge(Action.shell(line), policy)

    def search_all() -> None:
        for line in lines:
            any(pattern.search(line) for pattern in patterns)

    judge_all()
    assert times_as_long(judge_all, search_all, enough=RATIO_MAX) <= RATIO_MAX


@pytest.mark.parametrize("piece", ["`", "$(", "'", "a && "])
def test_a_text_too_long_to_be_judged_takes_as_long_as_its_beginning(piece: str) -> None:
    policy = Policy()
    long, short = (Action.shell((piece * size)[:size]) for size in (64 * 1024, 8 * 1024))
    judge(long, policy)
    judge_long, judge_short = partial(judge, long, policy), partial(judge, short, policy)
    assert times_as_long(judge_long, judge_short, enough=LENGTH_RATIO_MAX) <= LENGTH_RATIO_MAX
