"""What is around a target on this machine, and that it stays the same while nothing changes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from operator_protocols.domain.target import Target
from operator_protocols.kit.surroundings import Surroundings, settings_in
from operator_sre.processes.identity import process_of


def _target(folder: Path) -> Target:
    (folder / "base").mkdir()
    (folder / "server.conf").write_text("port = 5432\npassword = hunter2\n")
    (folder / "base" / "PG_VERSION").write_text("17")
    (folder / "base" / "0001").write_text("x" * 5000)
    return Target("store", "store", data_dir=str(folder))


def test_nothing_differs_while_nothing_changes(tmp_path: Path) -> None:
    around, target = Surroundings(), _target(tmp_path)
    assert around.survey(target) == around.survey(target)


def test_settings_are_read_by_name_and_file_and_secrets_are_hidden(tmp_path: Path) -> None:
    settings = Surroundings().survey(_target(tmp_path))["settings"]
    assert settings["port in server.conf"] == "5432"
    assert "hunter2" not in str(settings)


@pytest.mark.parametrize(
    ("name", "damage", "expected"),
    [
        ("base/PG_VERSION", lambda file: file.unlink(), "removed"),
        ("base/PG_VERSION", lambda file: file.write_text(""), "empty"),
        ("base/0001", lambda file: file.write_text("x"), "cut from 4.88 kB to 1 bytes"),
        ("server.conf", lambda file: file.chmod(0o400), "mode 0400"),
    ],
)
def test_a_damaged_file_differs(tmp_path: Path, name: str, damage: object, expected: str) -> None:
    around, target = Surroundings(), _target(tmp_path)
    before = around.survey(target)["files"]
    assert callable(damage)
    damage(tmp_path / name)
    after = around.survey(target)["files"]
    assert {file for file in after if after[file] != before[file]} == {name}
    assert expected in after[name]


def test_a_segment_that_another_one_replaces_is_no_change(tmp_path: Path) -> None:
    around, target = Surroundings(), _target(tmp_path)
    around.survey(target)
    (tmp_path / "base" / "0001").rename(tmp_path / "base" / "0002")
    assert "base/0001" not in around.survey(target)["files"]


@pytest.mark.parametrize(
    ("names", "removed", "seen"),
    [
        (("000000010000000A", "000000010000000B"), "000000010000000A", False),  # recycled
        (("000000010000000A", "000000010000000B"), "000000010000000B", True),  # the newest
        (("000000010000000A",), "000000010000000A", True),  # nothing is left
        (("1247", "1249"), "1247", True),  # no segments, but tables
    ],
)
def test_the_oldest_of_several_segments_may_go(
    tmp_path: Path, names: tuple[str, ...], removed: str, *, seen: bool
) -> None:
    around, target = Surroundings(), _target(tmp_path)
    for name in names:
        (tmp_path / "base" / name).write_text("x")
    around.survey(target)
    (tmp_path / "base" / removed).unlink()
    assert (around.survey(target)["files"].get(f"base/{removed}") == "removed") is seen


def test_a_process_has_limits_and_arguments() -> None:
    own = process_of(os.getpid())
    found = Surroundings().survey(Target("node", "node", process=own))["process"]
    assert "limit of open files" in found
    assert "arguments" in found


def test_what_runs_elsewhere_is_not_read(tmp_path: Path) -> None:
    target = Target("store", "store", data_dir=str(tmp_path), runs_at="ssh://ops@store")
    assert Surroundings().survey(target) == {}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("maxmemory 64mb # much", {"maxmemory in c": "64mb"}),
        ("quota-backend-bytes: 33554432", {"quota-backend-bytes in c": "33554432"}),
        ("save 900 1\nsave 300 10", {"save in c": "900 1", "save (2) in c": "300 10"}),
        ("# port = 1\n[section]\n", {}),
    ],
)
def test_settings_of_the_usual_forms_are_read(text: str, expected: dict[str, str]) -> None:
    assert settings_in(text, "c") == expected


def test_json_is_read_by_the_names_that_lead_to_a_value() -> None:
    text = '{"port": 1, "store": {"hosts": ["a", "b"], "password": "hunter2"}}'
    found = settings_in(text, "node.json")
    assert found["port in node.json"] == "1"
    assert found["store.hosts in node.json"] == '["a", "b"]'
    assert "hunter2" not in str(found)


def test_the_settings_of_a_file_that_breaks_are_not_gone_one_by_one(tmp_path: Path) -> None:
    file, around = tmp_path / "node.json", Surroundings()
    target = Target("node", "node", data_dir=str(tmp_path))
    file.write_text('{"port": 1}')
    around.survey(target)
    file.write_text('{"port": ')
    found = around.survey(target)["settings"]
    assert found["port in node.json"] == "1"
    assert found["content of node.json"].startswith("not valid: Expecting value")
