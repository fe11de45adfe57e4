"""Start, watch and end process trees; used by the executor and the lab only."""

from __future__ import annotations

__all__: list[str] = []
