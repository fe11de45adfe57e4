"""Campaigns as files describe them, TOML or YAML; every mistake before the first trial."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from operator_protocols.errors import ConfigError, NotFoundError, UsageError
from operator_sre.config.tables import unknown
from operator_sre.evals.campaign import Campaign, Scenario, Variant
from operator_sre.evals.scenarios import choose, scenarios_of
from operator_sre.evals.variants import FOLDER, variant_from, variant_named

__all__ = ["read_campaign", "variant_folders"]

FILE_BYTES_MAX = 1_000_000
PARALLEL_MAX = 64
SEEDS_MAX = 1000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_YAML = (".yaml", ".yml")


@dataclass(frozen=True, slots=True)
class _Number:
    """What a number of a campaign may be."""

    low: float
    high: float
    whole: bool = False


_NUMBERS: Mapping[str, _Number] = {
    "first_seed": _Number(0, 2**31, whole=True),
    "parallel": _Number(1, PARALLEL_MAX, whole=True),
    "trials_max": _Number(1, 100_000, whole=True),
    "interval_s": _Number(0.2, 60),
    "stable_s": _Number(0, 600),
    "hold_s": _Number(0, 600),
    "cool_down_s": _Number(0, 600),
    "well_s_max": _Number(1, 600),
    "detect_s_max": _Number(1, 3600),
    "end_s_max": _Number(1, 3600),
    "control_s": _Number(1, 3600),
    "usd_max": _Number(0, 100_000),
}
_KEYS = ("name", "scenarios", "subjects", "faults", "variants", "seeds", "noise", *_NUMBERS)


def read_campaign(path: Path) -> Campaign:
    """The campaign that a file describes; ConfigError with the first thing that makes no sense."""
    table = _table(path)
    place = repr(str(path))
    for key in table:
        if key not in _KEYS:
            raise unknown(str(key), _KEYS, place)
    variants = _variants(table.get("variants"), path, place)
    return Campaign(
        name=_name(table.get("name", path.stem), place),
        scenarios=_scenarios(table, place),
        variants=variants,
        seeds=_seeds(table.get("seeds", 1), variants, place),
        noise=_words(table, "noise", place),
        **{key: _number(key, table[key], place) for key in _NUMBERS if key in table},
    )


def variant_folders(path: Path) -> tuple[Path, ...]:
    """Where the variants lie that a campaign file names: beside it, and in the project."""
    return (path.absolute().parent / FOLDER, Path.cwd() / "evals" / FOLDER)


def _table(path: Path) -> Mapping[str, Any]:
    try:
        if path.stat().st_size > FILE_BYTES_MAX:
            raise UsageError(f"The campaign {str(path)!r} is too long.")
        text = path.read_text(encoding="utf-8")
        read = _from_yaml(text) if path.suffix in _YAML else tomllib.loads(text)
    except (OSError, UnicodeDecodeError, ValueError) as error:
        why = getattr(error, "strerror", None) or " ".join(str(error).split())
        raise ConfigError(
            f"The campaign {str(path)!r} cannot be read: {why}.",
            next_step="It is TOML, or YAML where its name ends so.",
        ) from error
    if not isinstance(read, Mapping):
        raise ConfigError(f"The campaign {str(path)!r} has to be a table of settings.")
    return read


def _from_yaml(text: str) -> Any:
    import yaml

    try:
        # Aliases could make a small file large.
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, yaml.SafeLoader)):
            raise ValueError("it has an alias in it")
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


def _name(name: Any, place: str) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ConfigError(
            f"The name of the campaign in {place} has to be of letters, digits, '.', '-', '_'."
        )
    return name


def _scenarios(table: Mapping[str, Any], place: str) -> tuple[Scenario, ...]:
    """What is named one by one, and what subjects and faults name together."""
    listed = _words(table, "scenarios", place)
    subjects, faults = _words(table, "subjects", place), _words(table, "faults", place)
    if faults and not subjects:
        raise ConfigError(f"{place} names faults and no subjects.")
    crossed = [word for subject in subjects for word in _crossed(subject, faults)]
    for fault in faults:
        if not any(word.endswith(f":{fault}") for word in crossed):
            raise NotFoundError(f"None of the subjects in {place} has a fault {fault!r}.")
    if not listed and not crossed:
        raise ConfigError(
            f"{place} names no scenarios.", next_step='Such as scenarios = ["SUBJECT:FAULT"].'
        )
    return choose([*listed, *crossed])


def _crossed(subject: str, faults: Sequence[str]) -> list[str]:
    if not faults:
        return [subject]
    known = [one.fault for one in scenarios_of(subject)]
    return [f"{subject}:{fault}" for fault in faults if fault in known]


def _variants(told: Any, path: Path, place: str) -> tuple[Variant, ...]:
    if told is None:
        told = ["reasoner"]
    if not isinstance(told, list) or not told:
        raise ConfigError(f"'variants' in {place} has to be a list of names or tables.")
    folders = variant_folders(path)
    found = [
        variant_named(one, folders) if isinstance(one, str) else variant_from(one, place)
        for one in told
    ]
    names = [one.name for one in found]
    if len(set(names)) < len(names):
        raise ConfigError(f"{place} has two variants of the same name.")
    return tuple(found)


def _seeds(told: Any, variants: Sequence[Variant], place: str) -> dict[str, int]:
    """How many trials each variant has of a scenario: one number for all, or one for each."""
    names = [one.name for one in variants]
    if not isinstance(told, Mapping):
        return dict.fromkeys(names, _count(told, place))
    for name in told:
        if name not in names:
            raise unknown(str(name), names, f"'seeds' in {place}")
    return {name: _count(told.get(name, 1), place) for name in names}


def _count(value: Any, place: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= SEEDS_MAX:
        raise ConfigError(f"'seeds' in {place} has to be between 0 and {SEEDS_MAX}.")
    return value


def _words(table: Mapping[str, Any], key: str, place: str) -> tuple[str, ...]:
    told = table.get(key, [])
    if not isinstance(told, list) or not all(isinstance(one, str) for one in told):
        raise ConfigError(f"{key!r} in {place} has to be a list of texts.")
    return tuple(told)


def _number(key: str, value: Any, place: str) -> Any:
    rule = _NUMBERS[key]
    fits = isinstance(value, int) if rule.whole else isinstance(value, int | float)
    if not fits or isinstance(value, bool) or not rule.low <= value <= rule.high:
        kind = "a whole number" if rule.whole else "a number"
        raise ConfigError(
            f"{key!r} in {place} has to be {kind} between {rule.low:g} and {rule.high:g}."
        )
    return value if rule.whole else float(value)
