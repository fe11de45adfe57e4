"""What Operator and its plug-ins agree on: types, ports, errors. Standard library only."""

from __future__ import annotations

__all__: list[str] = []
