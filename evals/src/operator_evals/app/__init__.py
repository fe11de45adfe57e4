"""Trials for real: a process, a home and a rig for each, and what their ledgers tell."""

from __future__ import annotations
