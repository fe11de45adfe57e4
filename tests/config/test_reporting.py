"""Triggers and notices of operator.toml: what is read, and what is refused with which sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from operator_protocols.domain.health import Severity
from operator_protocols.errors import ConfigError
from operator_sre.config import Config, NoticeConfig, load_config
from operator_sre.config.tables import notices_of, triggers_of
from operator_sre.notify.notice import Event
from operator_sre.triggers.trigger import Trigger, TriggerKind


def _load(folder: Path, toml: str) -> Config:
    (folder / "operator.toml").write_text(toml)
    return load_config(flags={}, environ={}, cwd=folder)


def test_without_any_nobody_is_heard_or_told(tmp_path: Path) -> None:
    config = _load(tmp_path, "")
    assert (config.triggers, config.notices) == ((), NoticeConfig())
    assert config.notices.urls_file == ""
    assert triggers_of({}, None) == ()
    assert notices_of({}, None) == NoticeConfig()


def test_triggers_are_read_and_their_secrets_lie_beside_the_file(tmp_path: Path) -> None:
    toml = """
[triggers.prom]
kind = "alertmanager"
token_file = "token"
hmac_file = "/srv/key"
hmac_header = "X-Sig"
subject = "shop"
target = "instance"
invariant = "up"
[triggers.other]
kind = "json"
open = 1
fields = { name = "event.title", state = "" }
"""
    prom, other = _load(tmp_path, toml).triggers
    assert (prom.token_file, prom.hmac_file) == (str(tmp_path / "token"), "/srv/key")
    assert (prom.about, prom.guarded, prom.open) == ("shop", True, False)
    assert (prom.target, prom.invariant, prom.hmac_header) == ("instance", "up", "X-Sig")
    assert isinstance(other, Trigger)
    assert (other.kind, other.about, other.guarded) == (TriggerKind.JSON, "other", False)
    assert (other.fields["name"], other.fields["state"]) == ("event.title", "")
    assert other.fields["severity"] == "severity"


BAD_TRIGGERS = [
    ("triggers = 1", "must be a table"),
    ("[triggers]\nx = 1", "must be a table"),
    ('[triggers."a/b"]\nkind = "json"', "a name of letters"),
    ("[triggers.x]", "'kind' of [triggers.x]"),
    ('[triggers.x]\nkind = "slack"', "one of alertmanager, json"),
    ('[triggers.x]\nkind = "json"\ntoken = "s3cret"', "Did you mean 'token_file'?"),
    ('[triggers.x]\nkind = "json"\ntoken_file = ""', "must be a string"),
    ('[triggers.x]\nkind = "json"\ntoken_file = 3', "must be a string"),
    ('[triggers.x]\nkind = "json"\nopen = true', "0 or 1"),
    ('[triggers.x]\nkind = "json"\nhmac_header = "a b"', "not the name of a header"),
    ('[triggers.x]\nkind = "json"\ninvariant = "up"', "the subject that it belongs to"),
    ('[triggers.x]\nkind = "json"\ntarget = "instance"', "applies to Alertmanager labels"),
    ('[triggers.x]\nkind = "json"\nfields = { nam = "a" }', "Did you mean 'name'?"),
    ('[triggers.x]\nkind = "json"\nfields = { name = 1 }', "a path such as"),
    ('[triggers.x]\nkind = "alertmanager"\nfields = { name = "a" }', "for kind 'json'"),
]
BAD_NOTICES = [
    ("notify = 1", "must be a table"),
    ("[notify]\ngroup_s = 1", "needs 'urls_file'"),
    ('[notify]\nurls = "slack://s3cret"', "Did you mean 'urls_file'?"),
    ('[notify]\nurls_file = "u"\nevents = ["closed"]', "a list of opened"),
    ('[notify]\nurls_file = "u"\nevents = []', "a list of opened"),
    ('[notify]\nurls_file = "u"\nmin_severity = "bad"', "one of info, warning, critical"),
    ('[notify]\nurls_file = "u"\ngroup_s = -1', "between 0 and 600"),
    ('[notify]\nurls_file = "u"\nper_hour_max = 0', "between 1 and 3600"),
    ('[notify]\nurls_file = "u"\nweb_url = "ops.example"', "such as https://ops.example.com"),
    ('[notify]\nurls_file = "u"\nweb_url = "https://a:b@ops"', "such as https://ops.example.com"),
    ('[notify]\nurls_file = "u"\nquiet_hours = "night"', "like '22:00-07:00 Europe/Berlin'"),
    ('[notify]\nurls_file = "u"\nquiet_hours = "22:00-07:00 Moon"', "an invalid time or time zone"),
    ('[notify]\nurls_file = "u"\nquiet_hours = "07:00-07:00"', "at the same time"),
    ('[notify]\nurls_file = "u"\nper_hour_max = true', "must be a number"),
    ('metrics = "9464"', "an address such as"),
    ('metrics = "host:99999"', "an address such as"),
    ("heartbeat_s = 0", "between 1 and 86400"),
]


@pytest.mark.parametrize(("toml", "words"), [*BAD_TRIGGERS, *BAD_NOTICES])
def test_what_makes_no_sense_is_refused(tmp_path: Path, toml: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        _load(tmp_path, toml)
    assert words in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_notices_are_read(tmp_path: Path) -> None:
    toml = """
[notify]
urls_file = "urls"
events = ["opened", "escalated"]
min_severity = "warning"
group_s = 30
per_hour_max = 5
"""
    asked = _load(tmp_path, toml).notices
    assert asked == NoticeConfig(
        str(tmp_path / "urls"),
        frozenset({Event.OPENED, Event.ESCALATED}),
        Severity.WARNING,
        30.0,
        5,
    )
