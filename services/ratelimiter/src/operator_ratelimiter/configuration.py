"""The configuration file of a node: a small JSON object, read at the start and kept in step."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from operator_ratelimiter.settings import CHANGEABLE, OnStoreLoss, Settings

__all__ = ["change", "read_configuration"]

_FILE_BYTES_MAX = 65_536


def read_configuration(path: Path) -> dict[str, Any]:
    """What a configuration file says, by name; exits with one sentence when it makes no sense."""
    try:
        with path.open("rb") as file:
            said = json.loads(file.read(_FILE_BYTES_MAX))
    except (OSError, ValueError) as error:
        raise SystemExit(f"cannot read the configuration {str(path)!r}: {error}") from error
    if not isinstance(said, dict):
        raise SystemExit(f"the configuration {str(path)!r} is not a JSON object")
    unknown = sorted(set(said) - set(CHANGEABLE))
    if unknown:
        raise SystemExit(
            f"the configuration {str(path)!r} has {unknown[0]!r}; it may have only "
            f"{', '.join(CHANGEABLE)}"
        )
    return said


def change(settings: Settings, wanted: Mapping[str, Any]) -> Settings:
    """The settings with what is wanted, also in the configuration file where there is one."""
    changed = replace(settings, **wanted)
    if settings.config_file is not None and changed != settings:
        _write(settings.config_file, changed)
    return changed


def _write(path: Path, settings: Settings) -> None:
    values = {name: getattr(settings, name) for name in CHANGEABLE}
    values["on_store_loss"] = OnStoreLoss(values["on_store_loss"]).value
    # Beside it first: whoever reads it meanwhile sees the old one or the new one.
    beside = path.with_name(f"{path.name}.new")
    beside.write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")
    beside.replace(path)
