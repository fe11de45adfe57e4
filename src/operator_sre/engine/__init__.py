"""Who works when."""

from __future__ import annotations

from operator_sre.engine.cluster import ClusterEngine
from operator_sre.engine.local import LocalEngine

__all__ = ["ClusterEngine", "LocalEngine"]
