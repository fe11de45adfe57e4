"""3 THINK: one mind at work on one ticket, without any input or output of its own."""

from __future__ import annotations

from operator_sre.agent.run import Conclusion, Run

__all__ = ["Conclusion", "Run"]
