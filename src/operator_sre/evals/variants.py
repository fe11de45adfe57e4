"""Variants: those that are built in, and those that files describe."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from operator_protocols.domain.budget import Budget
from operator_protocols.domain.verdict import Mode
from operator_protocols.errors import ConfigError, NotFoundError, UsageError
from operator_sre.config import SETTINGS
from operator_sre.config.tables import unknown
from operator_sre.evals.campaign import Mind, Variant

__all__ = [
    "BUDGET",
    "BUILT_IN",
    "FOLDER",
    "budgets_of",
    "read_variant",
    "settings_of",
    "variant_from",
    "variant_named",
]

FOLDER = "variants"
FILE_BYTES_MAX = 100_000
# What precedes a limit of a run among the settings of a variant, such as budget.turns_max.
BUDGET = "budget."
BUILT_IN: Mapping[str, Variant] = {
    mind.value: Variant(mind.value, mind)
    for mind in (Mind.NONE, Mind.RESTART, Mind.RANDOM, Mind.REASONER, Mind.ORACLE)
}
# A trial sets these itself, so that all variants have the same.
_OWN = frozenset(
    {"home", "store", "ledger_key", "mode", "model", "interval_s", "stable_s", "policy", "profile"}
)
_KEYS = tuple(one.name for one in fields(Variant))


def variant_named(word: str, folders: Sequence[Path]) -> Variant:
    """A variant by its name or the path of its file; NotFoundError names those there are."""
    if word in BUILT_IN:
        return BUILT_IN[word]
    if word.endswith(".toml"):
        places = [folder.parent / word for folder in folders]
        return read_variant(next((one for one in places if one.is_file()), Path(word)))
    found = {path.stem: path for folder in folders for path in sorted(folder.glob("*.toml"))}
    if word in found:
        return read_variant(found[word])
    known = ", ".join([*BUILT_IN, *sorted(found)])
    raise NotFoundError(f"There is no variant {word!r}.", next_step=f"Variants: {known}.")


def read_variant(path: Path) -> Variant:
    """One variant as its file tells; its name is that of the file unless it says so."""
    try:
        if path.stat().st_size > FILE_BYTES_MAX:
            raise UsageError(f"The variant {str(path)!r} is too long.")
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise ConfigError(f"The variant {str(path)!r} cannot be read: {why}.") from error
    made = variant_from({"name": path.stem, **table}, str(path))
    if made.transcript and not Path(made.transcript).is_absolute():
        made = replace(made, transcript=str(path.parent.absolute() / made.transcript))
    return made


def variant_from(table: Any, place: str) -> Variant:
    """A variant out of a table; ConfigError with the first thing that makes no sense."""
    if not isinstance(table, Mapping) or not isinstance(table.get("name"), str):
        raise ConfigError(f"A variant in {place} has to be a table with a name.")
    for key in table:
        if key not in _KEYS:
            raise unknown(str(key), _KEYS, place)
    for key in ("name", "model", "prompt", "mode", "transcript"):
        if not isinstance(table.get(key, ""), str):
            raise ConfigError(f"{key!r} of the variant in {place} has to be a text.")
    tools = table.get("tools", [])
    if not isinstance(tools, list) or not all(isinstance(one, str) for one in tools):
        raise ConfigError(f"'tools' of the variant in {place} has to be a list of names.")
    made = Variant(
        name=table["name"],
        mind=_mind(table, place),
        model=table.get("model", ""),
        prompt=table.get("prompt", ""),
        tools=tuple(tools),
        mode=_mode(table.get("mode", Mode.EXECUTE.value), place),
        transcript=table.get("transcript", ""),
        settings=_settings(table.get("settings", {}), place),
    )
    _agree(made, place)
    return made


def settings_of(variant: Variant) -> dict[str, str]:
    """What of its settings belongs into operator.toml."""
    return {key: text for key, text in variant.settings.items() if not key.startswith(BUDGET)}


def budgets_of(variant: Variant) -> dict[str, float]:
    """The limits of a run among its settings."""
    return {
        key.removeprefix(BUDGET): float(text)
        for key, text in variant.settings.items()
        if key.startswith(BUDGET)
    }


def _mind(table: Mapping[str, Any], place: str) -> Mind:
    word = table.get("mind")
    if word is None:
        implied = Mind.TRANSCRIPT if table.get("transcript") else Mind.REASONER
        return Mind.MODEL if table.get("model") else implied
    try:
        return Mind(word)
    except ValueError:
        minds = ", ".join(Mind)
        raise ConfigError(
            f"'mind' of the variant in {place} is {word!r}.", next_step=f"Minds: {minds}."
        ) from None


def _mode(word: str, place: str) -> str:
    if word not in tuple(Mode):
        raise ConfigError(f"'mode' of the variant in {place} has to be one of {', '.join(Mode)}.")
    return word


def _settings(table: Any, place: str) -> dict[str, str]:
    if not isinstance(table, Mapping):
        raise ConfigError(f"'settings' of the variant in {place} has to be a table.")
    able = [one.name for one in SETTINGS if one.name not in _OWN and not one.secret]
    limits = [f"{BUDGET}{one.name}" for one in fields(Budget)]
    found = {}
    for key, value in _flat(table).items():
        if key not in (*able, *limits):
            raise unknown(key, [*able, *limits], f"'settings' of the variant in {place}")
        if not isinstance(value, str | int | float) or isinstance(value, bool):
            raise ConfigError(f"{key!r} of the variant in {place} has to be a number or a text.")
        if key in limits and not isinstance(value, int | float):
            raise ConfigError(f"{key!r} of the variant in {place} has to be a number.")
        found[key] = str(value)
    return found


def _flat(table: Mapping[str, Any]) -> dict[str, Any]:
    """`[settings.budget] turns_max = 5` says the same as `"budget.turns_max" = 5`."""
    inner = table.get("budget")
    if not isinstance(inner, Mapping):
        return dict(table)
    rest = {key: value for key, value in table.items() if key != "budget"}
    return {**rest, **{f"{BUDGET}{key}": value for key, value in inner.items()}}


def _agree(variant: Variant, place: str) -> None:
    """A mind has what it needs, and nothing that it would pass over in silence."""
    needs = {Mind.MODEL: "model", Mind.TRANSCRIPT: "transcript"}
    for mind, key in needs.items():
        given = bool(getattr(variant, key))
        if given != (variant.mind is mind):
            word = "needs" if variant.mind is mind else "has no use for"
            raise ConfigError(f"The mind {variant.mind.value!r} in {place} {word} {key!r}.")
    if variant.prompt and variant.mind is not Mind.MODEL:
        raise ConfigError(f"The mind {variant.mind.value!r} in {place} has no use for 'prompt'.")
