"""What a machine can enforce, it says; and why not, in half a sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from operator_sre import enforcement
from operator_sre.enforcement import (
    ABI_MIN,
    MACHINES,
    SCOPES_ABI,
    enforced_here,
    landlock_abi,
    why_not_confined,
    why_not_covered,
)


@pytest.fixture(autouse=True)
def _asked_anew() -> Iterator[None]:
    cached = (landlock_abi, why_not_confined, why_not_covered)
    for answer in cached:
        answer.cache_clear()
    yield
    for answer in cached:
        answer.cache_clear()


def test_a_machine_enforces_or_says_why_not() -> None:
    assert bool(why_not_confined()) != bool(enforced_here())
    assert len(MACHINES) == 2
    assert ABI_MIN < SCOPES_ABI


def test_an_old_kernel_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(enforcement, "landlock_abi", lambda: ABI_MIN - 1)
    assert why_not_confined().startswith("the kernel has no Landlock")
    assert enforced_here() == []
    why_not_confined.cache_clear()


def test_another_platform_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("operator_sre.enforcement.sys.platform", "darwin")
    assert why_not_confined() == "only Linux confines commands"
    why_not_confined.cache_clear()


class _Library:
    """A C library whose calls of the kernel all have one answer."""

    def __init__(self, answer: int) -> None:
        self._answer = answer

    @property
    def syscall(self) -> Callable[..., int]:
        """A call of the kernel; a new function each time, because its type is set on it."""
        return lambda *words: self._answer

    def unshare(self, flags: int) -> int:
        """A new namespace."""
        return self._answer

    def mount(self, *words: object) -> int:
        """A mount in it."""
        return self._answer


@pytest.mark.parametrize(("answer", "version"), [(-1, 0), (0, 0), (1, 1), (7, 7)])
def test_a_kernel_without_landlock_has_version_0(
    monkeypatch: pytest.MonkeyPatch, answer: int, version: int
) -> None:
    monkeypatch.setattr("operator_sre.enforcement.ctypes.CDLL", lambda name: _Library(answer))
    assert landlock_abi() == version


@pytest.mark.parametrize(("answer", "why"), [(0, ""), (-1, "namespaces")])
def test_a_user_without_mount_namespaces_hides_no_file(
    monkeypatch: pytest.MonkeyPatch, answer: int, why: str
) -> None:
    monkeypatch.setattr("operator_sre.enforcement.ctypes.CDLL", lambda name: _Library(answer))
    assert bool(why_not_covered()) == bool(why)
    assert why in why_not_covered()
