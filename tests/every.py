"""Many cheap cases in one test: each of them is checked, and every one that fails is named.

A test of its own costs more than such a check, in every process that collects it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from textwrap import indent

import pytest

__all__ = ["every", "expect_each"]


class _Cases:
    """Which cases were checked, and what was wrong with some of them."""

    def __init__(self) -> None:
        self._count = 0
        self._wrong: list[str] = []

    @contextmanager
    def check(self, case: Sequence[object]) -> Iterator[None]:
        self._count += 1
        try:
            yield
        except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - the others count too
            reason = str(error) if isinstance(error, AssertionError) else repr(error)
            self._wrong.append(f"{', '.join(map(repr, case))}\n{indent(reason, '  ')}")

    def end(self) -> None:
        """Fail with all that do not hold; also when there was nothing to check."""
        if not self._count:
            pytest.fail("there is no case", pytrace=False)
        if self._wrong:
            lines = [f"{len(self._wrong)} of {self._count} cases do not hold:", *self._wrong]
            pytest.fail("\n".join(lines), pytrace=False)


def expect_each(cases: Iterable[Sequence[object]], check: Callable[..., object]) -> None:
    """Call the check with each case, and fail with all that do not hold, each with its reason."""
    checked = _Cases()
    for case in cases:
        with checked.check(case):
            check(*case)
    checked.end()


def every(
    names: str | tuple[str, ...], cases: Iterable[object]
) -> Callable[[Callable[..., object]], Callable[..., object]]:
    """`pytest.mark.parametrize`, as one test; a fixture that it takes is the same for all cases."""
    wanted = (names,) if isinstance(names, str) else names
    known = [(case,) if isinstance(names, str) else _several(case) for case in cases]

    def of(test: Callable[..., object]) -> Callable[..., object]:
        @wraps(test)
        def run(**fixtures: object) -> None:
            expect_each(known, lambda *case: test(**_named(wanted, case), **fixtures))

        @wraps(test)
        async def run_async(**fixtures: object) -> None:
            checked = _Cases()
            for case in known:
                with checked.check(case):
                    running = test(**_named(wanted, case), **fixtures)
                    assert inspect.isawaitable(running)
                    await running
            checked.end()

        asked = inspect.signature(test)
        kept = [one for name, one in asked.parameters.items() if name not in wanted]
        made: Callable[..., object] = run_async if inspect.iscoroutinefunction(test) else run
        made.__dict__["__signature__"] = asked.replace(parameters=kept)
        return made

    return of


def _named(names: tuple[str, ...], case: Sequence[object]) -> dict[str, object]:
    return dict(zip(names, case, strict=True))


def _several(case: object) -> tuple[object, ...]:
    if not isinstance(case, tuple):
        raise TypeError(f"{case!r} is not a tuple of values, one for each name")
    return case
