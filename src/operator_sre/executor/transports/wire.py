"""What a transport to another place must be able to do: give a script to a shell there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from operator_protocols.domain.category import FailureCategory

__all__ = ["Called", "Hear", "Wire"]

Hear = Callable[[int, bytes], None]


@dataclass(frozen=True, slots=True)
class Called:
    """How a call went. `sent` says whether anything of the script may have arrived.

    `trouble` is a sentence, and empty when the shell there read the script and ended.
    """

    sent: bool = True
    trouble: str = ""
    category: FailureCategory | None = None


class Wire(Protocol):
    """A way to one place. It remembers nothing of a job."""

    async def reach(self) -> Called:
        """Make sure that the place can be called, where that takes a while; it sends nothing."""
        ...

    async def call(self, script: bytes, hear: Hear, *, within_s: float) -> Called:
        """Run a script in a POSIX shell with an empty environment; `hear` gets what it says.

        The script begins to run only when all of it has arrived. Cancelled, it only hangs up.
        """
        ...

    async def identify(self) -> str:
        """What a permit is bound to; raises ExecutorError when it is unknown."""
        ...

    async def aclose(self) -> None:
        """Let go of what it holds."""
        ...
