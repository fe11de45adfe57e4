"""A real Kubernetes cluster on one machine: built from source, its nodes in namespaces."""

from __future__ import annotations

__all__: list[str] = []
