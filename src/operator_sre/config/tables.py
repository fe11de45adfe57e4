"""What is wrong with a table of operator.toml, in one sentence."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from operator_protocols.errors import ConfigError

__all__ = ["SECRET", "unknown"]

# What precedes the name of a kept secret where the path of a file with one could stand.
SECRET = "secret:"


def unknown(name: str, valid: Iterable[str], where: str) -> ConfigError:
    """A key that is not one, with the nearest that is."""
    near = difflib.get_close_matches(name, list(valid), n=1, cutoff=0.0)
    return ConfigError(
        f"{name!r} in {where} is not a setting.", next_step=f"Did you mean {near[0]!r}?"
    )
