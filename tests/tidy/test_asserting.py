"""Every test can fail: it asserts something, and that may be otherwise."""

from textwrap import dedent

import pytest

from tests.every import every
from tests.tidy.asserting import idle_tests
from tests.tidy.findings import expect_none
from tests.tidy.sources import Source, sources


def test_every_test_can_fail() -> None:
    expect_none(idle_tests(source for source in sources() if source.path.startswith("tests/")))


def _found(text: str, *others: Source) -> list[str]:
    return idle_tests([Source.of(dedent(text), "tests/test_sample.py"), *others])


@every(
    "text",
    [
        "def test_a(): f()",
        "async def test_a(): await f()",
        "def test_a(shown): shown()\ndef shown(): assert x",  # a fixture of that name
        "class Many:\n    def f(self): ...\nclass Other:\n    def f(self): assert x\n"
        "def test_a(): one.f()",
        "class Many:\n    def f(self): ...\nclass Other:\n    def f(self): assert x\n"
        "def test_a(one: Many): one.f()",
        "from tests.every import expect_each\ndef test_a(): expect_each(cases, print)",
        "def test_a(): f()\ndef test_b(): assert test_a",
    ],
)
def test_a_test_that_asserts_nothing_is_found(text: str) -> None:
    every_py = Source.of("def expect_each(): pytest.fail()", "tests/every.py")
    (found,) = _found(text, every_py)
    assert "test_a asserts nothing" in found


@every(
    "text",
    [
        "def test_a(): assert f()",
        "def test_a():\n    with pytest.raises(E): f()",
        "def test_a(): mock.assert_called_once_with(1)",
        "def test_a(): f()\ndef f(): g()\ndef g(): raise AssertionError(1)",
        "def test_a(): expect_each(cases, check)\ndef check(case): assert case",
        "from tests.helping import shown\ndef test_a(): shown()",
        "class Many:\n    def f(self): ...\nclass Other:\n    def f(self): assert x\n"
        "def test_a(one: Other): one.f()",
        "class Only:\n    def f(self): self.g()\n    def g(self): assert x\n"
        "def test_a(): Only().f()",
    ],
)
def test_one_that_asserts_by_a_helper_is_fine(text: str) -> None:
    assert _found(text, Source.of("def shown(): assert x", "tests/helping.py")) == []


@every(
    "test",
    [
        "True",
        "1",
        "'text'",
        "(a, 'why')",
        "[a]",
        "a == a",
        "a is a",
        "a <= a",
        "a or True",
        "f'{a}'",
    ],
)
def test_an_assert_that_always_holds_is_found(test: str) -> None:
    found = _found(f"def test_a(a):\n    assert {test}")
    assert len(found) == 1
    assert "tests/test_sample.py:2 always holds" in found[0]


@every("test", ["a", "False", "()", "a == b", "f() is f()", "a.b is a.b", "a != a", "a or b"])
def test_an_assert_that_may_fail_is_fine(test: str) -> None:
    assert _found(f"def test_a(a, b):\n    assert {test}") == []


_LOOP = """
def test_a(a, b):
    {before}
    for one in {over}:
        assert one
"""


@pytest.mark.parametrize(
    ("before", "over"),
    [
        ("...", "a"),
        ("...", "f(a)"),
        ("...", "()"),
        ("...", "a.items()"),
        ("...", "sorted(a)"),
        ("...", "[x for x in (1, 2) if x]"),
        ("c = []", "c"),
        ("...", "TABLE + a if b else a"),
    ],
)
def test_a_loop_that_may_run_for_nothing_is_found(before: str, over: str) -> None:
    (found,) = _found(_LOOP.format(before=before, over=over))
    assert "test_a: " in found
    assert found.endswith("may be empty, and then nothing is asserted")


@every(
    ("before", "over"),
    [
        ("assert a", "a"),
        ("...", "(1, 2)"),
        ("...", "TABLE"),
        ("...", "TABLE.items()"),
        ("...", "range(3)"),
        ("...", "zip(TABLE, 'ab')"),
        ("...", "[x for x in TABLE]"),
        ("...", "a + TABLE"),
        ("c = [1]", "c"),
        ("c = await asyncio.gather(*(f(x) for x in (1, 2)))", "c"),
    ],
)
def test_a_loop_that_surely_runs_is_fine(before: str, over: str) -> None:
    assert _found(_LOOP.format(before=before, over=over)) == []


def test_a_loop_in_another_is_looked_into() -> None:
    inner = "def test_a(a):\n    with a:\n        for b in TABLE:\n            for c in b:\n{}"
    assert len(_found(inner.format("                assert c"))) == 1
    assert _found(inner.format("                assert c\n            assert b")) == []
