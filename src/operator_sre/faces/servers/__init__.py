"""What every face that listens needs: an address, names, bounded connections, limits of rates."""

from __future__ import annotations

__all__: list[str] = []
