"""Settings: who wins, and what is refused with which sentence."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path

import pytest

from operator_protocols.domain.verdict import Mode
from operator_protocols.errors import ConfigError
from operator_sre.config import SETTINGS, Config, Setting, SubjectConfig, load_config

FILE = "operator.toml"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of a user; no settings lie above it."""
    return tmp_path


def _load(
    folder: Path,
    toml: str | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    flags: Mapping[str, str | None] | None = None,
) -> Config:
    if toml is not None:
        (folder / FILE).write_text(toml)
    return load_config(flags=flags or {}, environ=environ or {}, cwd=folder)


def _refusal(
    folder: Path, toml: str | None = None, *, environ: Mapping[str, str] | None = None
) -> str:
    with pytest.raises(ConfigError) as caught:
        _load(folder, toml, environ=environ)
    return str(caught.value)


def test_without_any_settings_the_defaults_hold(folder: Path) -> None:
    config = _load(folder)
    assert config.file is None
    assert set(config.sources.values()) == {"default"}
    assert config.mode is Mode.OBSERVE
    assert config.values["profile"] == "standard"
    assert config.number("interval_s") == 30.0
    assert config.subjects == ()
    assert config.home.is_absolute()
    assert config.home.name == "operator-sre"


@pytest.mark.parametrize(
    ("in_file", "in_environment", "as_flag"), list(itertools.product([False, True], repeat=3))
)
def test_a_flag_beats_a_variable_beats_the_file_beats_the_default(
    folder: Path, in_file: bool, in_environment: bool, as_flag: bool
) -> None:
    config = _load(
        folder,
        "interval_s = 1" if in_file else "",
        environ={"OPERATOR_INTERVAL_S": "2"} if in_environment else {},
        flags={"interval_s": "3" if as_flag else None},
    )
    layers = [
        (as_flag, 3.0, "flag"),
        (in_environment, 2.0, "environment"),
        (in_file, 1.0, f"file {folder / FILE}"),
        (True, 30.0, "default"),
    ]
    expected = next((value, source) for given, value, source in layers if given)
    assert (config.number("interval_s"), config.sources["interval_s"]) == expected


GOOD: dict[str, tuple[str, object]] = {
    "home": ("/srv/operator", "/srv/operator"),
    "store": ("postgresql://db/operator", "postgresql://db/operator"),
    "ledger_key": ("/srv/ledger.key", "/srv/ledger.key"),
    "secrets_in": ("file", "file"),
    "secrets_key": ("/keys/secrets", "/keys/secrets"),
    "mode": ("execute", "execute"),
    "policy": ("/srv/policy.yaml", "/srv/policy.yaml"),
    "profile": ("lab", "lab"),
    "sandbox": ("docker", "docker"),
    "interval_s": ("0.2", 0.2),
    "timeout_s": ("60", 60.0),
    "command_s": ("0.5", 0.5),
    "stable_s": ("0", 0.0),
    "deadline_s": ("3600", 3600.0),
    "approval_s": ("86400", 86400.0),
    "parked_s": ("604800", 604800.0),
    "escalate_s": ("60", 60.0),
    "two_person": ("1", True),
    "self_approval": ("0", False),
    "runs_max": ("2", 2.0),
    "changes_per_hour": ("5", 5.0),
    "targets_max": ("2", 2.0),
    "metrics": ("127.0.0.1:9464", "127.0.0.1:9464"),
    "otlp_endpoint": ("http://127.0.0.1:4318", "http://127.0.0.1:4318"),
    "otlp_token_file": ("/srv/collector", "/srv/collector"),
    "heartbeat_url_file": ("/srv/heartbeat", "/srv/heartbeat"),
    "heartbeat_s": ("10", 10.0),
    "history_days": ("30", 30.0),
    "history_looks": ("500", 500.0),
    "ledger_days": ("400", 400.0),
    "log_format": ("json", "json"),
    "log_level": ("error", "error"),
    "anthropic_api_key": ("sk-1", "sk-1"),
    "anthropic_model": ("claude-opus-5", "claude-opus-5"),
    "model": ("reasoner", "reasoner"),
    "summary_model": ("rule", "rule"),
    "guidance": ("Be brief.", "Be brief."),
    "usd_per_day": ("5.5", 5.5),
    "tokens_per_day": ("1000", 1000.0),
}


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_every_setting_can_be_given_in_each_way(tmp_path: Path, setting: Setting) -> None:
    text, value = GOOD[setting.name]
    ways = [
        _load(tmp_path, f'{setting.name} = "{text}"'),
        _load(tmp_path, "", environ={f"OPERATOR_{setting.name.upper()}": text}),
        _load(tmp_path, "", flags={setting.name: text}),
    ]
    assert [way.values[setting.name] for way in ways] == [value] * 3
    assert setting.meaning


