"""The models: the built-in ones, and the tables `[models.*]` of operator.toml."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from operator_protocols.domain.budget import Prices
from operator_protocols.errors import ConfigError
from operator_sre.config.tables import SECRET, check_table, number_of, unknown

__all__ = [
    "AUTO",
    "CLAUDE",
    "HAIKU",
    "RANDOM",
    "REASONER",
    "RESTART",
    "RULE",
    "SCRIPTED",
    "ModelConfig",
    "built_in_models",
    "model_named",
    "models_of",
    "prices_of",
]

# Names that need no table. AUTO is Claude where its key is known, and REASONER or RULE elsewhere.
AUTO = "auto"
REASONER = "reasoner"
RULE = "rule"
CLAUDE = "claude"
HAIKU = "haiku"
# Agents without understanding, as a baseline; RANDOM may be followed by a colon and a seed.
RANDOM = "random"
RESTART = "restart-everything"
# What precedes the file of a transcript that is replayed.
SCRIPTED = "scripted:"
ANTHROPIC, COMPATIBLE = "anthropic", "openai-compatible"
HAIKU_MODEL = "claude-haiku-4-5"
TIMEOUT_S = 120.0
TIMEOUT_S_MAX = 3600.0
USD_MAX = 10_000.0
CALLS_MAX = 10
OUTPUT_TOKENS_MAX = 8_192
CONTEXT_TOKENS_MAX = 32_768
# Each limit of an answer with the lowest and the highest value that it can have.
_LIMITS = {
    "calls_max": (CALLS_MAX, 1, 50),
    "output_tokens_max": (OUTPUT_TOKENS_MAX, 256, 200_000),
    "context_tokens_max": (CONTEXT_TOKENS_MAX, 8_192, 2_000_000),
}
TOOL_MODES = ("auto", "native", "json")


# Dollars for a million tokens by the beginning of a model's name; in doubt the higher price. Check
# them against the provider's price list, and set `prices` if they differ.
KNOWN_PRICES: Mapping[str, Prices] = {
    "claude-haiku-4-5": Prices(1.0, 5.0, 0.1),
    "claude-haiku-5-5": Prices(0.5, 2.5, 0.05),
    "claude-sonnet-4-": Prices(3.0, 15.0, 0.3),
    "claude-sonnet-5": Prices(2.0, 10.0, 0.2),
    "claude-opus-4-": Prices(5.0, 25.0, 0.5),
    "claude-opus-4-1": Prices(15.0, 75.0, 1.5),
    "claude-opus-5": Prices(5.0, 25.0, 0.5),
    "claude-fable-5": Prices(10.0, 50.0, 1.0),
}
_KEYS = (
    *("provider", "model", "base_url", "key_env", "key_file", "prices", "timeout_s", "tools"),
    *("temperature", "calls_max", "output_tokens_max", "context_tokens_max"),
)
_PRICES = tuple(price.name for price in fields(Prices))
_SECRETS = frozenset({"key", "api_key", "apikey", "token", "secret", "password"})
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_RANDOM = re.compile(r"random:[0-9]{1,9}")
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """One model: its provider, address, prices and key. `key` is never shown."""

    name: str
    provider: str
    model: str
    base_url: str = ""
    key_env: str = ""
    key_file: str = ""
    prices: Prices | None = None
    timeout_s: float = TIMEOUT_S
    tools: str = "auto"
    temperature: float | None = None
    calls_max: int = CALLS_MAX
    output_tokens_max: int = OUTPUT_TOKENS_MAX
    context_tokens_max: int = CONTEXT_TOKENS_MAX
    key: str = field(default="", repr=False)

    @property
    def has_key(self) -> bool:
        """True when there is a key, or a file that should have one."""
        return bool(self.key or self.key_file)

    @property
    def host(self) -> str:
        """The host of its address; empty for the default address of the provider."""
        return urlsplit(self.base_url).netloc


def prices_of(model: str) -> Prices | None:
    """The known prices of a model, by the longest matching beginning of its name."""
    known = sorted((name for name in KNOWN_PRICES if model.startswith(name)), key=len)
    return KNOWN_PRICES[known[-1]] if known else None


def built_in_models(anthropic_model: str, key: str) -> tuple[ModelConfig, ...]:
    """Claude, and a small Claude for summaries."""
    return tuple(
        ModelConfig(
            name=name,
            provider=ANTHROPIC,
            model=model,
            key_env="ANTHROPIC_API_KEY",
            prices=prices_of(model),
            key=key,
        )
        for name, model in ((CLAUDE, anthropic_model), (HAIKU, HAIKU_MODEL))
    )


def models_of(
    table: Any,
    file: Path | None,
    *,
    environ: Mapping[str, str],
    given: Iterable[ModelConfig] = (),
) -> tuple[ModelConfig, ...]:
    """The given models and the `[models.*]` of a file, which replace models of the same name.

    ConfigError names the first mistake, and never repeats a key.
    """
    if not isinstance(table, dict):
        raise ConfigError(f"'models' in {str(file)!r} must be tables such as [models.local].")
    models = {model.name: model for model in given}
    for name, body in table.items():
        models[name] = _read_model(name, body, file, environ)
    return tuple(models.values())


def model_named(
    name: str, models: Iterable[ModelConfig], *, words: Iterable[str], setting: str
) -> None:
    """ConfigError unless there is a model of that name, or it is one of these words."""
    valid = [*words, *(model.name for model in models)]
    if name in (*valid, RANDOM, RESTART) or _RANDOM.fullmatch(name):
        return
    if name.startswith(SCRIPTED) and name != SCRIPTED:
        return
    raise ConfigError(
        f"{setting!r} is {name!r}, which is not a configured model.",
        next_step=f"Models: {', '.join(valid)}. Add one to operator.toml as [models.NAME].",
    )


def _read_model(name: str, body: Any, file: Path | None, environ: Mapping[str, str]) -> ModelConfig:
    place = f"[models.{name}] in {str(file)!r}"
    if not _NAME.fullmatch(name) or name in {AUTO, RANDOM, REASONER, RESTART, RULE}:
        raise ConfigError(
            f"{name!r} is not a valid model name ({str(file)!r}).",
            next_step=f"Use lowercase letters, digits, '.', '-', '_'; {AUTO}, {REASONER} and {RULE}"
            " are reserved.",
        )
    if not isinstance(body, dict):
        raise ConfigError(f"{place} must be a table.")
    for key in body:
        if key.lower() in _SECRETS:
            raise ConfigError(
                f"{place} contains a secret, and secrets do not belong in this file.",
                next_step="Set key_env to the name of a variable, or key_file to a file.",
            )
        if key not in _KEYS:
            raise unknown(key, _KEYS, place)
    if "key_env" in body and "key_file" in body:
        raise ConfigError(f"{place} has both key_env and key_file; set only one.")
    variable = body.get("key_env", "")
    if variable and not (isinstance(variable, str) and _VARIABLE.fullmatch(variable)):
        raise ConfigError(
            f"'key_env' of {place} must be the name of a variable, not its value.",
            next_step='Such as key_env = "ANTHROPIC_API_KEY".',
        )
    key_file = _read_text(body, "key_file", place)
    if file and key_file and not key_file.startswith(SECRET):
        key_file = str(file.parent / Path(key_file).expanduser())
    model = _read_text(body, "model", place, needed=True)
    provider = _read_text(body, "provider", place, needed=True)
    base_url = _read_text(body, "base_url", place)
    prices = _read_prices(body["prices"], place) if "prices" in body else prices_of(model)
    timeout_s = body.get("timeout_s", TIMEOUT_S)
    timeout_s = number_of(timeout_s, 1, TIMEOUT_S_MAX, "timeout_s", place)
    tools, temperature = body.get("tools", "auto"), None
    if tools not in TOOL_MODES:
        raise ConfigError(f"'tools' of {place} must be one of {', '.join(TOOL_MODES)}.")
    if "temperature" in body:
        temperature = number_of(body["temperature"], 0, 2, "temperature", place)
    limits = {
        key: int(number_of(body.get(key, usual), low, high, key, place))
        for key, (usual, low, high) in _LIMITS.items()
    }
    if base_url:
        _check_address(base_url, place, has_key=bool(variable or key_file))
    elif provider == COMPATIBLE:
        raise ConfigError(
            f"{place} needs 'base_url'.", next_step="Such as http://127.0.0.1:11434/v1."
        )
    return ModelConfig(
        name=name,
        provider=provider,
        model=model,
        base_url=base_url,
        key_env=str(variable),
        key_file=key_file,
        prices=prices,
        timeout_s=timeout_s,
        tools=tools,
        temperature=temperature,
        calls_max=limits["calls_max"],
        output_tokens_max=limits["output_tokens_max"],
        context_tokens_max=limits["context_tokens_max"],
        key=environ.get(variable, "") if variable else "",
    )


def _read_prices(costs: Any, place: str) -> Prices:
    if not isinstance(costs, dict) or not {"input", "output"} <= set(costs):
        raise ConfigError(
            f"'prices' of {place} must set the price of input and output.",
            next_step="Dollars for a million tokens: prices = { input = 3.0, output = 15.0 }.",
        )
    check_table(costs, _PRICES, f"'prices' of {place}")
    numbers = {key: number_of(usd, 0, USD_MAX, key, place) for key, usd in costs.items()}
    return Prices(**numbers)


def _read_text(body: Mapping[str, Any], key: str, place: str, *, needed: bool = False) -> str:
    value = body.get(key, "")
    if not isinstance(value, str) or (needed and not value):
        raise ConfigError(f"{place} needs {key!r}, a string.")
    return value


def _check_address(base_url: str, place: str, *, has_key: bool) -> None:
    from ipaddress import ip_address  # rarely needed, and every command loads this file

    try:
        url = urlsplit(base_url)
        host, _ = url.hostname or "", url.port
    except ValueError:
        host, url = "", urlsplit("")
    if url.scheme not in {"http", "https"} or not host:
        raise ConfigError(f"'base_url' of {place} must be an http:// or https:// address.")
    if url.username is not None or url.query or url.fragment:
        raise ConfigError(
            f"'base_url' of {place} must not contain a user, a password or a query.",
            next_step="Set the key with key_env or key_file.",
        )
    try:
        is_near = ip_address(host).is_loopback
    except ValueError:
        is_near = host == "localhost"
    if url.scheme == "http" and has_key and not is_near:
        raise ConfigError(
            f"{place} would send its key to {host!r} unencrypted.",
            next_step="Use https://, or remove the key.",
        )
