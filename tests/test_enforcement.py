"""What a machine can enforce, it says; and why not, in half a sentence."""

from __future__ import annotations

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
def _asked_anew() -> None:
    why_not_confined.cache_clear()


def test_a_machine_enforces_or_says_why_not() -> None:
    assert bool(why_not_confined()) != bool(enforced_here())
    assert why_not_covered() == "" or "namespaces" in why_not_covered()
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


def test_the_version_of_landlock_is_a_number() -> None:
    assert landlock_abi() >= 0
