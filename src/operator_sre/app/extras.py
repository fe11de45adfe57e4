"""The distributions that extras bring, loaded by name: the core runs without them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from operator_protocols.errors import MissingExtraError

if TYPE_CHECKING:
    from operator_protocols.domain.precondition import Precondition
    from operator_protocols.domain.target import Target
    from operator_protocols.ports import Kill, Tool

__all__ = ["Lab", "RigAccess", "extras", "has_evals", "load_lab", "missing_of"]

CORE = "operator-sre"
_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)(?:\[([^\]]*)\])?.*?extra *== *['\"]([^'\"]+)['\"]")


@dataclass(frozen=True, slots=True)
class RigAccess:
    """What the core needs of a rig that is up: its parts, who can kill them, and its tools."""

    targets: Callable[[], Sequence[Target]]
    life: Kill
    tools: Sequence[Tool]


class Lab(Protocol):
    """The module `operator_lab.access`."""

    def open_rig(
        self, directory: Path, requires: Mapping[str, tuple[Precondition, ...]] = ...
    ) -> RigAccess:
        """Return the rig that is up in a directory; NotFoundError when there is none.

        `requires` are the preconditions of its tools, by name.
        """
        ...

    def read_options(self, directory: Path) -> Mapping[str, Any]:
        """Return the options that the subject of a rig is built with."""
        ...


def load_lab() -> Lab:
    """Return the lab; MissingExtraError where it is not installed."""
    if find_spec("operator_lab") is None:
        raise MissingExtraError("lab", needed_for="A rig")
    return cast("Lab", import_module("operator_lab.access"))


def has_evals() -> bool:
    """Return whether the evaluation harness is installed."""
    return find_spec("operator_evals") is not None


def extras() -> Sequence[str]:
    """Every extra of this distribution; none where it runs without being installed."""
    try:
        return sorted(distribution(CORE).metadata.get_all("Provides-Extra") or ())
    except PackageNotFoundError:
        return ()


def missing_of(extra: str) -> Sequence[str]:
    """The distributions of an extra that are not installed."""
    missing: list[str] = []
    for requirement in distribution(CORE).requires or ():
        found = _REQUIREMENT.match(requirement)
        if found is None or found[3] != extra:
            continue
        name, inner = found[1], found[2] or ""
        if name == CORE:
            missing += [each for other in inner.split(",") for each in missing_of(other.strip())]
            continue
        try:
            distribution(name)
        except PackageNotFoundError:
            missing.append(name)
    return missing
