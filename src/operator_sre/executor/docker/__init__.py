"""A Docker engine through its API: bounded answers, and every call within a time."""

from operator_sre.executor.docker.address import Address, address_here
from operator_sre.executor.docker.engine import Answer, Engine, EngineError

__all__ = ["Address", "Answer", "Engine", "EngineError", "address_here"]