BAD = [
    ("mode", '"destroy"', "one of observe, approve, execute"),
    ("mode", '"Execute"', "one of"),
    ("profile", '"prod"', "one of standard, lab"),
    ("interval_s", "0", "between 0.2 and 3600"),
    ("interval_s", "3601", "between 0.2 and 3600"),
    ("interval_s", "nan", "between"),
    ("interval_s", "inf", "between"),
    ("interval_s", '"soon"', "'soon'"),
    ("interval_s", "true", "a number or a string"),
    ("interval_s", "[1]", "a number or a string"),
    ("timeout_s", "-1", "between 0.1 and 60"),
    ("stable_s", "-0.1", "between 0 and 3600"),
    ("deadline_s", "0.5", "between 1 and 3600"),
    ("approval_s", "1e9", "between 1 and 86400"),
    ("parked_s", "-1", "between 0 and 604800"),
    ("two_person", '"yes"', "0 or 1"),
    ("changes_per_hour", "0", "between 1 and 10000"),
    ("targets_max", "-1", "between 0 and 10000"),
    ("log_level", '"loud"', "one of debug"),
    ("log_format", '""', "one of text, json"),
]


@pytest.mark.parametrize(("name", "value", "word"), BAD)
def test_a_wrong_value_is_refused_with_its_name_and_its_range(
    folder: Path, name: str, value: str, word: str
) -> None:
    told = _refusal(folder, f"{name} = {value}")
    assert repr(name) in told
    assert word in told


def test_a_wrong_value_is_refused_with_where_it_came_from(folder: Path) -> None:
    assert "(environment)" in _refusal(folder, environ={"OPERATOR_MODE": "x"})
    assert str(folder / FILE) in _refusal(folder, 'mode = "x"')


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("mdoe", "mode"), ("intervall_s", "interval_s"), ("Mode", "mode"), ("subject", "subjects")],
)
def test_an_unknown_key_is_refused_with_the_nearest_one(
    folder: Path, name: str, nearest: str
) -> None:
    told = _refusal(folder, f"{name} = 1")
    assert repr(name) in told
    assert f"Did you mean {nearest!r}?" in told


def test_a_misspelt_variable_is_refused_with_the_nearest_one(folder: Path) -> None:
    told = _refusal(folder, environ={"OPERATOR_INTERVALL_S": "1"})
    assert "Did you mean 'OPERATOR_INTERVAL_S'?" in told


def test_variables_of_other_programs_are_none_of_our_business(folder: Path) -> None:
    environ = {"OPERATOR_SDK_VERSION": "1", "PATH": "/bin", "MODE": "execute"}
    assert _load(folder, environ=environ).mode is Mode.OBSERVE


SEEDS = [
    ("observe", "", "observe"),
    ("observe", "true", "observe"),
    ("observe", "false", "observe"),
    ("execute", "", "execute"),
    ("execute", "false", "execute"),
    ("execute", "true", "approve"),
    ("", "true", "observe"),
    ("", "", "observe"),
]


