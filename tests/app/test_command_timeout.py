"""Commands have a timeout that a setting decides, and each command can have its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from operator_protocols.errors import ConfigError
from operator_sre.api import Client
from operator_sre.config import load_config


def test_the_default_timeout_is_a_setting(tmp_path: Path) -> None:
    flags = {"home": str(tmp_path)}
    assert load_config(flags=flags, environ={}, cwd=tmp_path).number("command_s") == 300
    environ = {"OPERATOR_COMMAND_S": "1.5"}
    assert load_config(flags=flags, environ=environ, cwd=tmp_path).number("command_s") == 1.5
    with pytest.raises(ConfigError):
        load_config(flags=flags, environ={"OPERATOR_COMMAND_S": "601"}, cwd=tmp_path)


def test_a_command_runs_under_the_setting_unless_it_has_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPERATOR_COMMAND_S", "0.5")
    with Client(home=tmp_path / "home") as client:
        late = client.executor.run("sleep 30", cwd="/")
        assert late.result is not None
        assert not late.result.ok
        own = client.executor.run("sleep 0.6", cwd="/", timeout_s=60.0)
        assert own.result is not None
        assert own.result.ok
