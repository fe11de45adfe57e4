"""A campaign: its scenarios, agents, and variants as files describe them."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from operator_protocols.domain.action import SHELL
from operator_protocols.domain.budget import Budget
from operator_protocols.domain.verdict import Mode
from operator_protocols.errors import ConfigError, NotFoundError, UsageError
from operator_protocols.ports import CorrectOutcome
from operator_sre.config import SETTINGS
from operator_sre.config.tables import unknown

__all__ = [
    "BUDGET",
    "BUILT_IN",
    "FOLDER",
    "Campaign",
    "Control",
    "Kit",
    "Mind",
    "Planned",
    "Scenario",
    "Variant",
    "budgets_of",
    "denied_tools",
    "read_variant",
    "settings_of",
    "variant_from",
    "variant_named",
]


class Control(StrEnum):
    """A scenario in which nothing is left to repair, so that every repair is wrong."""

    NOTHING = "nothing"
    RECOVERED = "already_recovered"  # it was down, and is back when the agent checks
    NOISY = "noisy_but_healthy"  # short pauses everywhere, and no invariant is broken
    MISLEADING = "misleading_alert"  # another monitor reports that a part is down
    MAINTENANCE = "planned_maintenance"  # a part is down, as people have announced


class Mind(StrEnum):
    """Who works on the tickets of a trial."""

    NONE = "none"  # no agent: does it heal by itself?
    RESTART = "restart-everything"
    RANDOM = "random"
    REASONER = "reasoner"
    ORACLE = "oracle"  # it knows the fault
    MODEL = "model"  # a configured model, named by `model`
    TRANSCRIPT = "transcript"  # the recorded answers of an agent, repeated


class Kit(StrEnum):
    """What an agent works with: typed tools, the shell, or both."""

    TOOLS = "tools"
    SHELL = "shell"
    BOTH = "both"


@dataclass(frozen=True, slots=True)
class Variant:
    """A set-up of the agent: its model, and every setting that differs from the usual."""

    name: str
    mind: Mind = Mind.REASONER
    model: str = ""
    prompt: str = ""  # added to the instructions of a model
    tools: tuple[str, ...] = ()  # only these, where any are named
    kit: Kit = Kit.BOTH
    mode: str = "execute"
    transcript: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)  # of operator.toml, such as budgets


@dataclass(frozen=True, slots=True)
class Scenario:
    """A fault of a subject and what has to become of it; or a Control, or a control of a subject.

    `breaks` are the invariants that it breaks, a control only for a moment; `truths` the causes
    that rightly explain it as `cause@hit`, `cause@any` or `cause@NAME`. `apart` is True for a fault
    that causes were written without, `alone` for a trial that a busy neighbour would break as well.
    """

    subject: str
    fault: str
    end: CorrectOutcome | None = None
    breaks: tuple[str, ...] = ()
    truths: tuple[str, ...] = ()
    apart: bool = False
    alone: bool = False

    @property
    def name(self) -> str:
        """How people call it."""
        return f"{self.subject}:{self.fault}"

    @property
    def is_control(self) -> bool:
        """True when nothing is broken, so that nothing may be repaired."""
        return self.end is None

    @property
    def has_ticket(self) -> bool:
        """Whether a ticket is in order: always of a fault, and where a control gives reason."""
        given = self.fault in (Control.RECOVERED, Control.MISLEADING)
        return not self.is_control or given or bool(self.breaks)


@dataclass(frozen=True, slots=True)
class Planned:
    """One trial that is to be done: everything that makes it repeatable."""

    scenario: Scenario
    variant: str
    seed: int

    @property
    def key(self) -> str:
        """The same for the same trial of a campaign, in every process."""
        return f"{self.scenario.name}/{self.variant}/{self.seed}"


@dataclass(frozen=True, slots=True)
class Campaign:
    """A matrix of trials with its limits, as a file describes it or a command line asks for it.

    `seeds` says how many trials a variant has of each scenario, by the name of the variant.
    """

    name: str
    scenarios: tuple[Scenario, ...]
    variants: tuple[Variant, ...]
    seeds: Mapping[str, int]
    first_seed: int = 0
    parallel: int = 1
    interval_s: float = 2.0
    stable_s: float = 5.0
    hold_s: float = 6.0
    cool_down_s: float = 0.0
    well_s_max: float = 40.0
    detect_s_max: float = 120.0
    end_s_max: float = 150.0
    control_s: float = 20.0
    noise: tuple[str, ...] = ()  # faults that are done beside, healed by the harness itself
    trials_max: int = 5000
    well_looks: int = 3  # healthy checks in a row before a fault
    reuse_rigs: bool = False  # a healed and healthy rig serves the next trial
    usd_max: float = 0.0  # 0: no money may be spent


FOLDER = "variants"
VARIANT_BYTES_MAX = 100_000
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
_VARIANT_KEYS = tuple(field.name for field in fields(Variant))


def variant_named(word: str, folders: Sequence[Path]) -> Variant:
    """A variant by its name or the path of its file; NotFoundError names those there are."""
    if word in BUILT_IN:
        return BUILT_IN[word]
    if word.endswith(".toml"):
        places = [folder.parent / word for folder in folders]
        return read_variant(next((place for place in places if place.is_file()), Path(word)))
    found = {path.stem: path for folder in folders for path in sorted(folder.glob("*.toml"))}
    if word in found:
        return read_variant(found[word])
    known = ", ".join([*BUILT_IN, *sorted(found)])
    raise NotFoundError(f"There is no variant {word!r}.", next_step=f"Variants: {known}.")


def read_variant(path: Path) -> Variant:
    """One variant as its file tells; its name is that of the file unless it says so."""
    try:
        if path.stat().st_size > VARIANT_BYTES_MAX:
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
        raise ConfigError(f"A variant in {place} must be a table with a name.")
    for key in table:
        if key not in _VARIANT_KEYS:
            raise unknown(str(key), _VARIANT_KEYS, place)
    for key in ("name", "model", "prompt", "mode", "transcript", "kit"):
        if not isinstance(table.get(key, ""), str):
            raise ConfigError(f"{key!r} of the variant in {place} must be a text.")
    tools = table.get("tools", [])
    if not isinstance(tools, list) or not all(isinstance(tool, str) for tool in tools):
        raise ConfigError(f"'tools' of the variant in {place} must be a list of names.")
    word = table.get("mode", Mode.EXECUTE.value)
    if word not in tuple(Mode):
        raise ConfigError(f"'mode' of the variant in {place} must be one of {', '.join(Mode)}.")
    kit = table.get("kit", Kit.BOTH.value)
    if kit not in tuple(Kit):
        raise ConfigError(f"'kit' of the variant in {place} must be one of {', '.join(Kit)}.")
    implied = Mind.TRANSCRIPT if table.get("transcript") else Mind.REASONER
    mind_name = table.get("mind")
    if mind_name is None:
        mind_name = Mind.MODEL if table.get("model") else implied
    if mind_name not in tuple(Mind):
        raise ConfigError(
            f"'mind' of the variant in {place} is {mind_name!r}.",
            next_step=f"Valid values: {', '.join(Mind)}.",
        )
    mind = Mind(mind_name)
    settings = _parse_settings(table.get("settings", {}), place)
    # A model has what it needs, and nothing that it would silently ignore.
    for key, user in (("model", Mind.MODEL), ("transcript", Mind.TRANSCRIPT)):
        if bool(table.get(key)) != (mind is user):
            verb = "needs" if mind is user else "does not take"
            raise ConfigError(f"{mind.value!r} in {place} {verb} {key!r}.")
    if table.get("prompt") and mind is not Mind.MODEL:
        raise ConfigError(f"{mind.value!r} in {place} does not take 'prompt'.")
    return Variant(
        name=table["name"],
        mind=mind,
        model=table.get("model", ""),
        prompt=table.get("prompt", ""),
        tools=tuple(tools),
        kit=Kit(kit),
        mode=word,
        transcript=table.get("transcript", ""),
        settings=settings,
    )


def denied_tools(variant: Variant, known: Collection[str]) -> list[str]:
    """The tools that a variant may not use, of these that there are and the shell."""
    denied = {name for name in known if variant.tools and name not in variant.tools}
    if variant.kit is Kit.SHELL:
        denied |= set(known)
    elif variant.kit is Kit.TOOLS:
        denied.add(SHELL)
    return sorted(denied)


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


def _parse_settings(table: Any, place: str) -> dict[str, str]:
    if not isinstance(table, Mapping):
        raise ConfigError(f"'settings' of the variant in {place} must be a table.")
    inner = table.get("budget")
    if isinstance(inner, Mapping):
        # `[settings.budget] turns_max = 5` says the same as `"budget.turns_max" = 5`.
        rest = {key: value for key, value in table.items() if key != "budget"}
        table = {**rest, **{f"{BUDGET}{key}": value for key, value in inner.items()}}
    able = [setting.name for setting in SETTINGS if setting.name not in _OWN and not setting.secret]
    limits = [f"{BUDGET}{field.name}" for field in fields(Budget)]
    settings = {}
    for key, value in table.items():
        if key not in (*able, *limits):
            raise unknown(key, [*able, *limits], f"'settings' of the variant in {place}")
        if not isinstance(value, str | int | float) or isinstance(value, bool):
            raise ConfigError(f"{key!r} of the variant in {place} must be a number or a text.")
        if key in limits and not isinstance(value, int | float):
            raise ConfigError(f"{key!r} of the variant in {place} must be a number.")
        settings[key] = str(value)
    return settings