@pytest.mark.parametrize(("safety", "approval", "mode"), SEEDS)
def test_the_older_variables_are_honoured(
    folder: Path, safety: str, approval: str, mode: str
) -> None:
    given = {"OPERATOR_SAFETY_MODE": safety, "OPERATOR_APPROVAL_MODE": approval}
    environ = {name: value for name, value in given.items() if value}
    assert _load(folder, environ=environ).mode == mode


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize(("safety", "approval", "meant"), [one for one in SEEDS if one[0]])
def test_variables_that_contradict_each_other_are_refused(
    folder: Path, mode: Mode, safety: str, approval: str, meant: str
) -> None:
    environ = {"OPERATOR_MODE": str(mode), "OPERATOR_SAFETY_MODE": safety}
    if approval:
        environ["OPERATOR_APPROVAL_MODE"] = approval
    if mode == meant:
        assert _load(folder, environ=environ).mode is mode
    else:
        told = _refusal(folder, environ=environ)
        assert "contradicts" in told
        assert f"OPERATOR_MODE={mode}" in told


@pytest.mark.parametrize(
    ("variable", "value"),
    [("OPERATOR_SAFETY_MODE", "off"), ("OPERATOR_APPROVAL_MODE", "yes")],
)
def test_a_wrong_word_in_an_older_variable_is_refused(
    folder: Path, variable: str, value: str
) -> None:
    told = _refusal(folder, environ={variable: value})
    assert variable in told
    assert repr(value) in told


def test_the_key_of_the_model_is_found_under_its_makers_name(folder: Path) -> None:
    environ = {"ANTHROPIC_API_KEY": "sk-makers"}
    assert _load(folder, environ=environ).values["anthropic_api_key"] == "sk-makers"
    environ["OPERATOR_ANTHROPIC_API_KEY"] = "sk-ours"
    assert _load(folder, environ=environ).values["anthropic_api_key"] == "sk-ours"


def test_settings_that_hold_secrets_are_marked_as_such() -> None:
    """A URL of a database holds a password, and a key of a model is one."""
    secret = {setting.name for setting in SETTINGS if setting.secret}
    assert secret == {"anthropic_api_key", "store"}


def test_the_file_is_found_upward(folder: Path) -> None:
    inner = folder / "a" / "b"
    inner.mkdir(parents=True)
    (folder / FILE).write_text('mode = "execute"')
    config = load_config(flags={}, environ={}, cwd=inner)
    assert config.file == folder / FILE
    assert config.mode is Mode.EXECUTE


def test_the_nearest_file_wins_and_is_not_mixed_with_others(folder: Path) -> None:
    inner = folder / "a"
    inner.mkdir()
    (folder / FILE).write_text('mode = "execute"')
    (inner / FILE).write_text("interval_s = 1")
    config = load_config(flags={}, environ={}, cwd=inner)
    assert config.file == inner / FILE
    assert config.mode is Mode.OBSERVE


def test_what_is_no_file_of_that_name_is_not_passed_over(folder: Path) -> None:
    (folder / FILE).mkdir()
    assert repr(str(folder / FILE)) in _refusal(folder)
    (folder / FILE).rmdir()
    (folder / FILE).symlink_to(folder / FILE)
    assert repr(str(folder / FILE)) in _refusal(folder)


@pytest.mark.parametrize("content", [b"mode = ", b"\xff\xfe", b"mode = 'a'\nmode = 'b'"])
def test_a_file_that_cannot_be_read_is_named(folder: Path, content: bytes) -> None:
    (folder / FILE).write_bytes(content)
    assert repr(str(folder / FILE)) in _refusal(folder)


