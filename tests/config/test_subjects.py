"""What operator.toml may say of a subject: addresses, access, intervals, windows, files."""

from __future__ import annotations

from datetime import time
from pathlib import Path

import pytest

from operator_protocols.domain.silence import Window
from operator_protocols.domain.target import Access
from operator_protocols.errors import ConfigError
from operator_sre.config import Config, load_config, reread_subjects, seconds_of
from operator_sre.config.subjects import subjects_of

FILE = "operator.toml"


def _load(folder: Path, toml: str, **flags: str) -> Config:
    (folder / FILE).write_text(toml)
    return load_config(flags=flags, environ={}, cwd=folder)


def _target(text: str) -> str:
    return f"[[subjects.shop.targets]]\nname = 'a'\nkind = 'node'\n{text}"


def _window(text: str) -> str:
    return f"[subjects.shop]\nwindows = [{{ {text} }}]"


def test_a_target_may_answer_at_several_addresses(tmp_path: Path) -> None:
    toml = _target("endpoints = ['10.0.0.1:80', 'b.example:81', '[::1]:82']")
    (target,) = _load(tmp_path, toml).subjects[0].targets
    assert (target.host, target.port) == ("10.0.0.1", 80)
    assert target.endpoints == ("b.example:81", "[::1]:82")


def test_a_target_with_an_address_keeps_all_further_ones(tmp_path: Path) -> None:
    toml = _target("host = 'h'\nport = 8\nendpoints = ['b:81']")
    (target,) = _load(tmp_path, toml).subjects[0].targets
    assert (target.host, target.port, target.endpoints) == ("h", 8, ("b:81",))


def test_access_is_read_and_its_files_are_found_from_the_file(tmp_path: Path) -> None:
    toml = _target(
        "[subjects.shop.targets.access]\ntls = true\nca_file = 'ca.pem'\nserver_name = 's'\n"
        "certificate_file = '/etc/c.pem'\nkey_file = 'k.pem'\nuser = 'u'\npassword_file = 'p'"
    )
    (target,) = _load(tmp_path, toml).subjects[0].targets
    assert target.access == Access(
        tls=True,
        ca_file=str(tmp_path / "ca.pem"),
        certificate_file="/etc/c.pem",
        key_file=str(tmp_path / "k.pem"),
        server_name="s",
        user="u",
        password_file=str(tmp_path / "p"),
    )


def test_a_file_of_the_options_is_found_from_the_file(tmp_path: Path) -> None:
    toml = "[subjects.shop.options]\nfile = 'shop.yaml'\nmore = 1"
    (shop,) = _load(tmp_path, toml).subjects
    assert shop.options == {"file": str(tmp_path / "shop.yaml"), "more": 1}


def test_the_interval_of_a_subject_beats_the_setting_and_a_flag_beats_both(tmp_path: Path) -> None:
    toml = "interval_s = 7\n[subjects.shop]\ninterval_s = 2\n[subjects.bank]"
    config = _load(tmp_path, toml)
    assert (config.interval_of("shop"), config.interval_of("bank")) == (2.0, 7.0)
    assert (config.stable_of("shop"), config.stable_of("bank")) == (5.0, 14.0)
    assert config.interval_of("a rig") == 7.0
    flagged = _load(tmp_path, toml, interval_s="3")
    assert (flagged.interval_of("shop"), flagged.interval_of("bank")) == (3.0, 3.0)


def test_windows_are_read(tmp_path: Path) -> None:
    text = 'days = ["sat"], from = "02:00", for = "2h", zone = "Europe/Berlin", targets = ["a*"]'
    (shop,) = _load(tmp_path, _window(text)).subjects
    assert shop.windows == (
        Window(("sat",), time(2, 0), 7200.0, zone="Europe/Berlin", targets=("a*",)),
    )
    (shop,) = _load(tmp_path, _window('from = 03:30:00, for = "90m"')).subjects
    assert shop.windows[0].begins == time(3, 30)
    assert len(shop.windows[0].days) == 7


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90.0),
        ("2h", 7200.0),
        ("1h30m", 5400.0),
        ("1.5d", 129_600.0),
        ("", None),
        ("2", None),
        ("h", None),
        ("-2h", None),
        ("2 h", None),
    ],
)
def test_spans_are_read_as_people_write_them(text: str, seconds: float | None) -> None:
    assert seconds_of(text) == seconds


