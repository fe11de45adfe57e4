"""The queue of trials that machines share, on the store of a home."""

from __future__ import annotations

from typing import TYPE_CHECKING

from operator_sre.engine.trials import (
    ErrandState,
    TrialErrand,
    TrialQueue,
    TrialTaker,
    trial_queue,
)

if TYPE_CHECKING:
    from operator_sre.config import Config

__all__ = ["ErrandState", "TrialErrand", "TrialQueue", "TrialTaker", "trials_of"]


def trials_of(
    config: Config, *, executor: str, version: str, name: str = "", at_once: int = 0
) -> TrialQueue:
    """The queue for one that leads, or for one that does so many at once; nothing is opened yet.

    Only workers of the same version take them: others might break and judge differently.
    """
    return trial_queue(config.store, executor=executor, version=version, name=name, at_once=at_once)
