"""The porter: stands before a Docker engine, and lets pass what is about one lab's containers."""

from operator_sre.executor.porter.porter import Porter
from operator_sre.executor.porter.rules import Passage, Refused, find_passage

__all__ = ["Passage", "Porter", "Refused", "find_passage"]
