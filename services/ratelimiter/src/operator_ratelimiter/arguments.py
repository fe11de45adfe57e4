"""The command line of one node, read into Settings."""

import argparse
import math
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from urllib.parse import urlsplit

from operator_ratelimiter.settings import (
    KEY_PREFIX_PATTERN,
    LIMIT_MAX,
    SECONDS_MAX,
    OnStoreLoss,
    Settings,
    read_configuration,
)

__all__ = ["parse_settings"]

_STORE_SCHEMES = ("valkey", "valkeys", "redis", "rediss")
_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
_KEY_PREFIX = re.compile(KEY_PREFIX_PATTERN)
# A caller never waits a second for a lost store, so the store gets a little less.
_STORE_TIMEOUT_S_MAX = 0.9


def parse_settings(argv: Sequence[str] | None) -> Settings:
    """Read the command line; exits with a message when it makes no sense."""
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
