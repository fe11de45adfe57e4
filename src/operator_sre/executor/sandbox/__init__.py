"""Boxes in which a stranger's script can harm nothing."""

from __future__ import annotations

from operator_sre.executor.sandbox.box import Language, Limits, Sandbox, Script

__all__ = ["Language", "Limits", "Sandbox", "Script"]
