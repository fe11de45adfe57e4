"""Settings of one node at its start: every limit, name and address, and the file with them."""

import argparse
import json
import math
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from enum import StrEnum
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

__all__ = [
    "KEY_CHARS_MAX",
    "KEY_PREFIX_PATTERN",
    "LIMIT_MAX",
    "SECONDS_MAX",
    "Live",
    "OnStoreLoss",
    "Settings",
    "change",
    "parse_settings",
    "read_configuration",
]

KEY_CHARS_MAX = 256
KEY_PREFIX_PATTERN = r"^[A-Za-z0-9._:{}-]{1,64}$"
LIMIT_MAX = 1_000_000
SECONDS_MAX = 86_400.0
# What a manager may change while a node runs, and what a configuration file may hold.
CHANGEABLE = ("default_limit", "window_s", "key_prefix", "on_store_loss")


class OnStoreLoss(StrEnum):
    """What a check answers while the store gives no answer."""

    FAIL_OPEN = "fail_open"
    FAIL_CLOSED = "fail_closed"


@dataclass(frozen=True, slots=True)
class KeyNames:
    """Every name this service uses in the store; nothing else spells one out."""

    prefix: str

    @property
    def registry(self) -> str:
        """The hash of node name to its last record."""
        return f"{self.prefix}:nodes"

    @property
    def limits(self) -> str:
        """The hash of key to its own limit."""
        return f"{self.prefix}:limits"

    @property
    def declared_limits(self) -> str:
        """The hash of key to the limit that a manager gave it last."""
        return f"{self.prefix}:limits-declared"

    @property
    def blocks(self) -> str:
        """The hash of blocked key to the reason."""
        return f"{self.prefix}:blocks"

    @property
    def window_prefix(self) -> str:
        """What the name of every window starts with."""
        return f"{self.prefix}:window:"

    def window(self, key: str) -> str:
        """The sorted set that holds the requests allowed to `key`."""
        return f"{self.window_prefix}{key}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One node's configuration, complete and already validated."""

    name: str
    port: int
    store_url: str
    host: str = "127.0.0.1"
    store_password: str | None = field(default=None, repr=False)
    key_prefix: str = "ratelimiter"
    default_limit: int = 100
    window_s: float = 60.0
    heartbeat_s: float = 10.0
    registry_ttl_s: float = 30.0
    on_store_loss: OnStoreLoss = OnStoreLoss.FAIL_OPEN
    # Below one second, so that a caller never waits longer than that for a lost store.
    store_timeout_s: float = 0.8
    store_retry_s: float = 1.0
    store_connections_max: int = 64
    # The sentinels that know which store is the primary; without any, it is the configured store.
    sentinels: tuple[tuple[str, int], ...] = ()
    sentinel_name: str = "limiter"
    sentinel_poll_s: float = 1.0
    sentinel_timeout_s: float = 0.5
    config_file: Path | None = None
    tally_keys_max: int = 5000
    http_connections_max: int = 1024
    body_bytes_max: int = 16_384
    shutdown_s: int = 2
    scan_page_keys: int = 1000
    scan_pages_max: int = 100

    @property
    def names(self) -> KeyNames:
        """The names of this node's keys in the store."""
        return KeyNames(self.key_prefix)

    @property
    def window_us(self) -> int:
        """The window in the store clock's own unit."""
        return round(self.window_s * 1_000_000)

    @property
    def address(self) -> str:
        """Where this node listens, as people write it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def store_address(self) -> str:
        """Where the store is, without any credential."""
        parts = urlsplit(self.store_url)
        return f"{parts.netloc.rpartition('@')[2]}{parts.path}"


class Live:
    """The settings as they are now: a manager may change some of them while the node runs."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    @property
    def names(self) -> KeyNames:
        """The names of this node's keys in the store."""
        return self.settings.names


_FILE_BYTES_MAX = 65_536


def read_configuration(path: Path) -> dict[str, Any]:
    """What a configuration file says, by name; exits with one sentence when it makes no sense."""
    try:
        with path.open("rb") as file:
            document = json.loads(file.read(_FILE_BYTES_MAX))
    except (OSError, ValueError) as error:
        raise SystemExit(f"cannot read the configuration {str(path)!r}: {error}") from error
    if not isinstance(document, dict):
        raise SystemExit(f"the configuration {str(path)!r} is not a JSON object")
    unknown = sorted(set(document) - set(CHANGEABLE))
    if unknown:
        raise SystemExit(
            f"the configuration {str(path)!r} has {unknown[0]!r}; it may have only "
            f"{', '.join(CHANGEABLE)}"
        )
    return document


