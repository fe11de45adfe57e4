"""Models in operator.toml: what is understood, what is refused, and that no key is ever shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from operator_protocols.domain.budget import Prices
from operator_protocols.errors import ConfigError
from operator_sre.config import Config, ModelConfig, load_config
from operator_sre.config.models import (
    AUTO,
    CLAUDE,
    HAIKU,
    REASONER,
    RULE,
    SCRIPTED,
    built_in_models,
    model_named,
    models_of,
    prices_of,
)

SECRET = "sk-ant-api03-very-secret-value"
LOCAL = """
[models.local]
provider = "openai-compatible"
model = "qwen3"
base_url = "http://127.0.0.1:11434/v1"
"""


def _load(folder: Path, toml: str, **environ: str) -> Config:
    (folder / "operator.toml").write_text(toml)
    return load_config(flags={}, environ=environ, cwd=folder)


def _find(config: Config, name: str) -> ModelConfig:
    return next(one for one in config.models if one.name == name)


def test_a_table_is_read_whole(tmp_path: Path) -> None:
    toml = f"""
model = "big"
{LOCAL}
[models.big]
provider = "anthropic"
model = "claude-opus-5"
key_env = "BIG_KEY"
prices = {{ input = 4, output = 20.5, cached_input = 0.25 }}
timeout_s = 30
tools = "native"
temperature = 0.5
calls_max = 3
output_tokens_max = 1000
context_tokens_max = 16000
"""
    config = _load(tmp_path, toml, BIG_KEY=SECRET)
    big = _find(config, "big")
    assert big == ModelConfig(
        name="big",
        provider="anthropic",
        model="claude-opus-5",
        key_env="BIG_KEY",
        prices=Prices(4.0, 20.5, 0.25),
        timeout_s=30.0,
        tools="native",
        temperature=0.5,
        calls_max=3,
        output_tokens_max=1000,
        context_tokens_max=16000,
        key=SECRET,
    )
    local = _find(config, "local")
    assert (local.host, local.has_key, local.prices) == ("127.0.0.1:11434", False, None)
    assert config.values["model"] == "big"


def test_claude_needs_no_table_and_takes_one(tmp_path: Path) -> None:
    plain = _load(tmp_path, "", ANTHROPIC_API_KEY=SECRET)
    assert [(one.name, one.has_key) for one in plain.models] == [(CLAUDE, True), (HAIKU, True)]
    assert not _find(_load(tmp_path, ""), CLAUDE).has_key
    own = _load(tmp_path, '[models.claude]\nprovider = "bedrock"\nmodel = "x"\n')
    assert _find(own, CLAUDE).provider == "bedrock"
    other = _load(tmp_path, 'anthropic_model = "claude-opus-5"')
    assert _find(other, CLAUDE).model == "claude-opus-5"
    assert built_in_models("m", "")[0].model == "m"


def test_a_key_lies_elsewhere_and_is_never_shown(tmp_path: Path) -> None:
    file = _load(tmp_path, LOCAL + 'key_file = "key.txt"\n')
    assert _find(file, "local").key_file == str(tmp_path / "key.txt")
    assert _find(file, "local").has_key
    known = _load(tmp_path, LOCAL + 'key_env = "K"\n', K=SECRET)
    assert SECRET not in repr(known.models)
    assert _find(known, "local").key == SECRET


BAD = [
    (LOCAL + f'key = "{SECRET}"', "secrets do not belong in this file"),
    (LOCAL + f'api_key = "{SECRET}"', "key_env"),
    (LOCAL + f'API_KEY = "{SECRET}"', "key_env"),
    (LOCAL + f'key_env = "{SECRET}"', "the name of a variable, not its value"),
    (LOCAL + 'key_env = "A"\nkey_file = "b"', "set only one"),
    (LOCAL + 'tool = "json"', "Did you mean 'tools'?"),
    (LOCAL + 'tools = "magic"', "one of auto, native, json"),
    (LOCAL + "timeout_s = 0", "between 1 and 3600"),
    (LOCAL + "timeout_s = true", "between 1 and 3600"),
    (LOCAL + "temperature = 3", "between 0 and 2"),
    (LOCAL + "calls_max = 0", "between 1 and 50"),
    (LOCAL + "context_tokens_max = 100", "between 8192 and"),
    (LOCAL + "prices = 3", "input and output"),
    (LOCAL + "prices = { input = 3 }", "input and output"),
    (LOCAL + "prices = { input = 3, output = -1 }", "between 0 and"),
    (LOCAL + "prices = { input = 3, output = 4, cache = 1 }", "cached_input"),
    ('[models.a]\nprovider = "x"', "needs 'model'"),
    ('[models.a]\nmodel = "x"', "needs 'provider'"),
    ('[models.a]\nprovider = "openai-compatible"\nmodel = "x"', "needs 'base_url'"),
    ('[models.a]\nprovider = "x"\nmodel = "x"\nbase_url = "file:///etc"', "http:// or https://"),
    ('[models.a]\nprovider = "x"\nmodel = "x"\nbase_url = "http://h:x"', "http:// or https://"),
    (
        f'[models.a]\nprovider = "x"\nmodel = "x"\nbase_url = "https://u:{SECRET}@h"',
        "must not contain a user",
    ),
    (
        '[models.a]\nprovider = "x"\nmodel = "x"\nbase_url = "http://h.example"\nkey_env = "K"',
        "unencrypted",
    ),
    ('[models.auto]\nprovider = "x"\nmodel = "x"', "'auto' is not a valid model name"),
    ('[models."A b"]\nprovider = "x"\nmodel = "x"', "is not a valid model name"),
    ('models = "x"', "must be tables"),
    ("[models]\na = 1", "must be a table"),
    ('model = "gpt"', "which is not a configured model"),
    ('model = "rule"', "which is not a configured model"),
    ('summary_model = "reasoner"', "which is not a configured model"),
    ('model = "scripted:"', "which is not a configured model"),
    ("usd_per_day = -1", "between 0"),
]


@pytest.mark.parametrize(("toml", "words"), BAD)
def test_what_makes_no_sense_is_told_in_a_sentence(tmp_path: Path, toml: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        _load(tmp_path, toml)
    assert words in str(caught.value)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("host", ["http://localhost:1/v1", "http://[::1]:1", "https://h.example"])
def test_a_key_goes_only_where_nobody_listens(tmp_path: Path, host: str) -> None:
    toml = f'[models.a]\nprovider = "x"\nmodel = "x"\nbase_url = "{host}"\nkey_env = "K"'
    assert _find(_load(tmp_path, toml), "a").base_url == host


def test_names_that_need_no_table(tmp_path: Path) -> None:
    for name in (AUTO, REASONER, CLAUDE, HAIKU, f"{SCRIPTED}/srv/run.json"):
        assert _load(tmp_path, f'model = "{name}"').values["model"] == name
    assert _load(tmp_path, f'summary_model = "{RULE}"').values["summary_model"] == RULE
    model_named("a", (), words=("a",), setting="model")
    assert models_of({}, None, environ={}) == ()


def test_the_longest_beginning_of_a_name_has_the_price() -> None:
    assert prices_of("claude-opus-4-1-20250805") == Prices(15.0, 75.0, 1.5)
    assert prices_of("claude-opus-4-6") == Prices(5.0, 25.0, 0.5)
    assert prices_of("qwen3") is None
