"""A Channel is one address of people. It holds secrets, so nothing of it is ever shown."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
from typing import Any, Protocol

from operator_protocols.errors import MissingExtraError
from operator_sre.notify.notice import Message

__all__ = ["AppriseChannel", "Channel", "channels_of"]

SEND_S_MAX = 15.0
CHANNELS_MAX = 50
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]{0,30}", re.IGNORECASE)


class Channel(Protocol):
    """Where messages go."""

    @property
    def name(self) -> str:
        """What it is called without telling its address."""
        ...

    async def send(self, message: Message) -> str:
        """Send it once; why it was not taken, or ""."""
        ...


class AppriseChannel:
    """One address as Apprise knows it."""

    def __init__(self, url: str) -> None:
        scheme, separator, _ = url.lower().partition("://")
        # A few digits of a hash: the same address has the same name, and no way leads back.
        digits = hashlib.sha256(url.encode()).hexdigest()[:8]
        self._url = url
        self.name = f"{scheme if separator and _SCHEME.fullmatch(scheme) else 'address'}-{digits}"

    def __repr__(self) -> str:
        return f"AppriseChannel({self.name})"

    async def send(self, message: Message) -> str:
        """Send it once; why it was not taken, or ""."""
        try:
            async with asyncio.timeout(SEND_S_MAX):
                return await asyncio.to_thread(self._send, message)
        except TimeoutError:
            return f"it took longer than {SEND_S_MAX:g} s"

    def _send(self, message: Message) -> str:
        apprise = _apprise()
        try:
            service = apprise.Apprise()
            if not service.add(self._url):
                return "the address is not understood"
            taken = service.notify(title=message.title, body=message.body, body_format="text")
        except Exception as error:  # noqa: BLE001  whatever a service does, the ledger goes on
            return f"it failed with {type(error).__name__}"  # its words may hold the address
        return "" if taken else "the service did not take it"


def channels_of(text: str) -> list[AppriseChannel]:
    """The addresses of a file: one on a line; empty lines and those that begin with # are none."""
    lines = [line.strip() for line in text.splitlines()]
    urls = [line for line in lines if line and not line.startswith("#")]
    return [AppriseChannel(url) for url in dict.fromkeys(urls)][:CHANNELS_MAX]


def _apprise() -> Any:
    try:
        import apprise
    except ImportError as error:
        raise MissingExtraError("notify", needed_for="Notifying people") from error
    # It logs addresses that it does not understand, secrets and all.
    logger = logging.getLogger("apprise")
    logger.propagate = False
    logger.disabled = True
    logging.getLogger("urllib3").setLevel(logging.WARNING)  # below that it logs paths
    return apprise
