"""The sliding window: one atomic script decides a request by the store's own clock."""

import itertools
import secrets
from dataclasses import dataclass
from importlib.resources import files

from operator_ratelimiter.settings import Live
from operator_ratelimiter.store import Store

__all__ = ["Decision", "Window"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Whether one request may pass, and what is left for the next."""

    allowed: bool
    limit: int
    remaining: int
    reset_s: float
    blocked: bool


class Window:
    """Decides requests in one round trip, exactly, however many nodes ask at once."""

    def __init__(self, live: Live, store: Store) -> None:
        self._live = live
        self._store = store
        self._script = store.script(files(__package__).joinpath("window.lua").read_text())
        # The node's name in each member tells an inspector who allowed the request; the random
        # part keeps members of an earlier process with the same name apart.
        self.process = secrets.token_hex(6)
        self._origin = f"{live.settings.name}:{self.process}"
        self._sequence = itertools.count()

    async def check(self, key: str) -> Decision:
        """Decide one request to `key` and count it when allowed; raises StoreError."""
        names, settings = self._live.names, self._live.settings
        allowed, limit, remaining, reset_us, blocked = await self._store.evaluate(
            self._script,
            keys=[names.window(key), names.limits, names.blocks],
            args=[
                key,
                settings.default_limit,
                settings.window_us,
                f"{self._origin}:{next(self._sequence)}",
            ],
        )
        return Decision(
            allowed=allowed == 1,
            limit=limit,
            remaining=remaining,
            reset_s=reset_us / 1_000_000,
            blocked=blocked == 1,
        )
