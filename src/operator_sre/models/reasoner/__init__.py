"""The built-in reasoner: an evidence engine without a key or a network. Not a language model."""

from __future__ import annotations

from operator_sre.models.reasoner.reasoner import Reasoner

__all__ = ["Reasoner"]
