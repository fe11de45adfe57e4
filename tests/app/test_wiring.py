"""What can be watched from a home, and under which policy."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from operator_lab.manifest import Manifest, write_manifest
from operator_protocols.domain.action import Action
from operator_protocols.domain.rig import RigSpec
from operator_protocols.domain.target import Process
from operator_protocols.domain.verdict import Level, Mode
from operator_protocols.errors import (
    ConfigError,
    NotFoundError,
    OperatorError,
    StoreError,
    UsageError,
)
from operator_sre.app import service
from operator_sre.app.policy import check_command
from operator_sre.app.wiring import App
from operator_sre.config import load_config
from operator_sre.gate import Profile
from tests.app.home import SUBJECTS, opened

TWO = SUBJECTS + SUBJECTS.replace("shop", "bank")


def test_subjects_are_those_of_the_settings(tmp_path: Path) -> None:
    with opened(tmp_path, TWO) as app:
        assert app.subjects() == ["shop", "bank"]


def test_the_only_subject_needs_no_name(tmp_path: Path) -> None:
    with opened(tmp_path, SUBJECTS) as app:
        assert app.choose([]) == ["shop"]
        assert app.choose(["shop", "shop"]) == ["shop"]


@pytest.mark.parametrize(
    ("toml", "named", "error", "words"),
    [
        ("", [], UsageError, "operator lab up"),
        ("", ["nothing"], NotFoundError, "none"),
        ("", ["ratelimiter"], NotFoundError, "operator lab up"),
        (SUBJECTS, ["shpo"], NotFoundError, "Subjects here: shop"),
        (TWO, [], UsageError, "shop, bank"),
    ],
    ids=["none", "unknown", "no rig", "misspelt", "several"],
)
def test_a_choice_that_makes_no_sense_is_refused_with_the_next_step(
    tmp_path: Path, toml: str, named: list[str], error: type[OperatorError], words: str
) -> None:
    with opened(tmp_path, toml) as app:
        with pytest.raises(error) as caught:
            app.choose(named)
        assert words in caught.value.next_step


def test_a_subject_is_given_the_options_of_its_settings_or_of_its_rig(tmp_path: Path) -> None:
    chosen = f"{SUBJECTS}[subjects.shop.options]\ncolour = 'red'\n"
    with opened(tmp_path, chosen) as app:
        rig = RigSpec("etcd", (), options={"pace": 2.5})
        for name in ("etcd", "shop"):
            directory = app.rig_directory(name)
            directory.mkdir(parents=True)
            write_manifest(directory, Manifest(rig, datetime.now(UTC), Process(1, 1.0)))
        assert app.settings_of("etcd", tuple).options == {"pace": 2.5}
        assert app.settings_of("shop", tuple).options == {"colour": "red"}
        assert app.settings_of("postgres", tuple).options == {}


def test_a_configured_subject_is_under_the_standard_policy(tmp_path: Path) -> None:
    with opened(tmp_path, SUBJECTS, mode="execute") as app:
        controls = app.controls("shop")
        policy = controls.gate.policy()
        assert (policy.profile, policy.mode) == (Profile.STANDARD, Mode.EXECUTE)
        assert policy.boundary_tools == frozenset()
        assert policy.hosts == {"127.0.0.1"}
        assert controls.subject.name == "shop"
        assert [target.name for target in controls.subject.targets()] == ["node-1"]
        assert "check_port" in [tool.spec.name for tool in controls.executor.tools]


def test_the_logs_of_the_targets_are_readable_and_secrets_are_not(tmp_path: Path) -> None:
    with opened(tmp_path, SUBJECTS) as app:
        gate = app.controls("shop").gate
        level = {
            path: gate.judge(Action.shell(f"tail -n 5 {path}")).level
            for path in ("/srv/shop/node-1.log", "/srv/shop/.env")
        }
    assert list(level.values()) == [Level.SAFE, Level.REVIEW]


def test_the_lab_profile_is_refused_where_there_is_no_rig(tmp_path: Path) -> None:
    with (
        opened(tmp_path, SUBJECTS, profile="lab") as app,
        pytest.raises(ConfigError, match="'shop' is not one"),
    ):
        app.controls("shop")


def test_a_subject_whose_plug_in_is_missing_is_told(tmp_path: Path) -> None:
    toml = SUBJECTS.replace('"ratelimiter"', '"missing"')
    with opened(tmp_path, toml) as app, pytest.raises(NotFoundError, match="'missing'"):
        app.controls("shop")


def test_a_rig_that_is_not_there_is_told(tmp_path: Path) -> None:
    with opened(tmp_path) as app, pytest.raises(NotFoundError):
        app.controls("ratelimiter")


def test_controls_is_made_once_for_each_engine(tmp_path: Path) -> None:
    with opened(tmp_path, SUBJECTS) as app:
        engine = app.engine()
        assert engine.pipeline.controls("shop") is engine.pipeline.controls("shop")
        assert engine.interval_s == app.config.number("interval_s")
        assert engine.worker


def test_ids_are_long_and_never_the_same(tmp_path: Path) -> None:
    with opened(tmp_path) as app:
        ids = {app.new_id() for _ in range(100)}
    assert len(ids) == 100
    assert min(map(len, ids)) >= 32


def test_a_home_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError), opened(tmp_path, home=str(tmp_path / "file" / "home")):
        pass


@pytest.mark.asyncio
async def test_watching_something_that_is_not_there_fails_at_once(tmp_path: Path) -> None:
    with opened(tmp_path, SUBJECTS, profile="lab") as app:
        with pytest.raises(ConfigError):
            await service.monitor(app, [])
        with pytest.raises(NotFoundError):
            await service.monitor(app, ["nothing"])


@pytest.mark.parametrize(
    ("command", "level"),
    [("uptime", Level.SAFE), ("rm x", Level.REVIEW), ("rm -rf /", Level.BLOCKED)],
)
def test_a_command_is_judged_without_running_it(tmp_path: Path, command: str, level: Level) -> None:
    config = load_config(flags={}, environ={}, cwd=tmp_path)
    assert check_command(config, command).level is level


def test_an_app_is_one_home(tmp_path: Path) -> None:
    with opened(tmp_path) as app:
        assert isinstance(app, App)
        assert app.rig_directory("ratelimiter") == tmp_path / "home" / "lab" / "ratelimiter"
        assert (tmp_path / "home" / "operator.db").exists()