def test_a_home_is_made_absolute(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", str(folder / "me"))
    assert _load(folder, flags={"home": "state"}).home == folder / "state"
    assert _load(folder, flags={"home": "~/state"}).home == folder / "me" / "state"


@pytest.mark.parametrize(
    ("interval_s", "stable_s", "expected"),
    [("30", "0", 60.0), ("1", "0", 5.0), ("2.5", "0", 5.0), ("3", "0", 6.0), ("30", "2", 2.0)],
)
def test_a_repair_must_hold_two_intervals_and_at_least_five_seconds(
    folder: Path, interval_s: str, stable_s: str, expected: float
) -> None:
    config = _load(folder, flags={"interval_s": interval_s, "stable_s": stable_s})
    assert config.stable_of("anything") == expected


SUBJECT = """
[subjects.shop]
plugin = "ratelimiter"
[[subjects.shop.targets]]
name = "store"
kind = "store"
port = 6379
[[subjects.shop.targets]]
name = "node-1"
kind = "node"
host = "127.0.0.2"
port = 8001
depends_on = ["store"]
log = "/var/log/node-1.log"
"""


def test_subjects_are_read_with_their_targets(folder: Path) -> None:
    (shop,) = _load(folder, SUBJECT).subjects
    assert isinstance(shop, SubjectConfig)
    assert (shop.name, shop.plugin) == ("shop", "ratelimiter")
    store, node = shop.targets
    assert (store.name, store.kind, store.host, store.port) == ("store", "store", "127.0.0.1", 6379)
    assert (node.host, node.port, node.depends_on) == ("127.0.0.2", 8001, ("store",))
    assert node.log == "/var/log/node-1.log"


def test_a_subject_is_its_own_plug_in_unless_it_names_one(folder: Path) -> None:
    (subject,) = _load(folder, "[subjects.ratelimiter]").subjects
    assert (subject.plugin, subject.targets) == ("ratelimiter", ())


def _target(text: str) -> str:
    return f"[[subjects.shop.targets]]\n{text}"


BAD_SUBJECTS = [
    ("subjects = 1", "must be a table"),
    ("subjects = []", "must be a table"),
    ("[subjects]\nshop = 1", "[subjects.shop]"),
    ("[subjects.shop]\ntargets = 1", "list of targets"),
    ("[subjects.shop]\nplugin = 1", "plugin"),
    ("[subjects.shop]\nplug = 'x'", "Did you mean 'plugin'?"),
    ("[subjects.shop]\ntargets = [1]", "must be a table"),
    (_target("kind = 'node'"), "needs a name and a kind"),
    (_target("name = 'a'"), "needs a name and a kind"),
    (_target("name = 1\nkind = 'node'"), "needs a name and a kind"),
    (_target("name = ''\nkind = 'node'"), "needs a name and a kind"),
    (_target("name = 'a'\nkind = 'node'\nprot = 1"), "Did you mean 'port'?"),
    (_target("name = 'a'\nkind = 'node'\nport = 0"), "not a port number"),
    (_target("name = 'a'\nkind = 'node'\nport = 65536"), "not a port number"),
    (_target("name = 'a'\nkind = 'node'\nport = true"), "not a port number"),
    (_target("name = 'a'\nkind = 'node'\nport = '80'"), "not a port number"),
    (_target("name = 'a'\nkind = 'node'\nport = 80.5"), "not a port number"),
    (_target("name = 'a'\nkind = 'node'\nhost = 1"), "host"),
    (_target("name = 'a'\nkind = 'node'\nlog = 1"), "log"),
    (_target("name = 'a'\nkind = 'node'\ndepends_on = 3"), "depends_on"),
    (_target("name = 'a'\nkind = 'node'\ndepends_on = 'b'"), "depends_on"),
    (_target("name = 'a'\nkind = 'node'\ndepends_on = [1]"), "depends_on"),
    (_target("name = 'a'\nkind = 'node'\ndepends_on = ['b']"), "'b'"),
    (_target("name = 'a'\nkind = 'n'\n") + _target("name = 'a'\nkind = 'n'"), "two targets named"),
]


@pytest.mark.parametrize(("toml", "word"), BAD_SUBJECTS)
def test_a_wrong_subject_is_refused_with_its_place(folder: Path, toml: str, word: str) -> None:
    told = _refusal(folder, toml)
    assert word in told
    assert FILE in told


def test_a_look_may_take_three_time_outs_or_its_interval(tmp_path: Path) -> None:
    given = {"home": str(tmp_path), "timeout_s": "5", "interval_s": "30"}
    assert load_config(flags=given, environ={}, cwd=tmp_path).check_timeout_s == 30
    given["interval_s"] = "1"
    assert load_config(flags=given, environ={}, cwd=tmp_path).check_timeout_s == 15
