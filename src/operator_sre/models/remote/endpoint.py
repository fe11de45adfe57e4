"""The endpoint of a model: provider, address, key, a bounded connection, and its failures."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import math
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from operator_protocols.errors import MissingExtraError, ModelError
from operator_protocols.installation import how_to_add_package
from operator_sre.models.fence import clean, redact_whole

if TYPE_CHECKING:
    import httpx2
    from pydantic_ai.models import Model as Speaker

__all__ = [
    "ANTHROPIC",
    "COMPATIBLE",
    "Endpoint",
    "Line",
    "await_abandoned",
    "model_error",
    "refuses_schema",
    "refuses_stream",
    "refuses_tools",
]

WAIT_S_MAX = 3_600.0
DETAIL_CHARS_MAX = 240
BODY_CHARS_MAX = 4_000
# Client errors that may pass, so they are retried.
_PASSING = frozenset({408, 409, 425, 429})
_REFUSING = frozenset({400, 404, 405, 415, 422, 500, 501})
_TOOLS = re.compile(r"\btools?\b|tool[_ -]?(?:use|choice|call)|function[_ -]?call", re.I)
_SCHEMA = re.compile(r"response_format|json[_ ]?schema|grammar|structured|guided", re.I)
_STREAM = re.compile(r"\bstream", re.I)
# What pydantic-ai reports of a stream without an event.
_NO_STREAM = "Streamed response ended without"
_NEXT_STEPS = {
    400: "The model may not support this request. Test it with: operator models test",
    401: "Check its API key.",
    402: "Add credit to the account.",
    403: "Check its API key and its permissions.",
    404: "Check the name of the model and its base_url.",
}


def model_error(
    error: BaseException, *, name: str, key: str, redact: Callable[[str], str] = str
) -> ModelError:
    """The error for an exception of a library. No message contains the key."""
    from pydantic_ai import exceptions as known

    wait_s = getattr(error, "retry_after", None)
    if not isinstance(wait_s, int | float) or not math.isfinite(wait_s):
        wait_s = 0.0
    wait_s = min(max(float(wait_s), 0.0), WAIT_S_MAX)
    if isinstance(error, known.ModelHTTPError):
        # The message of the endpoint, if it is in the usual place.
        inner = error.body.get("error", error.body) if isinstance(error.body, dict) else error.body
        message = inner.get("message", "") if isinstance(inner, dict) else inner
        detail = _clean_detail(message, key, redact) if isinstance(message, str) else ""
        status = error.status_code
        quota = isinstance(error, known.ModelQuotaExceededError)
        return ModelError(
            f"{name} answered with status {status}{f': {detail}' if detail else '.'}",
            next_step=_NEXT_STEPS.get(402 if quota else status, ""),
            wait_s=wait_s,
            lasting=quota or (status < 500 and status not in _PASSING),
        )
    if isinstance(error, TimeoutError | known.ModelRequestTimeout | known.ModelTimeoutError):
        return ModelError(f"{name} did not answer in time.", wait_s=wait_s, unreachable=True)
    if isinstance(error, known.ModelQuotaExceededError):
        return ModelError(f"{name}: the quota is exhausted.", lasting=True)
    if isinstance(error, known.ModelRequestRejectedError):
        return ModelError(f"{name} rejected the request.", lasting=True)
    if isinstance(error, known.ModelConnectionError):
        problem = f"{name} cannot be reached, or closed the connection."
        return ModelError(problem, wait_s=wait_s, unreachable=True)
    if isinstance(error, known.ModelAPIError):
        return ModelError(f"{name} returned an invalid answer.", wait_s=wait_s)
    if isinstance(error, known.UserError):
        detail = _clean_detail(str(error), key, redact)
        return ModelError(f"{name} does not accept this request: {detail}", lasting=True)
    return ModelError(f"{name} returned an answer that cannot be parsed ({type(error).__name__}).")


def refuses_tools(error: BaseException) -> bool:
    """Whether an endpoint reports that it cannot call tools."""
    return _refuses(error, _TOOLS)


def refuses_schema(error: BaseException) -> bool:
    """Whether an endpoint reports that it does not support a response schema."""
    return _refuses(error, _SCHEMA)


def refuses_stream(error: BaseException) -> bool:
    """Whether an endpoint refuses to stream, or answers in one piece where a stream is expected."""
    from pydantic_ai.exceptions import UnexpectedModelBehavior

    if isinstance(error, UnexpectedModelBehavior):
        return str(error).startswith(_NO_STREAM)
    return _refuses(error, _STREAM)


def _refuses(error: BaseException, words: re.Pattern[str]) -> bool:
    from pydantic_ai.exceptions import ModelHTTPError

    if not isinstance(error, ModelHTTPError) or error.status_code not in _REFUSING:
        return False
    return bool(words.search(str(error.body)[:BODY_CHARS_MAX]))


def _clean_detail(text: str, key: str, redact: Callable[[str], str]) -> str:
    text = text.replace(key, "[the key]") if key else text
    detail = " ".join(clean(redact_whole(text, redact)[:BODY_CHARS_MAX]).split())
    if len(detail) > DETAIL_CHARS_MAX:
        detail = detail[: DETAIL_CHARS_MAX - 1].rpartition(" ")[0] + "…"
    return detail if not detail or detail.endswith((".", "…", "!", "?")) else f"{detail}."


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
                missing.next_step = f"Install it with: {how_to_add_package(package)}"
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


async def await_abandoned() -> None:
    """Wait until the event loop has closed the generators that the libraries have left.

    They stop reading an answer at its last line, or at an error. What is then left of their chain
    is closed by the event loop, each link in a task that starts when the one before it has ended.
    """
    quiet = 0
    # A link that ends in one round of the loop starts the next link in the round after it.
    while quiet < 2:
        await asyncio.sleep(0)
        tasks = asyncio.all_tasks()
        closing = [task for task in tasks if type(task.get_coro()).__name__ == _CLOSING]
        quiet = 0 if closing else quiet + 1
        if closing:
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