def change(settings: Settings, wanted: Mapping[str, Any]) -> Settings:
    """The settings with what is wanted, also in the configuration file where there is one."""
    changed = replace(settings, **wanted)
    if settings.config_file is not None and changed != settings:
        values = {name: getattr(changed, name) for name in CHANGEABLE}
        values["on_store_loss"] = OnStoreLoss(values["on_store_loss"]).value
        # Written beside it first: a reader sees the old file or the new one.
        beside = settings.config_file.with_name(f"{settings.config_file.name}.new")
        beside.write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")
        beside.replace(settings.config_file)
    return changed


_STORE_SCHEMES = ("valkey", "valkeys", "redis", "rediss")
_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
_KEY_PREFIX = re.compile(KEY_PREFIX_PATTERN)
# A caller never waits a second for a lost store, so the store gets a little less.
_STORE_TIMEOUT_S_MAX = 0.9


def parse_settings(argv: Sequence[str] | None) -> Settings:
    """Read the command line; exits with a message when it is invalid."""
    parser = argparse.ArgumentParser(
        prog="python -m operator_ratelimiter",
        description="Run one node of the rate limiter.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        argument_default=argparse.SUPPRESS,
    )
    add = parser.add_argument
    add("--name", required=True, type=_matching(_NAME), help="name in the registry")
    add("--host", help="address to listen on")
    add("--port", required=True, type=_whole(65_535), help="port to listen on, 0 for any")
    add("--store", required=True, dest="store_url", type=_store_url, help="valkey://HOST:PORT/DB")
    add("--store-password-file", type=Path, help="file that holds the store's password")
    add("--store-timeout-s", type=_seconds(_STORE_TIMEOUT_S_MAX), help="wait for the store")
    add(
        "--sentinel",
        dest="sentinels",
        action="append",
        type=_address,
        metavar="HOST:PORT",
        help="a sentinel that knows the primary; repeatable",
    )
    add("--sentinel-name", type=_matching(_NAME), help="what the sentinels call the primary")
    add(
        "--config",
        dest="config_file",
        type=Path,
        help="JSON file with default_limit, window_s, key_prefix and on_store_loss",
    )
    add("--key-prefix", type=_matching(_KEY_PREFIX), help="start of every name in the store")
    add("--default-limit", type=_whole(LIMIT_MAX), help="requests a window may hold")
    add("--window-s", type=_seconds(SECONDS_MAX), help="length of the sliding window")
    add("--heartbeat-s", type=_seconds(SECONDS_MAX), help="time between signs of life")
    add("--registry-ttl-s", type=_seconds(SECONDS_MAX), help="silence that makes a node down")
    add("--on-store-loss", choices=[*OnStoreLoss], help="what a check answers without a store")
    # Settings says each default once; taking them all also carries those without an option.
    defaults = {field.name: field.default for field in fields(Settings)}
    parser.set_defaults(**{k: v for k, v in defaults.items() if v is not MISSING})
    parser.set_defaults(sentinels=[])
    options = vars(parser.parse_args(argv))
    config_file: Path | None = options.get("config_file")
    if config_file is not None:
        # As if it stood first on the command line, so that the same checks apply.
        messages = [
            word
            for name, value in read_configuration(config_file).items()
            for word in (f"--{name.replace('_', '-')}", str(value))
        ]
        options = vars(parser.parse_args([*messages, *(sys.argv[1:] if argv is None else argv)]))
    options["sentinels"] = tuple(options["sentinels"])
    if options["registry_ttl_s"] <= options["heartbeat_s"]:
        parser.error("--registry-ttl-s must be greater than --heartbeat-s")
    password_file: Path | None = options.pop("store_password_file", None)
    if password_file is not None:
        try:
            options["store_password"] = password_file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            place = str(password_file)
            raise SystemExit(f"cannot read the store's password from {place!r}: {error}") from error
    options["on_store_loss"] = OnStoreLoss(options["on_store_loss"])
    return Settings(**options)


def _store_url(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in _STORE_SCHEMES or not parts.hostname or parts.query:
        # The text may hold a password, so the message does not repeat it.
        raise argparse.ArgumentTypeError("must look like valkey://HOST:PORT/DB")
    return text


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not (port.isascii() and port.isdigit() and 0 < int(port) <= 65_535):
        raise argparse.ArgumentTypeError(f"{text!r} does not look like HOST:PORT")
    return host.strip("[]"), int(port)


def _matching(pattern: re.Pattern[str]) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if not pattern.fullmatch(text):
            raise argparse.ArgumentTypeError(f"{text!r} does not match {pattern.pattern}")
        return text

    return parse


def _whole(highest: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not (text.isascii() and text.isdigit() and int(text) <= highest):
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number up to {highest}")
        return int(text)

    return parse


def _seconds(highest_s: float) -> Callable[[str], float]:
    def parse(text: str) -> float:
        try:
            value_s = float(text)
        except ValueError:
            value_s = math.nan
        if not 0.001 <= value_s <= highest_s:
            raise argparse.ArgumentTypeError(f"{text!r} is not between 0.001 and {highest_s} s")
        return value_s

    return parse
