"""Log lines for people: UTC time, level, message, to stderr."""

import logging
import time

__all__ = ["configure_logging"]


def configure_logging() -> None:
    """Send every log line of this process to stderr as plain text."""
    formatter = logging.Formatter(
        "%(asctime)s.%(msecs)03dZ %(levelname)s %(message)s", datefmt="%Y-%m-%dT%H:%M:%S"
    )
    formatter.converter = time.gmtime
    handler = logging.StreamHandler()
    handler.setFormatter(formatter)
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    # The server's own start and stop lines would repeat the node's.
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
