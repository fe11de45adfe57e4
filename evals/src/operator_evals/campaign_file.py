"""The scenarios of a campaign, and the file that describes one."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from operator_evals.campaign import (
    FOLDER,
    Campaign,
    Control,
    Planned,
    Scenario,
    Variant,
    variant_from,
    variant_named,
)
from operator_protocols.errors import (
    ConfigError,
    MissingExtraError,
    NotFoundError,
    RigError,
    UsageError,
)
from operator_sre.config.tables import unknown
from operator_sre.plugins import find_plugin, plugin_names

__all__ = ["choose", "plan_trials", "read_campaign", "scenarios_of", "variant_folders"]

# What such an invariant says, a busy neighbour would break as well.
OF_SPEED = ("latency", "slow")
# Every third fault, by name, is held out: causes are written without knowledge of it.
APART_EACH = 3


def scenarios_of(subject: str) -> tuple[Scenario, ...]:
    """All scenarios of a subject, its controls last; none where it has no rig."""
    plugin = find_plugin(subject)
    if plugin.rig is None and plugin.stack is None:
        return ()
    ordered = sorted(plugin.faults, key=lambda fault: fault.name)
    broken = [
        Scenario(
            subject=plugin.name,
            fault=fault.name,
            end=fault.end,
            breaks=fault.breaks,
            truths=plugin.truths.get(fault.name, ()),
            apart=number % APART_EACH == APART_EACH - 1,
            alone=any(word in fault.breaks[0] for word in OF_SPEED),
        )
        for number, fault in enumerate(ordered)
    ]
    own = (Scenario(subject, each.name, breaks=each.breaks) for each in plugin.controls)
    return (*broken, *own, *(Scenario(subject, control.value) for control in Control))


def choose(words: Iterable[str]) -> tuple[Scenario, ...]:
    """What words such as `SUBJECT` or `SUBJECT:FAULT` name, each once.

    Where none is given, all whose processes can be had on this machine.
    """
    wanted = list(words)
    if not wanted:
        for name in plugin_names():
            rig = find_plugin(name).rig
            if rig is None:
                continue
            try:
                rig()
            except RigError:
                continue
            except MissingExtraError:
                pass  # it is reported when the rig is made, and not passed over here
            wanted.append(name)
    chosen: dict[str, Scenario] = {}
    for word in wanted:
        subject, _, fault = word.partition(":")
        known = scenarios_of(subject)
        if not known:
            raise UsageError(f"The subject {subject!r} has no rig, so nothing can be broken.")
        named = {scenario.name: scenario for scenario in known if fault in ("", scenario.fault)}
        if not named:
            faults = ", ".join(scenario.fault for scenario in known)
            raise NotFoundError(
                f"{subject!r} has no fault {fault!r}.", next_step=f"Faults: {faults}."
            )
        chosen |= named
    return tuple(chosen.values())


def plan_trials(campaign: Campaign) -> tuple[Planned, ...]:
    """Every trial of a campaign: first all with one seed, then all with the next."""
    first = campaign.first_seed
    found = [
        Planned(scenario, variant.name, first + number)
        for number in range(max(campaign.seeds.values(), default=0))
        for scenario in campaign.scenarios
        for variant in campaign.variants
        if number < campaign.seeds.get(variant.name, 0)
    ]
    if len(found) > campaign.trials_max:
        raise UsageError(
            f"The campaign has {len(found)} trials, at most {campaign.trials_max} are allowed.",
            next_step="Name fewer scenarios or seeds, or raise 'trials_max'.",
        )
    return tuple(found)


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
_KEYS = (
    *("name", "scenarios", "subjects", "faults", "variants", "seeds", "noise", "reuse_rigs"),
    *_NUMBERS,
)


def read_campaign(path: Path) -> Campaign:
    """The campaign that a file describes; ConfigError with the first thing that makes no sense."""
    try:
        if path.stat().st_size > FILE_BYTES_MAX:
            raise UsageError(f"The campaign {str(path)!r} is too long.")
        text = path.read_text(encoding="utf-8")
        table = _parse_yaml(text) if path.suffix in _YAML else tomllib.loads(text)
    except (OSError, UnicodeDecodeError, ValueError) as error:
        why = getattr(error, "strerror", None) or " ".join(str(error).split())
        raise ConfigError(
            f"The campaign {str(path)!r} cannot be read: {why}.",
            next_step="Write it in TOML, or in YAML with a name that ends in .yaml.",
        ) from error
    if not isinstance(table, Mapping):
        raise ConfigError(f"The campaign {str(path)!r} must be a table of settings.")
    place = repr(str(path))
    for key in table:
        if key not in _KEYS:
            raise unknown(str(key), _KEYS, place)
    listed = ["reasoner"] if table.get("variants") is None else table["variants"]
    if not isinstance(listed, list) or not listed:
        raise ConfigError(f"'variants' in {place} must be a list of names or tables.")
    folders = variant_folders(path)
    variants = tuple(
        variant_named(item, folders) if isinstance(item, str) else variant_from(item, place)
        for item in listed
    )
    if len({variant.name for variant in variants}) < len(variants):
        raise ConfigError(f"{place} has two variants of the same name.")
    name = table.get("name", path.stem)
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ConfigError(
            f"The name of the campaign in {place} must consist of letters, digits, '.', '-', '_'."
        )
    words = _parse_words(table, "scenarios", place)
    subjects = _parse_words(table, "subjects", place)
    faults = _parse_words(table, "faults", place)
    if faults and not subjects:
        raise ConfigError(f"{place} names faults but no subjects.")
    if not faults:
        words += subjects
    known = {scenario.name for subject in subjects if faults for scenario in scenarios_of(subject)}
    for fault in faults:
        if not any(f"{subject}:{fault}" in known for subject in subjects):
            raise NotFoundError(f"None of the subjects in {place} has a fault {fault!r}.")
    crossed = (f"{subject}:{fault}" for subject in subjects for fault in faults)
    words += tuple(word for word in crossed if word in known)
    if not words:
        raise ConfigError(
            f"{place} names no scenarios.", next_step='Such as scenarios = ["SUBJECT:FAULT"].'
        )
    reuse_rigs = table.get("reuse_rigs", False)
    if not isinstance(reuse_rigs, bool):
        raise ConfigError(f"'reuse_rigs' in {place} must be true or false.")
    return Campaign(
        name=name,
        reuse_rigs=reuse_rigs,
        scenarios=choose(words),
        variants=variants,
        seeds=_parse_seeds(table.get("seeds", 1), variants, place),
        noise=_parse_words(table, "noise", place),
        **{key: _parse_number(key, table[key], place) for key in _NUMBERS if key in table},
    )


def variant_folders(path: Path) -> tuple[Path, ...]:
    """Where the variants lie that a campaign file names: beside it, and in the project."""
    return (path.absolute().parent / FOLDER, Path.cwd() / "evals" / FOLDER)


def _parse_yaml(text: str) -> Any:
    import yaml

    try:
        # Aliases could make a small file large.
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, yaml.SafeLoader)):
            raise ValueError("it contains an alias")
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


def _parse_seeds(counts: Any, variants: Sequence[Variant], place: str) -> dict[str, int]:
    """How many trials each variant has of a scenario: one number for all, or one for each."""
    names = [variant.name for variant in variants]
    if isinstance(counts, Mapping):
        for name in counts:
            if name not in names:
                raise unknown(str(name), names, f"'seeds' in {place}")
        seeds = {name: counts.get(name, 1) for name in names}
    else:
        seeds = dict.fromkeys(names, counts)
    for count in seeds.values():
        if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count <= SEEDS_MAX:
            raise ConfigError(f"'seeds' in {place} must be between 0 and {SEEDS_MAX}.")
    return seeds


def _parse_words(table: Mapping[str, Any], key: str, place: str) -> tuple[str, ...]:
    words = table.get(key, [])
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise ConfigError(f"{key!r} in {place} must be a list of texts.")
    return tuple(words)


def _parse_number(key: str, value: Any, place: str) -> Any:
    rule = _NUMBERS[key]
    fits = isinstance(value, int) if rule.whole else isinstance(value, int | float)
    if not fits or isinstance(value, bool) or not rule.low <= value <= rule.high:
        kind = "a whole number" if rule.whole else "a number"
        raise ConfigError(
            f"{key!r} in {place} must be {kind} between {rule.low:g} and {rule.high:g}."
        )
    return value if rule.whole else float(value)
