"""Copies of systems in containers: brought up by compose, hurt and mended through the engine."""

from __future__ import annotations

from operator_lab.stacks.scripted import ScriptedTarget

__all__ = ["ScriptedTarget"]
