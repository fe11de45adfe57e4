"""Settings as people meet them: values, where each came from, and a key that is never shown."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from operator_sre.config import SETTINGS
from tests.e2e.home import Json
from tests.e2e.warm import Done, Warm
from tests.faces.cli.conftest import SECRET
from tests.faces.cli.sentences import Bad, one_sentence


def _run(warm: Warm, *words: str, cwd: Path, environ: Mapping[str, str] | None = None) -> Done:
    return warm.run(*words, cwd=cwd, environ={**os.environ, **(environ or {})})


def _settings(done: Done) -> dict[str, Json]:
    assert done.code == 0, done
    return {setting["name"]: setting for setting in done.json["settings"]}


def test_every_setting_is_shown_with_its_source(warm: Warm, tmp_path: Path) -> None:
    below = tmp_path / "deep" / "below"
    below.mkdir(parents=True)
    (tmp_path / "operator.toml").write_text(
        'interval_s = 7\ntimeout_s = 2.5\nmode = "approve"\nlog_level = "debug"\n'
    )
    environ = {"OPERATOR_TIMEOUT_S": "3", "OPERATOR_MODE": "execute", "OPERATOR_OTHER_TOOL": "x"}
    line = ("config", "show", "--json", "--mode", "observe")
    found = _settings(_run(warm, *line, cwd=below, environ=environ))
    assert list(found) == [setting.name for setting in SETTINGS]
    file = f"file {tmp_path / 'operator.toml'}"
    expected = {
        "deadline_s": (120.0, "default"),
        "interval_s": (7.0, file),
        "log_level": ("debug", file),
        "mode": ("observe", "flag"),
        "timeout_s": (3.0, "environment"),
    }
    assert {name: (found[name]["value"], found[name]["source"]) for name in expected} == expected
    text = _run(warm, "config", "show", cwd=below, environ=environ).out
    assert text.startswith("SETTING")
    assert all(setting.name in text and setting.meaning in text for setting in SETTINGS)
    shown = {words[0]: words[1] for words in map(str.split, text.splitlines()[1:])}
    # As they were written: 7 and not 7.0, 0 and not False.
    written = {"interval_s": "7", "timeout_s": "3", "two_person": "0", "tokens_per_day": "2000000"}
    assert {name: shown[name] for name in written} == written


def test_the_home_is_the_users_state_directory_unless_it_is_named(
    warm: Warm, tmp_path: Path
) -> None:
    environ = {"XDG_STATE_HOME": str(tmp_path / "state")}
    home = _settings(_run(warm, "config", "show", "--json", cwd=tmp_path, environ=environ))["home"]
    assert home["value"] == str(tmp_path / "state" / "operator-sre")
    assert list(tmp_path.iterdir()) == [], "looking makes nothing"
    line = ("config", "show", "--json", "--home", "here")
    home = _settings(_run(warm, *line, cwd=tmp_path))["home"]
    assert (home["value"], home["source"]) == (str(tmp_path / "here"), "flag")


@pytest.mark.parametrize(
    ("safety", "approval", "mode"),
    [
        ("observe", "false", "observe"),
        ("observe", "true", "observe"),
        ("execute", "true", "approve"),
        ("execute", "false", "execute"),
        ("execute", "", "execute"),
        ("", "true", "observe"),
        ("", "", "observe"),
    ],
)
def test_the_variables_of_the_seeds_are_honoured(
    warm: Warm, tmp_path: Path, safety: str, approval: str, mode: str
) -> None:
    environ = {"OPERATOR_SAFETY_MODE": safety, "OPERATOR_APPROVAL_MODE": approval}
    environ = {name: value for name, value in environ.items() if value}
    done = _run(warm, "config", "show", "--json", cwd=tmp_path, environ=environ)
    assert _settings(done)["mode"]["value"] == mode


def test_a_wish_to_be_asked_first_is_never_overruled_but_by_hand(
    warm: Warm, tmp_path: Path
) -> None:
    asks = {"OPERATOR_APPROVAL_MODE": "true"}
    line = ("config", "show", "--json")
    both = _run(warm, *line, cwd=tmp_path, environ={"OPERATOR_MODE": "execute", **asks})
    (tmp_path / "operator.toml").write_text('mode = "execute"\n')
    file = _run(warm, *line, cwd=tmp_path, environ=asks)
    flag = _run(warm, *line, "--mode", "execute", cwd=tmp_path, environ=asks)
    modes = [_settings(done)["mode"] for done in (both, file, flag)]
    assert [(mode["value"], mode["source"]) for mode in modes] == [
        ("approve", "environment"),
        ("approve", "environment"),
        ("execute", "flag"),
    ]


@pytest.mark.parametrize(
    ("environ", "says"),
    [
        ({"OPERATOR_INTERVAL": "3"}, r"'OPERATOR_INTERVAL' .*mean 'OPERATOR_INTERVAL_S'\?"),
        ({"OPERATOR_APPROVAL_MOD": "true"}, r"mean 'OPERATOR_APPROVAL_MODE'\?"),
        ({"OPERATOR_SAFETY_MODE": "yolo"}, r"OPERATOR_SAFETY_MODE is 'yolo'.*observe or execute"),
        ({"OPERATOR_APPROVAL_MODE": "maybe"}, r"OPERATOR_APPROVAL_MODE is 'maybe'.*true or false"),
        ({"OPERATOR_MODE": "observe", "OPERATOR_SAFETY_MODE": "execute"}, r"contradicts.*Unset"),
        ({"OPERATOR_STABLE_S": "inf"}, r"'stable_s' is 'inf' \(environment\)"),
        ({"OPERATOR_STABLE_S": "nan"}, r"'stable_s' is 'nan' \(environment\)"),
    ],
    ids=str,
)
def test_a_wrong_variable_is_an_error_that_names_it(
    warm: Warm, tmp_path: Path, environ: dict[str, str], says: str
) -> None:
    one_sentence(_run(warm, "config", "show", cwd=tmp_path, environ=environ), Bad("", 2, says))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("intervall_s = 3", r"'intervall_s' in .*operator\.toml.* mean 'interval_s'\?"),
        ("mode = true", r"'mode' in .*must be a number or a string"),
        ("mode = \n", r"operator\.toml' cannot be read: .*line 1"),
        ("subjects = 3", r"'subjects' in .*must be a table"),
        ("[subjects.a]\nplugn = 'x'", r"'plugn' .*mean 'plugin'\?"),
        ("[subjects.a]\ntargets = [{nme = 'x'}]", r"'nme' .*mean 'name'\?"),
        ("[subjects.a]\ntargets = [{name = 'x', kind = 'y', port = 70000}]", r"not a port number"),
        ("[subjects.a]\ntargets = [{name = 'x', kind = 'y', depends_on = 3}]", r"depends_on"),
    ],
)
def test_a_wrong_file_is_an_error_that_names_the_place(
    warm: Warm, tmp_path: Path, text: str, says: str
) -> None:
    (tmp_path / "operator.toml").write_text(text)
    one_sentence(_run(warm, "config", "show", cwd=tmp_path), Bad("", 2, says))


@pytest.mark.parametrize("line", ["config show", "config show --json", "up", "config nosuch"])
def test_the_key_is_honoured_and_never_shown(warm: Warm, tmp_path: Path, line: str) -> None:
    (tmp_path / "operator.toml").write_text(f'anthropic_api_key = "file-{SECRET}"\n')
    for environ in ({}, {"ANTHROPIC_API_KEY": SECRET}, {"OPERATOR_ANTHROPIC_API_KEY": SECRET}):
        state = {"XDG_STATE_HOME": str(tmp_path / "state")}
        done = _run(warm, *line.split(), cwd=tmp_path, environ={**state, **environ})
        assert SECRET not in done.out + done.err
        if line == "config show --json":
            key = _settings(done)["anthropic_api_key"]
            assert key["value"] == "(set, hidden)"
            assert (key["source"] == "environment") is bool(environ)


def test_an_unusable_key_is_not_shown_by_its_error(warm: Warm, tmp_path: Path) -> None:
    (tmp_path / "operator.toml").write_text(f'anthropic_api_key = ["{SECRET}"]\n')
    done = _run(warm, "config", "show", cwd=tmp_path)
    assert done.code == 2
    assert SECRET not in done.err
