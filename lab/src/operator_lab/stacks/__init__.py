"""Copies of systems in containers: started by compose, broken and repaired through the engine."""

from __future__ import annotations

from operator_lab.stacks.scripted import ScriptedTarget

__all__ = ["ScriptedTarget"]
