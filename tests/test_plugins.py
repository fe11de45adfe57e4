"""Plug-ins come in by entry points; a broken one is told in one sentence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from operator_protocols.errors import MissingPluginError, NotFoundError
from operator_protocols.ports import CapabilityChecker, PermissionChecker, Plugin
from operator_sre.gate import GrantedCapabilities, LocalPermissions
from operator_sre.plugins import (
    CAPABILITIES,
    GROUP,
    PERMISSIONS,
    find_checker,
    find_plugin,
    plugin_names,
)

Install = Callable[..., None]

MODULE = """
from operator_protocols.ports import Plugin
plugin = Plugin("stranger", "A stranger's subject.", subject=None)
not_one = {"name": "stranger"}
def factory(): return plugin
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Install a distribution with these entry points, as pip would have left it."""

    def add(module: str = MODULE, *, module_name: str, group: str = GROUP, **points: str) -> None:
        info = tmp_path / f"{module_name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {module_name}\nVersion: 1.0\n"
        )
        lines = [f"{name} = {value}" for name, value in points.items()]
        (info / "entry_points.txt").write_text("\n".join([f"[{group}]", *lines]))
        (tmp_path / f"{module_name}.py").write_text(module)
        monkeypatch.syspath_prepend(tmp_path)

    return add


def test_our_own_subject_comes_in_by_the_same_door() -> None:
    assert "ratelimiter" in plugin_names()
    plugin = find_plugin("ratelimiter")
    assert isinstance(plugin, Plugin)
    assert plugin.name == "ratelimiter"


def test_a_stranger_is_found_without_editing_anything(install: Install) -> None:
    install(module_name="stranger_one", stranger="stranger_one:plugin")
    ours = ["aws", "declarative", "etcd", "kafka", "kubernetes", "postgres", "ratelimiter", "tikv"]
    assert plugin_names() == sorted([*ours, "stranger"])
    assert find_plugin("stranger").sentence == "A stranger's subject."


def test_names_are_listed_without_loading_anything(install: Install) -> None:
    install("raise SystemExit('loaded')", module_name="stranger_two", stranger="stranger_two:x")
    assert "stranger" in plugin_names()


def test_an_unknown_subject_is_refused_with_those_that_are_known(install: Install) -> None:
    install(module_name="stranger_three", stranger="stranger_three:plugin")
    with pytest.raises(NotFoundError) as caught:
        find_plugin("ratelimitter")
    assert "'ratelimitter'" in caught.value.message
    assert "ratelimiter, stranger" in caught.value.next_step


BROKEN = [
    ("missing_module", "no_such_module:plugin", MODULE),
    ("missing_object", "broken_{}:nothing", MODULE),
    ("not_a_plugin", "broken_{}:not_one", MODULE),
    ("a_factory", "broken_{}:factory", MODULE),
    ("the_module_itself", "broken_{}", MODULE),
    ("missing_dependency", "broken_{}:plugin", "import a_module_that_is_not_there"),
    ("syntax", "broken_{}:plugin", "def ("),
]


@pytest.mark.parametrize(("name", "value", "module"), BROKEN, ids=[one[0] for one in BROKEN])
def test_a_broken_plug_in_is_told_in_one_sentence(
    install: Install, name: str, value: str, module: str
) -> None:
    install(module, module_name=f"broken_{name}", broken=value.format(name))
    with pytest.raises(MissingPluginError) as caught:
        find_plugin("broken")
    assert "'broken'" in caught.value.message
    assert "Reinstall" in caught.value.next_step
    assert find_plugin("ratelimiter").name == "ratelimiter"


CHECKERS = """
class Checker:
    def may_request(self, requester, verdict): return "Never."
    def may_approve(self, person, approval): return "Never."
    def may_administer(self, person, deed): return "Never."
    def may_act(self, agent, verdict): return "Never."
checker = Checker()
half = object()
"""
OURS = LocalPermissions()


def _permissions() -> PermissionChecker:
    return find_checker(PERMISSIONS, PermissionChecker, OURS)  # type: ignore[type-abstract]


def test_without_a_plug_in_ours_decides() -> None:
    assert _permissions() is OURS


def test_a_stranger_may_decide_who_may_what(install: Install) -> None:
    install(CHECKERS, module_name="strict_one", group=PERMISSIONS, mine="strict_one:checker")
    assert _permissions().may_administer("ada", "reset") == "Never."
    mine = GrantedCapabilities()
    checker = find_checker(CAPABILITIES, CapabilityChecker, mine)  # type: ignore[type-abstract]
    assert checker is mine


@pytest.mark.parametrize("value", ["half", "Checker", "nothing"])
def test_a_broken_checker_lets_nobody_through(install: Install, value: str) -> None:
    name = f"strict_{value.lower()}"
    install(CHECKERS, module_name=name, group=PERMISSIONS, mine=f"{name}:{value}")
    with pytest.raises(MissingPluginError, match=r"'mine' in 'operator\.permissions'"):
        _permissions()


def test_two_checkers_are_one_too_many(install: Install) -> None:
    for name in ("strict_two", "strict_three"):
        install(CHECKERS, module_name=name, group=PERMISSIONS, mine=f"{name}:checker")
    with pytest.raises(MissingPluginError, match=r"several: strict_three.*strict_two"):
        _permissions()
