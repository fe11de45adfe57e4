"""One question to a Docker engine at a time: bounded in bytes and in seconds."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

import msgspec

from operator_protocols.domain.category import ErrorCategory, FailureCategory, NextAction
from operator_protocols.errors import OperatorError

if TYPE_CHECKING:
    import httpx2

__all__ = ["ANSWER_S", "Address", "Answer", "Engine", "EngineError", "address_here"]

DEFAULT = "/var/run/docker.sock"
SETTINGS_BYTES_MAX = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Address:
    """A Unix socket or a URL; `certificates` is the folder with the TLS certificates.

    `problem` says why nothing can be reached this way.
    """

    socket: str = ""
    url: str = "http://docker"
    certificates: str = ""
    problem: str = ""

    def __str__(self) -> str:
        return self.socket or self.url

    @property
    def is_missing(self) -> bool:
        """There is no socket, so no engine can answer."""
        return bool(self.socket) and not Path(self.socket).exists()


def address_here(environment: Mapping[str, str] | None = None) -> Address:
    """What `DOCKER_HOST` says, else the chosen context, else the first socket there is."""
    known = os.environ if environment is None else environment
    home = Path(known.get("HOME") or "/")
    if address := known.get("DOCKER_HOST", ""):
        is_safe = known.get("DOCKER_TLS_VERIFY", "") not in ("", "0")
        certificates = known.get("DOCKER_CERT_PATH") or str(home / ".docker")
        return _parse_address(address, certificates if is_safe else "", "DOCKER_HOST")
    settings = Path(known.get("DOCKER_CONFIG") or home / ".docker")
    context = known.get("DOCKER_CONTEXT") or _text(
        _read(settings / "config.json"), "currentContext"
    )
    if context and context != "default":
        name = hashlib.sha256(context.encode()).hexdigest()
        read = _read(settings / "contexts" / "meta" / name / "meta.json")
        endpoint = read.get("Endpoints")
        docker = endpoint.get("docker") if isinstance(endpoint, dict) else None
        host = _text(docker, "Host")
        if not host:
            return Address(problem=f"The Docker context {context[:60]!r} cannot be read.")
        folder = settings / "contexts" / "tls" / name / "docker"
        certificates = str(folder) if folder.is_dir() else ""
        return _parse_address(
            host, certificates, f"The host of the Docker context {context[:60]!r}"
        )
    runtime = known.get("XDG_RUNTIME_DIR", "")
    places = (
        DEFAULT,
        *((f"{runtime}/docker.sock",) if runtime else ()),
        str(home / ".docker" / "run" / "docker.sock"),
    )
    return Address(socket=next((place for place in places if _is_socket(place)), DEFAULT))


def _parse_address(address: str, certificates: str, where: str) -> Address:
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port
    except ValueError:
        return Address(problem=f"{where} is not a valid address.")
    if parts.scheme == "unix" and parts.path.startswith("/") and not host:
        return Address(socket=parts.path)
    if parts.scheme in ("tcp", "http", "https") and host and not parts.username:
        is_safe = bool(certificates) or parts.scheme == "https"
        shown = f"[{host}]" if ":" in host else host
        scheme, standard = ("https", 2376) if is_safe else ("http", 2375)
        return Address(url=f"{scheme}://{shown}:{port or standard}", certificates=certificates)
    return Address(problem=f"{where} must be unix:///path or tcp://host:port.")


def _read(path: Path) -> dict[str, object]:
    try:
        with path.open("rb") as file:
            found = json.loads(file.read(SETTINGS_BYTES_MAX))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _text(table: object, name: str) -> str:
    value = table.get(name) if isinstance(table, dict) else None
    return value if isinstance(value, str) else ""


def _is_socket(place: str) -> bool:
    try:
        return Path(place).is_socket()
    except OSError:
        return False


CONNECT_S = 3.0
ANSWER_S = 15.0
# A container's whole description has some ten kilobytes; who says more is not listened to.
ANSWER_BYTES_MAX = 4 * 1024 * 1024
MESSAGE_CHARACTERS_MAX = 500
OK, NOT_MODIFIED, CLIENT_ERROR = 200, 304, 400
START = "Start Docker and check it with: docker info"

T = TypeVar("T")


class EngineError(OperatorError):
    """The engine cannot be asked. `sent` when it may have done what it was asked for."""

    category = ErrorCategory.DOCKER_UNAVAILABLE
    next_action = NextAction.START_DOCKER

    def __init__(
        self,
        message: str,
        *,
        failure: FailureCategory = FailureCategory.NETWORK,
        sent: bool = False,
        next_step: str = START,
    ) -> None:
        super().__init__(message, next_step=next_step)
        self.failure = failure
        self.sent = sent


class _Complaint(msgspec.Struct):
    message: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of the engine to one request."""

    status: int
    content: bytes

    @property
    def ok(self) -> bool:
        """It did what it was asked for, or had nothing to do."""
        return OK <= self.status < CLIENT_ERROR

    @property
    def message(self) -> str:
        """Why it refused, in its own words and one line."""
        try:
            message = msgspec.json.decode(self.content, type=_Complaint).message
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            message = ""
        return " ".join(message.split())[:MESSAGE_CHARACTERS_MAX] or f"status {self.status}"

    def read(self, kind: type[T]) -> T:
        """Its content as what it must be."""
        try:
            return msgspec.json.decode(self.content, type=kind)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            raise EngineError(
                "The service at this address does not answer as Docker does."
            ) from None


