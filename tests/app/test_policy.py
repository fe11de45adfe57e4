"""The policy in force, and what follows from it for everything else."""

from __future__ import annotations

from pathlib import Path

import pytest

from operator_protocols.domain.entry import Kind
from operator_protocols.domain.run import Budget
from operator_protocols.domain.verdict import Level, Mode
from operator_protocols.errors import ConfigError, UsageError
from operator_sre.app.policy import (
    Checked,
    Explained,
    budget_of,
    check_policy,
    compare_policies,
    explain_policy,
    grants_of,
    policy_in_force,
    record_overrides,
    roles_of,
    rule_fields,
    shown_policy,
    write_policy,
)
from operator_sre.config import Config, load_config
from operator_sre.gate.authority import Grant
from operator_sre.gate.policy import built_in
from tests.app.home import SUBJECTS, opened
from tests.gate.policy.writing import RULE, book, text_of

OVERRIDE = {"rule": "dd", "reason": "Disks are tested here.", "by": "alice"}


def _config(folder: Path, toml: str = "", **flags: str) -> Config:
    (folder / "operator.toml").write_text(toml)
    given = {"home": str(folder / "home"), **flags}
    return load_config(flags=given, environ={}, cwd=folder)


def test_the_file_that_is_named_counts_then_the_one_beside_then_the_one_in_home(
    tmp_path: Path,
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    assert policy_in_force(_config(tmp_path)).book is built_in()
    (home / "policy.yaml").write_text(text_of(modes={"home": "observe"}))
    assert "home" in policy_in_force(_config(tmp_path)).book.modes
    (tmp_path / "policy.yaml").write_text(text_of(modes={"beside": "observe"}))
    assert "beside" in policy_in_force(_config(tmp_path)).book.modes
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "mine.yaml").write_text(text_of(modes={"named": "observe"}))
    config = _config(tmp_path, 'policy = "conf/mine.yaml"')
    assert "named" in policy_in_force(config).book.modes


def test_a_file_that_is_named_has_to_be_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"missing\.yaml:1:1: There is no such policy"):
        policy_in_force(_config(tmp_path, 'policy = "missing.yaml"'))


def test_roles_grants_and_budgets_are_what_the_rest_knows() -> None:
    found = book(
        roles={"alice": "admin"},
        grants={"a": ["safe"], "b": ["check_port"], "c": ["review", "x"]},
        budgets={"turns_max": 5, "seconds_max": 1.5},
    )
    assert roles_of(found) == {"alice": "admin"}
    grants = grants_of(found)
    assert grants["a"].levels == {Level.SAFE}
    assert grants["b"] == Grant(tools=frozenset({"check_port"}))
    assert grants["c"] == Grant(frozenset({Level.REVIEW}), frozenset({"x"}))
    assert budget_of(found) == Budget(turns_max=5, seconds_max=1.5)
    assert budget_of(built_in()) == Budget()


def test_modes_and_limits_of_the_policy_hold_for_a_subject(tmp_path: Path) -> None:
    text = text_of(modes={"shop": "execute"}, limits={"changes_per_hour": 3, "breaker_failures": 9})
    (tmp_path / "policy.yaml").write_text(text)
    with opened(tmp_path, SUBJECTS) as app:
        assert app.mode_of("shop") is Mode.EXECUTE
        assert app.mode_of("other") is Mode.OBSERVE
        limits = app.limits_of(6, rig=False)
        assert (limits.changes_per_hour, limits.failures_max, limits.targets_max) == (3, 9, 2)
        gate = app.controls("shop").gate
        assert gate.policy().book.modes == {"shop": "execute"}
        assert gate.policy() is gate.policy(), "the same one as long as nothing changes"
    with opened(tmp_path, SUBJECTS, mode="approve") as app:
        assert app.mode_of("shop") is Mode.APPROVE, "a flag is said last"


@pytest.mark.asyncio
async def test_overrides_are_recorded_once_for_each_policy(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(text_of(overrides=[OVERRIDE]))
    for _ in range(2):
        with opened(tmp_path) as app:
            for _ in range(2):
                digest = await record_overrides(app)
            entries = [
                one
                for one in app.store.entries.newest(limit=100)
                if one.kind is Kind.POLICY_OVERRIDDEN
            ]
    assert [dict(entry.payload) for entry in entries] == [
        {"digest": digest, "overrides": [OVERRIDE]}
    ]


@pytest.mark.asyncio
async def test_a_policy_without_overrides_is_not_recorded(tmp_path: Path) -> None:
    with opened(tmp_path) as app:
        await record_overrides(app)
        assert not app.store.entries.newest(limit=100)


def test_what_is_checked_is_counted(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(text_of(safe=[{**RULE, "not_match": ["jobctl drain"]}], overrides=[OVERRIDE]))
    config = _config(tmp_path)
    checked = check_policy(config, file=file)
    assert isinstance(checked, Checked)
    assert check_policy(config, file=None) == checked
    assert checked.rules == {Level.SAFE: 1, Level.REVIEW: 0, Level.BLOCKED: 0}
    assert (checked.examples, checked.overrides) == (2, 1)
    assert shown_policy(config)[:2] == (str(file), checked.digest)
    file.unlink()
    assert check_policy(config, file=None).file == "built-in"


def test_a_rule_or_a_command_is_explained(tmp_path: Path) -> None:
    config = _config(tmp_path)
    rule = explain_policy(config, "delete_system").rule
    assert rule is not None
    assert rule.id == "delete_system"
    assert rule_fields(rule)["level"] == "blocked"
    found: Explained = explain_policy(config, "sudo rm -rf /")
    assert found.verdict is not None
    assert found.verdict.level is Level.BLOCKED
    spoken = {command: [rule.id for rule in rules] for command, rules in found.parts}
    assert spoken["rm -rf /"][0] == "delete_system"


def test_two_policies_are_compared_by_what_follows_from_them(tmp_path: Path) -> None:
    old, new = tmp_path / "old.yaml", tmp_path / "new.yaml"
    old.write_text(text_of())
    new.write_text(text_of(safe=[RULE], overrides=[OVERRIDE]))
    compared = compare_policies(old, new)
    assert {change.subject for change in compared.changes} == {
        "rule depth",
        "rule dd",
        "override dd",
    }
    judged = {one.command: (one.old, one.new) for one in compared.commands}
    assert judged["jobctl depth"] == (Level.REVIEW, Level.SAFE)
    assert judged["dd if=/dev/urandom of=x"] == (Level.BLOCKED, Level.REVIEW)
    assert "dd if=/dev/zero of=/dev/sda" not in judged
    assert compared.judged > 500


def test_a_policy_to_start_from_is_written_once(tmp_path: Path) -> None:
    config = _config(tmp_path)
    written = Path(write_policy(config, file=None))
    assert written == tmp_path / "policy.yaml"
    assert check_policy(config, file=None).digest == built_in().digest
    written.write_text("mine")
    with pytest.raises(UsageError, match="is not overwritten"):
        write_policy(config, file=None)
    assert written.read_text() == "mine"
    with pytest.raises(ConfigError, match="cannot be written"):
        write_policy(config, file=written / "below" / "policy.yaml")
