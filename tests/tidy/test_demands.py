"""The table of demands says how things are: every test that it names is there, or still missing."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

from tests.tidy.demands import DEMANDS, Demand

ROOT = Path(__file__).parents[2]
# Only demands that these sentences name may be without a test. It only becomes shorter.
ABSENT_MAX = 0


@cache
def _tests_in(file: str) -> frozenset[str]:
    path = ROOT / file
    if not path.is_file():
        return frozenset()
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(n.name for n in ast.parse(path.read_text()).body if isinstance(n, kinds))


def _exists(test: str) -> bool:
    file, _, name = test.partition("::")
    return name in _tests_in(file)


@pytest.mark.parametrize("demand", DEMANDS, ids=lambda demand: demand.text)
def test_each_demand_is_proven_or_known_to_be_missing(demand: Demand) -> None:
    assert demand.tests or demand.absent
    assert [test for test in demand.tests if not _exists(test)] == [], "a named test is gone"
    written = [test for test in demand.absent if _exists(test)]
    assert written == [], "now it is proven: move the test from `absent` to `tests`"


def test_the_number_of_missing_demands_only_falls() -> None:
    assert sum(bool(demand.absent) for demand in DEMANDS) == ABSENT_MAX