class Engine:
    """Asks the engine at one address; without one, at the address that is right by then."""

    def __init__(self, address: Address | None = None) -> None:
        self._address = address

    async def ask(
        self,
        method: str,
        path: str,
        *,
        parameters: Mapping[str, str] | None = None,
        body: Mapping[str, object] | None = None,
        timeout_s: float = ANSWER_S,
    ) -> Answer:
        """One question, one whole answer."""
        content = bytearray()
        async with self.stream(
            method, path, parameters=parameters, body=body, timeout_s=timeout_s
        ) as (status, chunks):
            async for chunk in chunks:
                content += chunk
                if len(content) > ANSWER_BYTES_MAX:
                    raise EngineError(
                        f"Docker's answer is larger than {ANSWER_BYTES_MAX // 1024**2} MB.",
                        sent=True,
                    )
        return Answer(status, bytes(content))

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        path: str,
        *,
        parameters: Mapping[str, str] | None = None,
        body: Mapping[str, object] | None = None,
        timeout_s: float = ANSWER_S,
    ) -> AsyncIterator[tuple[int, AsyncIterator[bytes]]]:
        """Send one request; yields the status and a stream of the answer."""
        import httpx2

        address = self._address or address_here()
        if address.problem:
            raise EngineError(address.problem, next_step="Correct the address, or unset it.")
        try:
            async with asyncio.timeout(timeout_s), _client(address) as client:
                request = client.build_request(
                    method,
                    path,
                    params=dict(parameters or {}),
                    content=b"" if body is None else msgspec.json.encode(body),
                    headers={"Content-Type": "application/json", "Accept-Encoding": "identity"},
                )
                response = await client.send(request, stream=True)
                try:
                    async with aclosing(response.aiter_raw()) as chunks:
                        yield response.status_code, chunks
                finally:
                    await response.aclose()
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            cause: BaseException | None = error
            while cause is not None and not isinstance(cause, PermissionError):
                cause = cause.__cause__ or cause.__context__
            if cause is not None:
                unreachable = EngineError(
                    f"This user may not use Docker at {str(address)!r}.",
                    failure=FailureCategory.PERMISSION,
                    next_step="Add the user to the group docker, or run Operator as root.",
                )
            else:
                unreachable = EngineError(f"No Docker engine answers at {str(address)!r}.")
            raise unreachable from None
        except TimeoutError:
            raise EngineError(
                f"Docker did not answer within {timeout_s:g} s.",
                failure=FailureCategory.TIMEOUT,
                sent=True,
            ) from None
        except (httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL, OSError):
            raise EngineError("The connection to Docker was lost.", sent=True) from None


@asynccontextmanager
async def _client(address: Address) -> AsyncIterator[httpx2.AsyncClient]:
    # Whom to trust; a bare context where there is no TLS, because a full one takes 70 ms.
    import ssl

    import httpx2

    from operator_sre.transport import ClosingTransport

    if not address.url.startswith("https://"):
        trust = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    elif not address.certificates:
        trust = ssl.create_default_context()
    else:
        folder = Path(address.certificates)
        try:
            trust = ssl.create_default_context(cafile=str(folder / "ca.pem"))
            if (folder / "cert.pem").exists():
                trust.load_cert_chain(folder / "cert.pem", folder / "key.pem")
        except OSError:  # that of TLS is one
            raise EngineError(
                f"The certificates for Docker in {address.certificates!r} cannot be read.",
                failure=FailureCategory.PERMISSION,
                next_step="Put ca.pem, cert.pem and key.pem into that folder.",
            ) from None
    transport = ClosingTransport(uds=address.socket or None, verify=trust, trust_env=False)
    async with httpx2.AsyncClient(
        transport=transport,
        base_url=address.url,
        timeout=httpx2.Timeout(None, connect=CONNECT_S),
        trust_env=False,
    ) as client:
        yield client
