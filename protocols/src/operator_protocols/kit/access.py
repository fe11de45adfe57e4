"""Reaching a target: its addresses, whom to trust, who we are, and why there was no answer."""

from __future__ import annotations

import base64
import os
import socket
import ssl
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

from operator_protocols.domain.target import Access, Target

__all__ = ["Address", "addresses_of", "authority", "authorize", "sentence_of", "trust_for"]

Address = tuple[str, int]
ERROR_CHARACTERS_MAX = 160


def addresses_of(target: Target, port: int | None = None) -> list[Address]:
    """Where a target answers, its own address first; `port` takes the place of every port.

    Empty for a target without a port.
    """
    first = port or target.port
    found: list[Address] = [] if first is None else [(target.host, first)]
    for endpoint in target.endpoints:
        host, _, number = endpoint.rpartition(":")
        if host and number.isascii() and number.isdigit():
            found.append((host.strip("[]"), port or int(number)))
    return found


def authority(address: Address) -> str:
    """An address as a URL has it."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def trust_for(access: Access) -> ssl.SSLContext:
    """Whom to trust when speaking TLS, read again when one of its files has changed.

    OSError or ssl.SSLError where one of them cannot be used.
    """
    files = (access.ca_file, access.certificate_file, access.key_file)
    return _load_trust(files, tuple(Path(file).stat().st_mtime_ns if file else 0 for file in files))


@lru_cache(maxsize=64)
def _load_trust(files: tuple[str, str, str], stamps: tuple[int, ...]) -> ssl.SSLContext:
    ca_file, certificate_file, key_file = files
    context = ssl.create_default_context(cafile=ca_file or None)
    if certificate_file:
        context.load_cert_chain(certificate_file, key_file or None)
    return context


def authorize(access: Access, secret: Callable[[str], str]) -> dict[str, str]:
    """The header of HTTP that says who we are; `secret` reads a file."""
    if access.user:
        password = secret(access.password_file) if access.password_file else ""
        claim = base64.b64encode(f"{access.user}:{password}".encode()).decode()
        return {"authorization": f"Basic {claim}"}
    if access.token_file:
        return {"authorization": f"Bearer {secret(access.token_file)}"}
    return {}


def sentence_of(error: BaseException) -> str:
    """Why there was no answer, in a few words."""
    match error:
        case TimeoutError():
            return "it did not answer in time"
        case ConnectionRefusedError():
            return "connection refused"
        case ConnectionResetError() | BrokenPipeError() | EOFError():
            return "it closed the connection"
        case socket.gaierror():
            return "its host name cannot be resolved"
        case ssl.SSLCertVerificationError():
            return f"its certificate is not trusted: {error.verify_message}"[:ERROR_CHARACTERS_MAX]
        case ssl.SSLError():
            return "it does not speak TLS as expected"
    reason = getattr(error, "strerror", None)
    text = reason.lower() if reason else str(error)
    if "connect call failed" in text.lower():
        number = getattr(error, "errno", None)
        return os.strerror(number).lower() if number else "connection refused"
    return (text or "connection lost")[:ERROR_CHARACTERS_MAX]
