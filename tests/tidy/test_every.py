"""Many cases in one test: none of them hides another."""

import asyncio
import inspect
from pathlib import Path

import pytest

from tests.every import every, expect_each


def test_every_case_that_fails_is_named_with_its_reason() -> None:
    def check(number: int, word: str) -> None:
        if word == "c":
            raise KeyError(word)
        if word == "d":
            pytest.fail("not even an error")
        assert number == 2, f"{number} is not two"

    cases = [(1, "a"), (2, "b"), (2, "c"), (2, "d"), (3, "e")]
    with pytest.raises(pytest.fail.Exception) as failed:
        expect_each(cases, check)
    said = str(failed.value)
    assert said.startswith("4 of 5 cases do not hold:\n1, 'a'\n  1 is not two\n")
    assert "2, 'c'\n  KeyError('c')\n" in said
    assert "2, 'd'\n  not even an error\n" in said
    assert "3, 'e'\n  3 is not two\n" in said
    assert "'b'" not in said


def test_no_case_at_all_is_a_failure() -> None:
    with pytest.raises(pytest.fail.Exception, match="there is no case"):
        expect_each([], print)


_seen: list[tuple[int, Path]] = []


@every("number", [1, 2, 3])
def test_each_case_is_called_with_its_fixtures(number: int, tmp_path: Path) -> None:
    _seen.append((number, tmp_path))
    assert tmp_path.is_dir()
    assert [one for one, _ in _seen] == [1, 2, 3][: len(_seen)]


@every(("left", "right"), [(1, 2), (3, 4)])
def test_each_case_may_have_several_values(left: int, right: int) -> None:
    assert right - left == 1


@pytest.mark.asyncio
async def test_each_case_is_awaited() -> None:
    awaited = []

    @every("number", [1, 2, 3])
    async def is_two(number: int) -> None:
        await asyncio.sleep(0)
        awaited.append(number)
        assert number == 2

    running = is_two()
    assert inspect.isawaitable(running)
    with pytest.raises(pytest.fail.Exception, match="2 of 3 cases"):
        await running
    assert awaited == [1, 2, 3]


def test_a_decorated_test_fails_when_one_case_does() -> None:
    @every("number", [1, 2])
    def below_two(number: int) -> None:
        assert number < 2

    with pytest.raises(pytest.fail.Exception, match="1 of 2 cases"):
        below_two()
    with pytest.raises(TypeError, match="one for each name"):
        every(("a", "b"), [1])
