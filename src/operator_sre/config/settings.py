"""The settings: where each comes from, and which values are valid."""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import platformdirs

from operator_protocols.domain.verdict import Mode
from operator_protocols.errors import ConfigError
from operator_sre.config.models import (
    AUTO,
    REASONER,
    RULE,
    ModelConfig,
    built_in_models,
    model_named,
    models_of,
)
from operator_sre.config.service import ServiceConfig, service_of
from operator_sre.config.subjects import SubjectConfig, subjects_of
from operator_sre.config.tables import NoticeConfig, notices_of, triggers_of, unknown
from operator_sre.ownership import must_be_trusted
from operator_sre.triggers.trigger import Trigger

__all__ = ["SETTINGS", "TABLES", "Config", "Setting", "load_config", "reread_subjects"]

FILE = "operator.toml"
POLICY_FILE = "policy.yaml"
PREFIX = "OPERATOR_"


def _number(low: float, high: float) -> Callable[[str], float]:
    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            raise ValueError(f"must be a number between {low:g} and {high:g}") from None
        if not low <= value <= high:
            raise ValueError(f"must be between {low:g} and {high:g}")
        return value

    return parse


def _one_of(*words: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in words:
            raise ValueError(f"must be one of {', '.join(words)}")
        return text

    return parse


def _switch(text: str) -> bool:
    if text not in {"0", "1"}:
        raise ValueError("must be 0 or 1")
    return text == "1"


def _address(text: str) -> str:
    host, _, port = text.rpartition(":")
    if text and not (host and port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise ValueError("must be an address such as 127.0.0.1:9464")
    return text


def _collector(text: str) -> str:
    url = urlsplit(text)
    if text and (url.scheme not in ("http", "https") or not url.hostname or url.query):
        raise ValueError("must be a URL such as http://127.0.0.1:4318")
    if url.username or url.password:
        raise ValueError("must not contain a secret; set otlp_token_file instead")
    return text


@dataclass(frozen=True, slots=True)
class Setting:
    """One key: its default, how its text is read, and what it means."""

    name: str
    default: str
    parse: Callable[[str], Any]
    meaning: str
    secret: bool = False


SETTINGS: tuple[Setting, ...] = (
    Setting("home", "", str, "directory of all state"),
    Setting("store", "", str, "postgresql:// URL to use instead of a file in home", secret=True),
    Setting("ledger_key", "", str, "file of the key that signs the ledger; empty: in home"),
    Setting("secrets_in", "auto", _one_of("auto", "file", "keyring"), "where secrets are stored"),
    Setting("secrets_key", "", str, "file of the key that encrypts secrets; empty: in home"),
    Setting("mode", "observe", _one_of(*Mode), "which actions run without approval"),
    Setting("policy", "", str, "policy file; empty: policy.yaml beside operator.toml, or in home"),
    Setting("profile", "standard", _one_of("standard", "lab"), "built-in policy profile"),
    Setting("sandbox", "bubblewrap", _one_of("bubblewrap", "docker"), "sandbox for scripts"),
    Setting("interval_s", "30", _number(0.2, 3600), "seconds between two checks of a subject"),
    Setting("timeout_s", "5", _number(0.1, 60), "timeout in seconds for observing one target"),
    Setting("stable_s", "0", _number(0, 3600), "seconds a repair must hold; 0: two intervals"),
    Setting("command_s", "300", _number(0.1, 600), "default timeout in seconds of a command"),
    Setting("deadline_s", "120", _number(1, 3600), "timeout in seconds for a proof"),
    Setting("approval_s", "300", _number(1, 86400), "seconds until an approval request expires"),
    Setting(
        "parked_s",
        "0",
        _number(0, 604800),
        "seconds a run stays parked while approval is pending; 0: off",
    ),
    Setting(
        "escalate_s",
        "0",
        _number(0, 604800),
        "seconds until a pending approval is escalated; 0: never",
    ),
    Setting("two_person", "0", _switch, "1: critical actions need two approvers"),
    Setting("self_approval", "1", _switch, "0: requesters cannot approve their own requests"),
    Setting("runs_max", "4", _number(1, 64), "tickets an agent works on in parallel"),
    Setting("changes_per_hour", "30", _number(1, 10000), "maximum changes of a subject per hour"),
    Setting(
        "targets_max",
        "0",
        _number(0, 10000),
        "maximum targets changed in 5 minutes; 0: a third of them",
    ),
    Setting("metrics", "", _address, "address that serves metrics, such as 127.0.0.1:9464"),
    Setting(
        "otlp_endpoint", "", _collector, "OTLP endpoint for traces, such as http://127.0.0.1:4318"
    ),
    Setting("otlp_token_file", "", str, "file with the token for otlp_endpoint"),
    Setting("heartbeat_url_file", "", str, "file with the URL that receives heartbeats"),
    Setting("heartbeat_s", "60", _number(1, 86400), "seconds between two heartbeats"),
    Setting("history_days", "7", _number(0.01, 3650), "days to keep observations"),
    Setting(
        "history_looks", "20000", _number(100, 10_000_000), "maximum observations kept per subject"
    ),
    Setting(
        "ledger_days",
        "0",
        _number(0, 36500),
        "days after which the service purges old ledger entries; 0: never",
    ),
    Setting("log_format", "text", _one_of("text", "json"), "format of log lines"),
    Setting(
        "log_level",
        "info",
        _one_of("debug", "info", "warning", "error"),
        "minimum level of log lines",
    ),
    Setting("anthropic_api_key", "", str, "API key for Claude; never shown", secret=True),
    Setting("anthropic_model", "claude-sonnet-5", str, "model name behind 'claude'"),
    Setting("model", AUTO, str, "model for agents; auto: Claude if a key is set, else reasoner"),
    Setting("guidance", "", str, "additional instructions for models"),
    Setting(
        "summary_model",
        AUTO,
        str,
        "model for summaries; auto: Claude Haiku if a key is set, else rule",
    ),
    Setting(
        "usd_per_day",
        "20",
        _number(0, 100_000),
        "maximum cost of all runs per day (UTC), in dollars",
    ),
    Setting(
        "tokens_per_day", "2000000", _number(0, 1e12), "maximum tokens of all runs per day (UTC)"
    ),
)
TABLES = ("models", "notify", "service", "subjects", "triggers")
_BY_NAME = {setting.name: setting for setting in SETTINGS}
# Variables that do not follow the pattern; the last one marks what an agent has started.
_OTHER_VARIABLES = {"OPERATOR_SAFETY_MODE", "OPERATOR_APPROVAL_MODE", "OPERATOR_TREE"}


@dataclass(frozen=True, slots=True)
class Config:
    """The effective settings, and where each came from; `written` has each as it was written."""

    values: Mapping[str, Any]
    sources: Mapping[str, str]
    subjects: tuple[SubjectConfig, ...]
    file: Path | None
    triggers: tuple[Trigger, ...] = ()
    notices: NoticeConfig = field(default_factory=NoticeConfig)
    models: tuple[ModelConfig, ...] = ()
    service: ServiceConfig = field(default_factory=ServiceConfig)
    written: Mapping[str, str] = field(default_factory=dict)

    @property
    def home(self) -> Path:
        """The directory of all state."""
        return Path(self.values["home"])

    @property
    def store(self) -> str | Path:
        """Where everything is remembered: a PostgreSQL URL, or a file in the home."""
        return str(self.values["store"]) or self.home / "operator.db"

    @property
    def ledger_key(self) -> Path:
        """The file of the key that signs the ledger."""
        named = str(self.values["ledger_key"])
        return Path(named).expanduser() if named else self.home / "ledger.key"

    @property
    def policy_files(self) -> tuple[Path, ...]:
        """Where a policy may lie; the first that exists counts."""
        if named := str(self.values["policy"]):
            path = Path(named).expanduser()
            if self.file and self.sources["policy"] == f"file {self.file}":
                return (self.file.parent / path,)
            return (path.absolute(),)
        folders = [self.file.parent] if self.file else []
        return tuple(folder / POLICY_FILE for folder in (*folders, self.home))

    @property
    def mode(self) -> Mode:
        """What runs without a person."""
        return Mode(self.values["mode"])

    @property
    def check_timeout_s(self) -> float:
        """How long a check of a whole subject may take; many targets need more time."""
        return max(3 * self.number("timeout_s"), self.number("interval_s"))

    def stable_of(self, subject: str) -> float:
        """How long a repair must hold: two intervals of it, at least 5 s, unless it is set."""
        return float(self.values["stable_s"] or max(5.0, 2 * self.interval_of(subject)))

    def interval_of(self, subject: str) -> float:
        """Seconds between two checks of a subject: a flag, its own interval, the setting."""
        own = next((config.interval_s for config in self.subjects if config.name == subject), None)
        flag = self.sources["interval_s"] == "flag"
        return self.number("interval_s") if own is None or flag else own

    def number(self, name: str) -> float:
        """A setting that is a number."""
        return float(self.values[name])


def load_config(
    *, flags: Mapping[str, str | None], environ: Mapping[str, str], cwd: Path
) -> Config:
    """The effective settings. Every unknown key is an error that names the nearest valid one."""
    places = [folder / FILE for folder in (cwd, *cwd.parents)]
    # Also a file that cannot be read: that is an error, not a missing file.
    file = next((place for place in places if os.path.lexists(place)), None)
    table = _read(file) if file else {}
    subjects = table.pop("subjects", {})
    triggers = triggers_of(table.pop("triggers", {}), file)
    notices = notices_of(table.pop("notify", {}), file)
    minds = table.pop("models", {})
    service = service_of(table.pop("service", {}), file)
    for name, value in table.items():
        if name not in _BY_NAME:
            raise unknown(name, [*_BY_NAME, *TABLES], str(file))
        if not isinstance(value, str | int | float) or isinstance(value, bool):
            raise ConfigError(f"{name!r} in {str(file)!r} must be a number or a string.")
    layers: list[tuple[str, Mapping[str, str]]] = [
        (f"file {file}", {name: str(value) for name, value in table.items()}),
        ("environment", _read_environment(environ)),
        ("flag", {name: text for name, text in flags.items() if text is not None}),
    ]
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    written: dict[str, str] = {}
    for setting in SETTINGS:
        text, source = setting.default, "default"
        for where, layer in layers:
            if setting.name in layer:
                text, source = layer[setting.name], where
        try:
            values[setting.name], sources[setting.name] = setting.parse(text), source
            written[setting.name] = text
        except ValueError as error:
            shown = "its value" if setting.secret else repr(text)
            raise ConfigError(
                f"{setting.name!r} is {shown} ({source}), but {error}.",
                next_step="See: operator config show",
            ) from error
    asks_first = environ.get("OPERATOR_APPROVAL_MODE") == "true"
    if asks_first and values["mode"] == Mode.EXECUTE and sources["mode"] != "flag":
        values["mode"], sources["mode"] = Mode.APPROVE.value, "environment"
    if not values["home"]:
        values["home"] = platformdirs.user_state_dir("operator-sre", appauthor=False)
    values["home"] = str(Path(values["home"]).expanduser().absolute())
    given = built_in_models(values["anthropic_model"], values["anthropic_api_key"])
    models = models_of(minds, file, environ=environ, given=given)
    model_named(values["model"], models, words=(AUTO, REASONER), setting="model")
    model_named(values["summary_model"], models, words=(AUTO, RULE), setting="summary_model")
    known = subjects_of(subjects, file)
    # Resolved from more than one source.
    written |= {name: str(values[name]) for name in ("home", "mode")}
    config = Config(values, sources, known, file, triggers, notices, models, service, written)
    # A user who can write there decides what has been approved.
    must_be_trusted(config.store if isinstance(config.store, Path) else config.home, ConfigError)
    return config


def reread_subjects(config: Config) -> Config:
    """The same settings with the subjects that its file describes by now."""
    if config.file is None:
        return config
    subjects = _read(config.file).get("subjects", {})
    return replace(config, subjects=subjects_of(subjects, config.file))


def _read(file: Path) -> dict[str, Any]:
    must_be_trusted(file, ConfigError)
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{str(file)!r} cannot be read: {error}.") from error


def _read_environment(environ: Mapping[str, str]) -> dict[str, str]:
    texts: dict[str, str] = {}
    names = {f"{PREFIX}{name.upper()}": name for name in _BY_NAME}
    valid = [*names, *sorted(_OTHER_VARIABLES)]
    for variable, text in environ.items():
        if variable in names:
            texts[names[variable]] = text
        elif (
            variable.startswith(PREFIX)
            and variable not in valid
            # Other programs use our prefix too: only what is almost a name is a mistake.
            and difflib.get_close_matches(variable, valid, n=1, cutoff=0.85)
        ):
            raise unknown(variable, valid, "the environment")
    if key := environ.get("ANTHROPIC_API_KEY"):
        texts.setdefault("anthropic_api_key", key)
    safety = environ.get("OPERATOR_SAFETY_MODE", "")
    approval = environ.get("OPERATOR_APPROVAL_MODE", "")
    if safety not in {"", "observe", "execute"}:
        raise ConfigError(f"OPERATOR_SAFETY_MODE is {safety!r}; it must be observe or execute.")
    if approval not in {"", "true", "false"}:
        raise ConfigError(f"OPERATOR_APPROVAL_MODE is {approval!r}; it must be true or false.")
    if not safety:
        return texts
    mode = Mode.OBSERVE
    if safety == "execute":
        mode = Mode.APPROVE if approval == "true" else Mode.EXECUTE
    if texts.setdefault("mode", mode) != mode:
        raise ConfigError(
            f"OPERATOR_MODE={texts['mode']} contradicts OPERATOR_SAFETY_MODE and"
            f" OPERATOR_APPROVAL_MODE, which mean {mode}.",
            next_step="Unset one of them.",
        )
    return texts
