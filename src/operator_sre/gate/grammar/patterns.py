"""Regular expressions for modules that need possessive quantifiers to be right.

Before 3.11.5 Python's own `re` forgets where a group inside of one has to go on, so that what only
reads is not understood; Debian 12 has such a Python. There the library `regex` takes its place.
"""

from __future__ import annotations

import re
import sys
from importlib import import_module

__all__ = ["re"]

if sys.version_info < (3, 11, 5):
    globals()["re"] = import_module("regex")
