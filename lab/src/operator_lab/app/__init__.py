"""What the commands of the lab call: rigs, their logs, and deployments."""

from __future__ import annotations

__all__: list[str] = []