BAD = [
    (_target("endpoints = 'a:1'"), "list such as"),
    (_target("endpoints = [1]"), "list such as"),
    (_target("endpoints = ['a']"), "not like 'host:port'"),
    (_target("endpoints = ['http://a:1']"), "not like 'host:port'"),
    (_target("endpoints = ['a:0']"), "no port number"),
    (_target("endpoints = ['a:99999']"), "no port number"),
    (_target("endpont = []"), "Did you mean 'endpoints'?"),
    (_target("access = 1"), "must be a table"),
    (_target("access = { tsl = true }"), "Did you mean 'tls'?"),
    (_target("access = { tls = 'yes' }"), "true or false"),
    (_target("access = { user = 1 }"), "a string"),
    (_target("access = { password_file = 'p' }"), "needs a 'user'"),
    (_target("access = { tls = true, key_file = 'p' }"), "needs a 'certificate_file'"),
    (_target("access = { ca_file = 'p' }"), "tls = true"),
    (_target("access = { user = 'u', token_file = 't' }"), "set only one"),
    ("[subjects.shop]\ninterval_s = '5'", "number of seconds"),
    ("[subjects.shop]\ninterval_s = true", "number of seconds"),
    ("[subjects.shop]\ninterval_s = 0.1", "between 0.2 and 3600"),
    ("[subjects.shop]\nintervall_s = 1", "Did you mean 'interval_s'?"),
    ("[subjects.shop.options]\nfile = 1", "must be a path"),
    ("[subjects.shop]\nwindows = 1", "list of tables"),
    ("[subjects.shop]\nwindows = [1]", "must be a table"),
    (_window('from = "02:00", fro = "1h"'), "Did you mean 'from'?"),
    (_window('from = "02:00"'), "'for' in"),
    (_window('from = "02:00", for = "soon"'), "'for' in"),
    (_window('from = "02:00", for = "8d"'), "up to 7d"),
    (_window('for = "1h"'), "'from' in"),
    (_window('from = "25:00", for = "1h"'), "'from' in"),
    (_window('from = "2", for = "1h"'), "'from' in"),
    (_window('from = "02:00", for = "1h", days = ["Saturday"]'), "not a day; use mon"),
    (_window('from = "02:00", for = "1h", days = []'), "'days' in"),
    (_window('from = "02:00", for = "1h", zone = "Mars/Olympus"'), "not a valid time zone"),
    (_window('from = "02:00", for = "1h", zone = "../../etc/passwd"'), "not a valid time zone"),
    (_window('from = "02:00", for = "1h", targets = "a"'), "list of names"),
    (_window('from = "02:00", for = "1h", reason = 1'), "a string"),
]


@pytest.mark.parametrize(("toml", "word"), BAD)
def test_what_makes_no_sense_is_refused_with_its_place(
    tmp_path: Path, toml: str, word: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        _load(tmp_path, toml)
    assert word in str(caught.value)
    assert FILE in str(caught.value)


def test_subjects_are_read_again_and_settings_stay(tmp_path: Path) -> None:
    config = _load(tmp_path, "interval_s = 7\n[subjects.shop]")
    (tmp_path / FILE).write_text("interval_s = 9\n[subjects.bank]")
    fresh = reread_subjects(config)
    assert [one.name for one in fresh.subjects] == ["bank"]
    assert fresh.number("interval_s") == 7.0
    (tmp_path / FILE).write_text("[subjects.")
    with pytest.raises(ConfigError):
        reread_subjects(config)


def test_a_table_without_a_file_is_read_as_well() -> None:
    (found,) = subjects_of({"shop": {"plugin": "etcd", "interval_s": 7}}, None)
    assert (found.name, found.plugin, found.interval_s) == ("shop", "etcd", 7)
    with pytest.raises(ConfigError, match="colour"):
        subjects_of({"shop": {"colour": "red"}}, None)
