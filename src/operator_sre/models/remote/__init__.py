"""Models of others, over the network, through pydantic-ai."""

from __future__ import annotations

from operator_sre.models.remote.model import RemoteModel, ToolMode

__all__ = ["RemoteModel", "ToolMode"]
