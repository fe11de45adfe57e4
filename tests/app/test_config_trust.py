"""Settings from a folder above count only when a person has confirmed what they let run."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest

from operator_protocols.domain.entry import Kind
from operator_protocols.errors import AuthorityError, ConfigError
from operator_sre.app.config_trust import (
    Found,
    find_unconfirmed,
    keep_trust,
    must_be_confirmed,
    record_trust,
)
from operator_sre.app.wiring import open_app
from operator_sre.config import Config, load_config

EXECUTE = 'mode = "execute"\n'
MODEL = (
    '[models.m]\nprovider = "openai-compatible"\nmodel = "m"\nbase_url = "https://eve.example"\n'
)
KEYED = MODEL + 'key_env = "ANTHROPIC_API_KEY"\n'


@pytest.fixture
def below(tmp_path: Path) -> Path:
    """Where a person works, below the folder with the settings."""
    folder = tmp_path / "project" / "deep" / "inside"
    folder.mkdir(parents=True)
    return folder


def _load(below: Path, text: str, *, environ: Mapping[str, str] | None = None) -> Config:
    (below.parents[1] / "operator.toml").write_text(text)
    told = {"OPERATOR_HOME": str(below.parents[2] / "home")} if environ is None else environ
    return load_config(flags={}, environ=told, cwd=below)


def test_only_what_lets_something_run_or_sends_a_key_is_asked_about(below: Path) -> None:
    for text in ("", 'mode = "observe"\n', 'mode = "approve"\n', MODEL, "interval_s = 5\n"):
        assert find_unconfirmed(_load(below, text), below) is None, text
    for text, why in (
        (EXECUTE, "without approval"),
        (KEYED, "sends the key of the model 'm' to eve.example"),
        (MODEL + 'key_file = "key"\n', "sends the key"),
        (EXECUTE + KEYED, "without approval"),
    ):
        found = find_unconfirmed(_load(below, text), below)
        assert found is not None, text
        assert why in found.sentence
        assert find_unconfirmed(_load(below, text), below.parents[1]) is None, "its own folder"
    (below.parents[1] / "policy.yaml").write_text("version: 1\n")
    assert find_unconfirmed(_load(below, ""), below) is not None


def test_it_is_confirmed_once_for_each_path_and_content(below: Path, tmp_path: Path) -> None:
    config = _load(below, EXECUTE)
    with pytest.raises(ConfigError, match="operator config trust ") as told:
        must_be_confirmed(config, below)
    assert str(told.value).count("\n") == 0
    kept = keep_trust(config)
    must_be_confirmed(config, below)
    assert kept == Found(below.parents[1] / "operator.toml", kept.reasons, kept.digest)
    for text in (EXECUTE + "\n", EXECUTE + KEYED):
        assert find_unconfirmed(_load(below, text), below) is not None, "another content"
    assert find_unconfirmed(_load(below, EXECUTE), below) is None
    (below.parents[1] / "policy.yaml").write_text("version: 1\n")
    assert find_unconfirmed(_load(below, EXECUTE), below) is not None, "another policy"
    (tmp_path / "home" / "trusted.json").write_text("[1]")
    assert find_unconfirmed(_load(below, EXECUTE), below) is not None, (
        "nothing is confirmed by that"
    )
    with open_app(config) as app:
        asyncio.run(record_trust(app, kept))
        (entry,) = app.store.entries.newest(limit=1)
        assert (entry.kind, entry.payload["sha256"]) == (Kind.CONFIG_TRUSTED, kept.digest)


def test_a_file_cannot_bring_its_own_confirmation(
    below: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    own = below.parents[1] / "own"
    own.mkdir()
    text = f'home = "{own}"\n{EXECUTE}'
    keep_trust(load_config(flags={"home": str(own)}, environ={}, cwd=_written(below, text)))
    assert (own / "trusted.json").exists()
    assert find_unconfirmed(_load(below, text, environ={}), below) is not None
    keep_trust(_load(below, text, environ={}))
    assert find_unconfirmed(_load(below, text, environ={}), below) is None
    assert (tmp_path / "state" / "operator-sre" / "trusted.json").exists()


def _written(below: Path, text: str) -> Path:
    (below.parents[1] / "operator.toml").write_text(text)
    return below


def test_an_agent_confirms_nothing(below: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = _load(below, EXECUTE)
    monkeypatch.setattr("operator_sre.app.persons.by_an_agent", lambda: True)
    with pytest.raises(AuthorityError):
        keep_trust(config)
