"""The endpoint of a model: its provider, address and key, and a bounded connection to it."""

from __future__ import annotations

import asyncio
import importlib
import inspect
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from operator_protocols.errors import MissingExtraError, ModelError

if TYPE_CHECKING:
    import httpx2
    from pydantic_ai.models import Model as Speaker

__all__ = ["ANTHROPIC", "COMPATIBLE", "Endpoint", "Line"]

ANTHROPIC = "anthropic"
COMPATIBLE = "openai-compatible"
CONNECT_S = 5.0
ANSWER_BYTES_MAX = 8_000_000
# Sent where no key is needed, so that no library reads one from the environment.
NO_KEY = "none"
_ADDRESSES = ("base_url", "api_base", "azure_endpoint")
# The name of the type of what closes a generator.
_CLOSING = "async_generator_athrow"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Provider, model and address. The key is never shown."""

    provider: str
    model: str
    base_url: str = ""
    key: str = field(default="", repr=False)

    def connect(self) -> Line:
        """Connect to the model. This imports the libraries, which takes seconds."""
        try:
            import pydantic_ai.direct  # noqa: F401 - loaded before the first request

            if self.provider == ANTHROPIC:
                return self._connect_anthropic()
            if self.provider == COMPATIBLE:
                return self._connect_compatible()
            return self._connect_named()
        except ImportError as error:
            missing = MissingExtraError("agent", needed_for=f"The model provider {self.provider!r}")
            own = self.provider not in (ANTHROPIC, COMPATIBLE)
            if own and "pydantic-ai-slim[" in str(error):
                package = f"pydantic-ai-slim[{self.provider}]"
                missing.message = (
                    f"The library for the model provider {self.provider!r} is not installed."
                )
                missing.next_step = f"Install it with: pip install '{package}'"
            raise missing from None

    def _connect_anthropic(self) -> Line:
        from pydantic_ai.models.anthropic import AnthropicModel
        from pydantic_ai.providers.anthropic import AnthropicProvider

        if not self.key and not self.base_url:
            raise ModelError(
                "No API key is set for Anthropic.",
                next_step="Set ANTHROPIC_API_KEY, or key_file of the model in operator.toml.",
                lasting=True,
            )
        client = _make_client()
        provider = AnthropicProvider(
            api_key=self.key or NO_KEY, base_url=self.base_url or None, http_client=client
        )
        return Line(AnthropicModel(self.model, provider=provider), client)

    def _connect_compatible(self) -> Line:
        from pydantic_ai.models.openai import OpenAIChatModel
        from pydantic_ai.profiles.openai import OpenAIModelProfile
        from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

        if not self.base_url:
            raise ModelError(
                "The openai-compatible provider needs the address of its server.",
                next_step="Set base_url of the model in operator.toml.",
                lasting=True,
            )
        client = _make_client()
        provider = OpenAICompatibleProvider(
            COMPATIBLE,
            base_url=self.base_url,
            api_key=self.key or NO_KEY,
            http_client=client,
            # Every server of this kind supports `max_tokens`, few support `max_completion_tokens`.
            profile=OpenAIModelProfile(openai_chat_supports_max_completion_tokens=False),
        )
        return Line(OpenAIChatModel(self.model, provider=provider), client)

    def _connect_named(self) -> Line:
        from pydantic_ai.exceptions import UserError
        from pydantic_ai.models import infer_model
        from pydantic_ai.providers import infer_provider_class

        try:
            kind = infer_provider_class(self.provider)
        except ValueError:
            raise self._unusable("is not supported by pydantic-ai") from None
        taken = inspect.signature(kind).parameters
        given: dict[str, Any] = {}
        if self.base_url:
            address = next((name for name in _ADDRESSES if name in taken), None)
            if address is None:
                raise self._unusable("does not accept a base_url")
            given[address] = self.base_url
        if "api_key" in taken and (self.key or self.base_url):
            given["api_key"] = self.key or NO_KEY
        if "http_client" not in taken:
            raise self._unusable("does not accept an HTTP client, so its answers cannot be bounded")
        # A few providers still take a client of the older library.
        annotation = str(taken["http_client"].annotation)
        older = "httpx." in annotation and "httpx2" not in annotation
        client = given["http_client"] = _make_client("httpx" if older else "httpx2")
        try:
            speaker = infer_model(f"{self.provider}:{self.model}", lambda _: kind(**given))
        except (UserError, TypeError):
            raise self._unusable("rejects this configuration") from None
        return Line(speaker, client, "httpx" if older else "httpx2")

    def _unusable(self, why: str) -> ModelError:
        return ModelError(
            f"The provider {self.provider!r} {why}.",
            next_step=f"Use {ANTHROPIC}, {COMPATIBLE} with a base_url, or a provider's own name;"
            " set its key with key_env or key_file.",
            lasting=True,
        )


@dataclass(frozen=True, slots=True)
class Line:
    """An open connection to a model, with its HTTP client and the library of that client."""

    speaker: Speaker
    client: httpx2.AsyncClient
    library: str = "httpx2"

    async def open(self) -> None:
        """Open the connections, including those of the library."""
        await self.speaker.__aenter__()

    @property
    def streams(self) -> bool:
        """Whether answers are streamed: by servers of the OpenAI format, which may be slow."""
        from pydantic_ai.models.openai import OpenAIChatModel

        return isinstance(self.speaker, OpenAIChatModel)

    async def is_alive(self, timeout_s: float) -> bool:
        """Whether the server answers anything, whatever it is. No key is sent."""
        http: Any = importlib.import_module(self.library)
        address = self.speaker.base_url
        if not address:
            return True
        try:
            await self.client.get(f"{address.rstrip('/')}/models", timeout=timeout_s)
        except http.ProtocolError:
            return True
        except http.TransportError:
            return False
        return True

    async def close(self) -> None:
        """Close the connections."""
        await self.speaker.__aexit__(None, None, None)
        await self.client.aclose()
        await _await_abandoned()


async def _await_abandoned() -> None:
    """Wait until the event loop has closed the generators that the libraries have left.

    They stop reading an answer at its last line, or at an error. What is then left of their chain
    is closed by the event loop, each link in a task that starts when the one before it has ended.
    """
    while True:
        await asyncio.sleep(0)
        tasks = asyncio.all_tasks()
        closing = [task for task in tasks if type(task.get_coro()).__name__ == _CLOSING]
        if not closing:
            return
        await asyncio.wait(closing)


def _make_client(library: str = "httpx2") -> httpx2.AsyncClient:
    """A client that follows no redirect, because the key would follow too, and bounds answers."""
    # Both libraries have the same names, and the same methods behind them.
    http: Any = importlib.import_module(library)

    class Bounded(http.AsyncByteStream):  # type: ignore[misc]
        """A body that fails when it exceeds the maximum length."""

        def __init__(self, body: httpx2.AsyncByteStream) -> None:
            self._body = body

        async def __aiter__(self) -> AsyncIterator[bytes]:
            taken, parts = 0, aiter(self._body)
            try:
                async for part in parts:
                    taken += len(part)
                    if taken > ANSWER_BYTES_MAX:
                        raise http.RemoteProtocolError("the answer is too long")
                    yield part
            finally:
                # A reader that stops early leaves nothing that the event loop must close later.
                if isinstance(parts, AsyncGenerator):
                    await parts.aclose()

        async def aclose(self) -> None:
            await self._body.aclose()

    async def limit_body(response: httpx2.Response) -> None:
        # A compressed body is longer than the bytes counted here.
        if response.headers.get("content-encoding", "identity").strip().lower() != "identity":
            raise http.RemoteProtocolError("the answer is compressed, against the request")
        assert isinstance(response.stream, http.AsyncByteStream)
        response.stream = Bounded(response.stream)

    client: httpx2.AsyncClient = http.AsyncClient(
        timeout=http.Timeout(None, connect=CONNECT_S),
        follow_redirects=False,
        headers={"accept-encoding": "identity"},
        event_hooks={"response": [limit_body]},
    )
    return client
