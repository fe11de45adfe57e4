"""A distributed rate limiter: several nodes, one store, one exact sliding window per key."""

__all__ = ["__version__"]

__version__ = "0.1.0"
