"""5 ACT: run what is permitted, bounded, at most once."""

from __future__ import annotations

from operator_sre.executor.execute import Executor

__all__ = ["Executor"]
