"""The console in a browser: pages that work without a script, and live with a small one."""

from __future__ import annotations

__all__: list[str] = []
