"""Monitor and agent of a demo's home, each started as a person would start it."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from operator_sre.app.demo.events import Part
from operator_sre.app.wiring import App
from operator_sre.config import Config
from operator_sre.lab.crew import Crew

__all__ = ["crew_files", "crew_programs", "start_crew"]

FOLDER = "crew"
# What a demo sets for all of its processes; nothing here could be a secret.
_SETTINGS = (
    "anthropic_model",
    "approval_s",
    "deadline_s",
    "interval_s",
    "profile",
    "stable_s",
    "timeout_s",
    "tokens_per_day",
    "usd_per_day",
)
_KEYS = ("ANTHROPIC_API_KEY", "OPERATOR_ANTHROPIC_API_KEY")


async def start_crew(app: App, subject: str, command: Sequence[str]) -> Crew:
    """Start both; they end with this process at the latest. `command` is how we are called."""
    config = app.config
    env = {f"OPERATOR_{name.upper()}": f"{config.values[name]}" for name in _SETTINGS}
    keys = [*_KEYS, *(one.key_env for one in config.models if one.key_env)]
    return await Crew.up(
        config.home / FOLDER,
        crew_programs(config, subject, command),
        env={**env, "OPERATOR_LOG_LEVEL": "warning"},
        inherits=tuple(dict.fromkeys(keys)),
        files=crew_files(config),
    )


def crew_programs(
    config: Config, subject: str, command: Sequence[str]
) -> dict[str, tuple[str, ...]]:
    """The words of each."""
    home = ("--home", str(config.home))
    return {
        Part.MONITOR: (*command, "monitor", "run", "--subject", subject, "--tell", *home),
        Part.AGENT: (
            *(*command, "agent", "start", "--tell", "--mode", config.mode.value),
            *("--model", _model_of(config), *home),
        ),
    }


def crew_files(config: Config) -> dict[str, str]:
    """What they find where they are started.

    Also an operator.toml without a word in it: it keeps them from finding that of the viewer.
    """
    return {"operator.toml": _models_text(config)}


def _model_of(config: Config) -> str:
    """Who thinks, as it is said from another folder."""
    kind, colon, path = str(config.values["model"]).partition(":")
    return f"{kind}:{Path(path).absolute()}" if colon else kind


def _models_text(config: Config) -> str:
    """The minds that operator.toml describes, and nothing else of it."""
    if config.file is None:
        return ""
    told = tomllib.loads(config.file.read_text(encoding="utf-8")).get("models", {})
    return "".join(_table(name, table, config.file.parent) for name, table in told.items())


def _table(name: str, table: Mapping[str, Any], beside: Path) -> str:
    lines = [f"[models.{json.dumps(name)}]"]
    for key, value in table.items():
        text = str(beside / value) if key == "key_file" else value
        lines.append(f"{json.dumps(key)} = {_value(text)}")
    return "\n".join([*lines, ""])


def _value(value: Any) -> str:
    if isinstance(value, dict):
        inside = [f"{json.dumps(key)} = {_value(one)}" for key, one in value.items()]
        return f"{{{', '.join(inside)}}}"
    return json.dumps(value)
