"""The distributions that extras bring, loaded by name: the core runs without them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from operator_protocols.errors import MissingExtraError

if TYPE_CHECKING:
    from operator_protocols.domain.precondition import Precondition
    from operator_protocols.domain.target import Target
    from operator_protocols.ports import Kill, Tool

__all__ = ["Lab", "RigAccess", "has_evals", "load_lab"]


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
