"""A connection to one broker: TLS, login, requests within their time."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import secrets
import ssl
import struct
import time
from types import TracebackType
from typing import TypeVar

from operator_protocols.domain.target import Access, Target
from operator_protocols.errors import OperatorError
from operator_protocols.kit.access import addresses_of, sentence_of, trust_for
from operator_protocols.ports import SubjectSettings
from operator_sre.subjects.kafka.fields import Reader
from operator_sre.subjects.kafka.protocol import (
    Answer,
    Request,
    authenticate,
    encode_request,
    handshake,
)

__all__ = ["MECHANISMS", "Line", "LoginError"]

T = TypeVar("T")
CLIENT = "operator"
TLS_ALERT = b"\x15\x03"
MESSAGE_BYTES_MAX = 64 << 20
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
ITERATIONS_MAX = 1_000_000


class LoginError(OSError):
    """The broker refuses our credentials."""


class Line:
    """A connection to a broker for one check: `async with Line(...) as line`. OSError without."""

    def __init__(
        self, settings: SubjectSettings, target: Target, *, mechanism: str, within_s: float
    ) -> None:
        self._settings, self._target = settings, target
        self._mechanism, self._within_s = mechanism, within_s
        self._reader = asyncio.StreamReader()
        self._writer: asyncio.StreamWriter | None = None
        self._number = 0

    async def __aenter__(self) -> Line:
        addresses = addresses_of(self._target)
        if not addresses:
            raise OSError("the target has no port")
        access, problem = self._target.access or Access(), OSError("no address answers")
        for host, port in addresses:
            try:
                async with asyncio.timeout(self._within_s / len(addresses)):
                    trust = trust_for(access) if access.tls else None
                    name = (access.server_name or host) if access.tls else None
                    self._reader, self._writer = await asyncio.open_connection(
                        host, port, ssl=trust, server_hostname=name
                    )
                    if access.user:
                        await self._log_in(access)
                return self
            except LoginError:
                self._hang_up()
                raise
            except (OSError, EOFError, ValueError, struct.error) as error:
                # A stranger on the port may answer a login with anything.
                self._hang_up()
                problem = OSError(sentence_of(error))
        raise problem

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._hang_up()

    @property
    def certificate_s(self) -> float | None:
        """How long the certificate of the broker is still valid; None without TLS."""
        shown = None if self._writer is None else self._writer.get_extra_info("peercert")
        ends = shown.get("notAfter") if isinstance(shown, dict) else None
        return ssl.cert_time_to_seconds(ends) - time.time() if isinstance(ends, str) else None

    async def ask(self, request: Request[T], *, within_s: float | None = None) -> Answer[T]:
        """Send a request and read its answer. After a failure the connection is of no more use."""
        started = time.monotonic()
        if self._writer is None:
            return Answer(error="the connection is closed")
        try:
            async with asyncio.timeout(self._within_s if within_s is None else within_s):
                value = await self._exchange(request)
        except (OSError, EOFError, ValueError, struct.error) as error:
            self._hang_up()
            return Answer(error=sentence_of(error), took_s=time.monotonic() - started)
        return Answer(value, took_s=time.monotonic() - started)

    async def _exchange(self, request: Request[T]) -> T:
        assert self._writer is not None
        self._number += 1
        self._writer.write(encode_request(request, self._number, CLIENT))
        await self._writer.drain()
        head = await self._reader.readexactly(4)
        if head.startswith(TLS_ALERT):
            raise ValueError("it expects TLS, and `tls` of its access is not set")
        (size,) = struct.unpack(">i", head)
        if not 4 <= size <= MESSAGE_BYTES_MAX:
            raise ValueError("the answer is not from Kafka")
        reader = Reader(await self._reader.readexactly(size), flexible=request.flexible)
        if reader.number("i") != self._number:
            raise ValueError("the answer is not from Kafka")
        reader.tags()
        return request.read(reader)

    async def _log_in(self, access: Access) -> None:
        try:
            password = self._settings.secret(access.password_file)
        except OperatorError as problem:
            raise LoginError(str(problem)) from problem
        if await self._exchange(handshake(self._mechanism)):
            raise LoginError(f"the broker does not offer {self._mechanism}")
        if self._mechanism == "PLAIN":
            await self._send_token(f"\0{access.user}\0{password}".encode())
            return
        digest = self._mechanism.removeprefix("SCRAM-").replace("-", "").lower()
        user = access.user.replace("=", "=3D").replace(",", "=2C")
        first = f"n={user},r={secrets.token_urlsafe(18)}"
        challenge = (await self._send_token(f"n,,{first}".encode())).decode()
        parts = dict(part.split("=", 1) for part in challenge.split(",") if "=" in part)
        nonce, rounds = parts.get("r", ""), int(parts.get("i", "0"))
        if not nonce.startswith(first.rpartition("r=")[2]) or not 0 < rounds <= ITERATIONS_MAX:
            raise LoginError("the broker answered a login wrongly")
        salt = base64.b64decode(parts.get("s", ""))
        salted = await asyncio.to_thread(
            hashlib.pbkdf2_hmac, digest, password.encode(), salt, rounds
        )
        key = hmac.digest(salted, b"Client Key", digest)
        bare = f"c=biws,r={nonce}"
        signed = f"{first},{challenge},{bare}".encode()
        sign = hmac.digest(hashlib.new(digest, key).digest(), signed, digest)
        proof = bytes(a ^ b for a, b in zip(key, sign, strict=True))
        last = await self._send_token(f"{bare},p={base64.b64encode(proof).decode()}".encode())
        expected = hmac.digest(hmac.digest(salted, b"Server Key", digest), signed, digest)
        if not hmac.compare_digest(last, b"v=" + base64.b64encode(expected)):
            raise LoginError("the broker does not know our password either")

    async def _send_token(self, token: bytes) -> bytes:
        code, why, answer = await self._exchange(authenticate(token))
        if code:
            raise LoginError(why[:160] or "the broker refuses our credentials")
        return answer

    def _hang_up(self) -> None:
        if self._writer is not None:
            self._writer.transport.abort()
            self._writer = None
