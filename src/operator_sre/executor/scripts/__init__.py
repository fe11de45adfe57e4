"""What has to hold of a script before it is let into a box."""

from __future__ import annotations

from operator_sre.executor.scripts.dangers import Flaw, Layer
from operator_sre.executor.scripts.validation import SIZE_CHARS_MAX, Validation

__all__ = ["SIZE_CHARS_MAX", "Flaw", "Layer", "Validation"]
