"""The receiver of alerts: a small ASGI application that can be mounted into a larger one."""

from __future__ import annotations

__all__: list[str] = []
