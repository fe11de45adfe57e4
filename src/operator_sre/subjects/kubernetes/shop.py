"""The sample application as its customers use it: orders that are acknowledged and read back."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from pathlib import Path

from operator_protocols.ports import SubjectSettings

__all__ = ["CLIENTS_FILE", "KubernetesDepot", "Shop"]

# In the directory of the switch: the port of this machine that leads to the front end.
CLIENTS_FILE = "clients"
ANSWER_S_MAX = 3.0
HEAD_BYTES_MAX = 1 << 16
READERS = 16


class Shop:
    """The front end of a rig. `switch` is the directory of its network."""

    def __init__(self, switch: Path) -> None:
        self._file = switch / CLIENTS_FILE

    async def order(self, key: str) -> bool:
        """Whether an order was acknowledged."""
        return (await self._ask("POST", f"?key={key}"))[0] == 200

    async def has(self, key: str) -> bool | None:
        """Whether an order can be read; None where that is not known."""
        status, _ = await self._ask("GET", f"?key={key}")
        return {200: True, 404: False}.get(status)

    async def answers(self) -> bool:
        """Whether the database answers through all that lies before it: it counts its orders."""
        status, body = await self._ask("GET", "")
        return status == 200 and body.strip().isdigit()

    async def serves(self) -> str:
        """Why a customer cannot order now and read the order back, or ""."""
        key = secrets.token_hex(8)
        if not await self.order(key):
            return "an order of a customer is not acknowledged"
        return "" if await self.has(key) else "an acknowledged order cannot be read"

    async def _ask(self, method: str, query: str) -> tuple[int, str]:
        """Status and text of an answer; the status 0 without one."""
        try:
            port = int(self._file.read_text(encoding="utf-8"))
            async with asyncio.timeout(ANSWER_S_MAX):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                try:
                    fields = "Host: frontend\r\nContent-Length: 0\r\nConnection: close\r\n"
                    writer.write(f"{method} /orders{query} HTTP/1.1\r\n{fields}\r\n".encode())
                    await writer.drain()
                    text = (await reader.read(HEAD_BYTES_MAX)).decode("utf-8", "replace")
                    while part := await reader.read(HEAD_BYTES_MAX):
                        text += part.decode("utf-8", "replace")
                finally:
                    writer.close()
        except (OSError, ValueError, TimeoutError):
            return 0, ""
        head, _, body = text.partition("\r\n\r\n")
        status = head.split(" ")[1:2]
        return (int(status[0]) if status and status[0].isdigit() else 0), body


class KubernetesDepot:
    """Orders of the sample application, as its customers place them."""

    def __init__(self, settings: SubjectSettings) -> None:
        # The kubeconfig of a rig lies below its switch; any other cluster has no such file.
        kubeconfig = Path(str(settings.options.get("kubeconfig") or "nowhere"))
        self._shop = Shop(kubeconfig.parent.parent)

    async def put(self, mark: str) -> bool:
        """Place one order."""
        return await self._shop.order(mark)

    async def find_lost(self, marks: Sequence[str]) -> frozenset[str] | None:
        """Orders that are gone; None where the database does not answer, or not for all."""
        if not await self._shop.answers():
            return None
        at_once = asyncio.Semaphore(READERS)

        async def read(mark: str) -> bool | None:
            async with at_once:
                return await self._shop.has(mark)

        # One after another, a busy machine does not read hundreds within the time of a trial.
        found = await asyncio.gather(*map(read, marks))
        if None in found or not await self._shop.answers():
            return None
        return frozenset(mark for mark, kept in zip(marks, found, strict=True) if not kept)
