"""The API of one cluster, reached as a kubeconfig says or from inside of a pod."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from operator_protocols.errors import MissingExtraError, ObservationError

if TYPE_CHECKING:
    from httpx2 import AsyncClient

__all__ = ["Api", "ChangingApi", "HttpApi", "StatusError", "open_api"]

CONNECT_S_MAX = 5.0
ANSWER_S_MAX = 30.0
# A watch says nothing for as long as nothing happens, and is ended by the server.
STREAM_MORE_S = 30.0
LINE_BYTES_MAX = 8 << 20
ERROR_CHARS_MAX = 200
NO_QUERY: Mapping[str, str] = MappingProxyType({})


class StatusError(Exception):
    """The API answered with an error."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"HTTP {status}: {message}" if message else f"HTTP {status}")
        self.status = status


class Api(Protocol):
    """What the subject asks of a cluster: it only reads."""

    async def get(self, path: str, query: Mapping[str, str]) -> bytes:
        """One answer. StatusError when the API refuses, OSError when it is not reached."""
        ...

    def stream(
        self, path: str, query: Mapping[str, str], *, seconds: float
    ) -> AsyncIterator[bytes]:
        """The lines of an answer as they come, until the server ends it."""
        ...

    async def close(self) -> None:
        """Close every connection."""
        ...


class ChangingApi(Api, Protocol):
    """What tools ask of a cluster in addition."""

    async def change(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | Sequence[Any],
        *,
        query: Mapping[str, str] = NO_QUERY,
        content: str = "application/json",
    ) -> bytes:
        """One answer to POST, PATCH or DELETE. StatusError when the API refuses."""
        ...


class HttpApi:
    """The API over HTTP, with the authentication of a kubeconfig."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def get(self, path: str, query: Mapping[str, str]) -> bytes:
        """One answer. StatusError when the API refuses, OSError when it is not reached."""
        with _translate_errors():
            answer = await self._client.get(path, params=dict(query), timeout=ANSWER_S_MAX)
            if answer.status_code >= 400:
                raise StatusError(answer.status_code, _message_of(answer.text))
            return answer.content

    async def change(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | Sequence[Any],
        *,
        query: Mapping[str, str] = NO_QUERY,
        content: str = "application/json",
    ) -> bytes:
        """One answer to POST, PATCH or DELETE. StatusError when the API refuses."""
        with _translate_errors():
            answer = await self._client.request(
                method,
                path,
                params=dict(query),
                content=json.dumps(body),
                headers={"Content-Type": content},
                timeout=ANSWER_S_MAX,
            )
            if answer.status_code >= 400:
                raise StatusError(answer.status_code, _message_of(answer.text))
            return answer.content

    async def stream(
        self, path: str, query: Mapping[str, str], *, seconds: float
    ) -> AsyncIterator[bytes]:
        """The lines of an answer as they come, until the server ends it."""
        limits = {
            "connect": CONNECT_S_MAX,
            "read": seconds + STREAM_MORE_S,
            "write": CONNECT_S_MAX,
            "pool": CONNECT_S_MAX,
        }
        with _translate_errors():
            request = self._client.build_request(
                "GET", path, params=dict(query), extensions={"timeout": limits}
            )
            answer = await self._client.send(request, stream=True)
            try:
                if answer.status_code >= 400:
                    await answer.aread()
                    raise StatusError(answer.status_code, _message_of(answer.text))
                rest = b""
                async for part in answer.aiter_bytes():
                    *lines, rest = (rest + part).split(b"\n")
                    for line in lines:
                        if line:
                            yield line
                    if len(rest) > LINE_BYTES_MAX:
                        raise ValueError("the API sent a line that is too long")
            finally:
                await answer.aclose()

    async def close(self) -> None:
        """Close every connection."""
        await self._client.aclose()


def open_api(kubeconfig: str, context: str) -> HttpApi:
    """The API of a context, of the current context, or of the cluster whose pod we run in.

    ObservationError where the kubeconfig cannot be used, MissingExtraError without the extra.
    """
    try:
        import httpx2
        from lightkube.config.client_adapter import AsyncClient, ConnectionParams
        from lightkube.core.exceptions import ConfigError as KubeconfigError
    except ImportError:
        raise MissingExtraError("kubernetes", needed_for="Watching Kubernetes") from None
    # Each resource is watched on a connection of its own.
    timeout = httpx2.Timeout(ANSWER_S_MAX, connect=CONNECT_S_MAX)
    try:
        from lightkube import KubeConfig

        if kubeconfig:
            found = KubeConfig.from_file(str(Path(kubeconfig).expanduser()))
        else:
            found = KubeConfig.from_env()
        config = found.get(context_name=context) if context else found.get()
        if config is None:
            raise ValueError("it has no current context")
        client = AsyncClient(config, ConnectionParams(timeout=timeout, trust_env=False))
    except (KubeconfigError, OSError, ValueError, KeyError, TypeError) as problem:
        where = kubeconfig or "the default kubeconfig"
        raise ObservationError(
            f"{where} cannot be used: {problem}.",
            next_step="Set `kubeconfig` and `context` of the subject.",
        ) from problem
    return HttpApi(client)


def _message_of(text: str) -> str:
    """What an error of the API says, which is a Status or plain text."""
    with contextlib.suppress(ValueError, AttributeError):
        text = str(json.loads(text).get("message") or text)
    return text[:ERROR_CHARS_MAX]


@contextlib.contextmanager
def _translate_errors() -> Iterator[None]:
    """Errors of the client as errors that every caller knows."""
    import httpx2

    try:
        yield
    except httpx2.HTTPError as problem:
        raise ConnectionError(f"{type(problem).__name__}: {problem}") from problem
