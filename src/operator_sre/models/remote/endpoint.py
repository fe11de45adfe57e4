"""Where a model is: its provider, its address, its key, and a bounded way to speak to it."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from operator_protocols.errors import MissingExtraError, ModelError

if TYPE_CHECKING:
    import httpx2
    from pydantic_ai.models import Model as Speaker

__all__ = ["ANTHROPIC", "COMPATIBLE", "Endpoint", "Line"]

ANTHROPIC = "anthropic"
COMPATIBLE = "openai-compatible"
CONNECT_S = 10.0
ANSWER_BYTES_MAX = 8_000_000
# What is sent where no key is needed, so that no library looks for one in the environment.
NO_KEY = "none"
_ADDRESSES = ("base_url", "api_base", "azure_endpoint")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Who is asked, and where. The key is never shown."""

    provider: str
    model: str
    base_url: str = ""
    key: str = field(default="", repr=False)

    def connect(self) -> Line:
        """A way to speak to it. The libraries are imported here, which takes a while."""
        try:
            import pydantic_ai.direct  # noqa: F401 - so that the first question finds it loaded

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
                    f"The library of the model provider {self.provider!r} is not installed."
                )
                missing.next_step = f"Install it with: pip install '{package}'"
            raise missing from None

    def _connect_anthropic(self) -> Line:
        from pydantic_ai.models.anthropic import AnthropicModel
        from pydantic_ai.providers.anthropic import AnthropicProvider

        if not self.key and not self.base_url:
            raise ModelError(
                "No key is set for Anthropic.",
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
                "An OpenAI-compatible model needs the address of its server.",
                next_step="Set base_url of the model in operator.toml.",
                lasting=True,
            )
        client = _make_client()
        provider = OpenAICompatibleProvider(
            COMPATIBLE,
            base_url=self.base_url,
            api_key=self.key or NO_KEY,
            http_client=client,
            # Every server of this kind knows `max_tokens`; few know its younger sibling.
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
            raise self._unusable("is not known to pydantic-ai") from None
        taken = inspect.signature(kind).parameters
        given: dict[str, Any] = {}
        if self.base_url:
            address = next((name for name in _ADDRESSES if name in taken), None)
            if address is None:
                raise self._unusable("takes no base_url")
            given[address] = self.base_url
        if "api_key" in taken and (self.key or self.base_url):
            given["api_key"] = self.key or NO_KEY
        if "http_client" not in taken:
            raise self._unusable("brings its own connections, whose answers have no bound")
        # Whose connections a provider takes: few still want those of the elder library.
        annotation = str(taken["http_client"].annotation)
        elder = "httpx." in annotation and "httpx2" not in annotation
        client = given["http_client"] = _make_client("httpx" if elder else "httpx2")
        try:
            speaker = infer_model(f"{self.provider}:{self.model}", lambda _: kind(**given))
        except (UserError, TypeError):
            raise self._unusable("cannot be used with what is configured") from None
        return Line(speaker, client)

    def _unusable(self, why: str) -> ModelError:
        return ModelError(
            f"The provider {self.provider!r} {why}.",
            next_step=f"Use {ANTHROPIC}, {COMPATIBLE} with a base_url, or a provider's own name;"
            " its key belongs into key_env or key_file.",
            lasting=True,
        )


@dataclass(frozen=True, slots=True)
class Line:
    """An open way to a model, with the connections that belong to it."""

    speaker: Speaker
    client: httpx2.AsyncClient

    async def open(self) -> None:
        """Take hold of the connections, also of those that belong to the library."""
        await self.speaker.__aenter__()

    async def close(self) -> None:
        """Let go of the connections."""
        await self.speaker.__aexit__(None, None, None)
        await self.client.aclose()


def _make_client(library: str = "httpx2") -> httpx2.AsyncClient:
    """Connections that follow no redirection, because a key would follow too, and end in time."""
    # Both libraries have the same names, and the same methods behind them.
    http: Any = importlib.import_module(library)

    class Bounded(http.AsyncByteStream):  # type: ignore[misc]
        """A body that ends in an error when it is longer than any answer has to be."""

        def __init__(self, body: httpx2.AsyncByteStream) -> None:
            self._body = body

        async def __aiter__(self) -> AsyncIterator[bytes]:
            taken = 0
            async for part in self._body:
                taken += len(part)
                if taken > ANSWER_BYTES_MAX:
                    raise http.RemoteProtocolError("the answer is too long")
                yield part

        async def aclose(self) -> None:
            await self._body.aclose()

    async def bound(response: httpx2.Response) -> None:
        # What is packed is longer than the bytes that are counted here.
        if response.headers.get("content-encoding", "identity").strip().lower() != "identity":
            raise http.RemoteProtocolError("the answer is packed, which nobody asked for")
        assert isinstance(response.stream, http.AsyncByteStream)
        response.stream = Bounded(response.stream)

    client: httpx2.AsyncClient = http.AsyncClient(
        timeout=http.Timeout(None, connect=CONNECT_S),
        follow_redirects=False,
        headers={"accept-encoding": "identity"},
        event_hooks={"response": [bound]},
    )
    return client
