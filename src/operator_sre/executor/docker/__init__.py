"""A Docker engine through its API: bounded answers, and every call within a time."""

from operator_sre.executor.docker.engine import Address, Answer, Engine, EngineError, address_here

__all__ = ["Address", "Answer", "Engine", "EngineError", "address_here"]
