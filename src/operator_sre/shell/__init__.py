"""The shell's language: lines that are judged, scripts, and where in a line data may stand."""

from __future__ import annotations
