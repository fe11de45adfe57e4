"""One adapter for every model that pydantic-ai can reach: one turn at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from operator_protocols.domain.prices import Prices
from operator_protocols.domain.run import Answer, Ask, Call, Misuse, Spent
from operator_protocols.errors import ModelError
from operator_sre.models.actions import Written, written
from operator_sre.models.calls import CALLS_MAX, call_from
from operator_sre.models.fence import cleaned, shortened
from operator_sre.models.offers import offers
from operator_sre.models.prompt import CONTEXT_CHARS_MAX, Conversation, conversation
from operator_sre.models.remote.endpoint import ANTHROPIC, COMPATIBLE, Endpoint, Line
from operator_sre.models.remote.errors import model_error, refuses_schema, refuses_tools

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelResponse
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.settings import ModelSettings

__all__ = ["RemoteModel", "ToolMode"]

ToolMode = Literal["auto", "native", "json"]

REASONING_CHARS_MAX = 20_000
REDACTED_MAX = 512
SHOWN_CHARS_MAX = 500
# What may be longer takes minutes, and is streamed.
WHOLE_TOKENS_MAX = 16_384
_CUT = "cut_off"
_CUT_SENTENCE = (
    "Your answer was cut off because it was too long; say less, and make fewer calls at once."
)
_FORM_SENTENCE = (
    'Nothing was called: answer with one JSON object {"reasoning": ..., "calls": [...]}.'
)


class RemoteModel:
    """A model behind an API.

    `provider` is `anthropic`, `openai-compatible` (with a `base_url`: Ollama, vLLM, llama.cpp, LM
    Studio) or any other name that pydantic-ai knows. `key` stays in memory and is never shown.
    `redact` takes secrets out of everything that came from outside before it is sent. Nothing is
    imported and nothing is connected before the first question. Raises ModelError when it does not
    answer, and MissingExtraError when the library for its provider is not installed.

    With `tools="auto"` it is offered tools, until the endpoint refuses them or the model writes its
    calls as text: from then on it is asked for JSON.
    """

    def __init__(
        self,
        *,
        name: str,
        provider: str,
        model: str,
        base_url: str = "",
        key: str = "",
        prices: Prices | None = None,
        timeout_s: float = 120.0,
        tools: ToolMode = "auto",
        temperature: float | None = None,
        tokens_out_max: int = 8_192,
        context_chars_max: int = CONTEXT_CHARS_MAX,
        redact: Callable[[str], str] = str,
        guidance: str = "",
    ) -> None:
        self._name = name
        self._endpoint = Endpoint(provider, model, base_url, key)
        self._prices = prices or Prices()
        self._timeout_s = timeout_s
        # Anthropic itself always has tools, and its complaints about a request speak of them.
        certain = tools == "auto" and provider == ANTHROPIC and not base_url
        self._mode: ToolMode = "native" if certain else tools
        self._temperature = temperature
        self._tokens_out_max = tokens_out_max
        self._context_chars_max = context_chars_max
        # The same texts are told again with every turn.
        self._redact = lru_cache(REDACTED_MAX)(redact)
        self._guidance = guidance
        self._schema = provider == COMPATIBLE
        self._line: Line | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._connecting = asyncio.Lock()

    @property
    def name(self) -> str:
        """Who speaks, in the ledger."""
        return self._name

    @property
    def mode(self) -> ToolMode:
        """How it is asked now; `auto` until it is known whether it can call tools."""
        return self._mode

    async def answer(self, ask: Ask) -> Answer:
        """One turn: what it thinks and what it calls, in order."""
        if self._mode != "json":
            answer = await self._native(ask)
            if answer is not None:
                return answer
            self._mode = "json"  # remembered: the endpoint is not asked for tools again
        return await self._by_json(ask)

    async def complete(self, system: str, text: str, *, tokens_max: int) -> tuple[str, Spent]:
        """Plain text for a plain text; what `operator models test` asks."""
        from operator_sre.models.remote.messages import plain_messages

        line = await self._connected()
        response = await self._request(line, plain_messages(system, text), tokens_max=tokens_max)
        if isinstance(response, _Failure):
            raise response.error
        said = _texts(response)
        if not said.strip():
            raise ModelError(f"{self.name} said nothing.")
        return said, self._spent(response)

    async def close(self) -> None:
        """Let go of its connections."""
        line, self._line = self._line, None
        if line is not None:
            await line.close()

    async def _native(self, ask: Ask) -> Answer | None:
        """An answer with tool calls; None when the endpoint has no tools and may be asked else."""
        line = await self._connected()
        from operator_sre.models.remote.messages import offered, tool_messages

        given = offers(ask.briefing)
        messages = tool_messages(self._told(ask))
        response = await self._request(line, messages, parameters=offered(given))
        if isinstance(response, _Failure):
            if self._mode == "auto" and refuses_tools(response.cause):
                return None
            raise response.error
        said, calls = _texts(response), _calls(response)
        if not calls and self._mode == "auto" and (text := written(said, given)) is not None:
            self._mode = "json"
            return self._answer(text.reasoning or said, text.calls, response, ask)
        if calls and self._mode == "auto":
            self._mode = "native"
        return self._answer(said or _thoughts(response), calls, response, ask)

    async def _by_json(self, ask: Ask) -> Answer:
        """An answer with its calls as JSON in a text."""
        line = await self._connected()
        from operator_sre.models.remote.messages import action_messages, with_schema

        given = offers(ask.briefing)
        messages = action_messages(self._told(ask), given)
        parameters = with_schema() if self._schema else None
        response = await self._request(line, messages, parameters=parameters)
        if isinstance(response, _Failure) and self._schema and refuses_schema(response.cause):
            self._schema = False
            response = await self._request(line, messages)
        if isinstance(response, _Failure):
            raise response.error
        said = _texts(response)
        text = written(said, given) or Written(said, ())
        if text.calls or response.finish_reason == "length":
            return self._answer(text.reasoning or said, text.calls, response, ask)
        if not said.strip():
            raise ModelError(f"{self.name} said nothing.")
        told = cleaned(said)
        misuse = Misuse("answer", shortened(told, SHOWN_CHARS_MAX), _FORM_SENTENCE)
        return Answer(shortened(told, REASONING_CHARS_MAX), (misuse,), self._spent(response))

    def _told(self, ask: Ask) -> Conversation:
        return conversation(
            ask,
            redact=self._redact,
            chars_max=self._context_chars_max,
            guidance=self._guidance,
        )

    def _answer(
        self, said: str, calls: Sequence[tuple[str, Any]], response: ModelResponse, ask: Ask
    ) -> Answer:
        """What was said and called; a call that was cut off is one that makes no sense."""
        reasoning = shortened(cleaned(said).strip(), REASONING_CHARS_MAX)
        found = [call_from(name, raw, ask, said=reasoning) for name, raw in calls[:CALLS_MAX]]
        if len(calls) > CALLS_MAX:
            found.append(Misuse(calls[CALLS_MAX][0], "", f"A turn has up to {CALLS_MAX} calls."))
        if response.finish_reason == "length":
            found[-1:] = [Misuse(calls[-1][0] if calls else _CUT, "", _CUT_SENTENCE)]
        if not reasoning and not found:
            raise ModelError(f"{self.name} said nothing.")
        return Answer(reasoning or _reasons(found), tuple(found), self._spent(response))

    async def _request(
        self,
        line: Line,
        messages: Sequence[ModelMessage],
        *,
        parameters: ModelRequestParameters | None = None,
        tokens_max: int | None = None,
    ) -> ModelResponse | _Failure:
        """One question over the wire, within its time. Whatever a library raises is a value."""
        tokens_max = tokens_max or self._tokens_out_max
        settings = self._settings(tokens_max)
        ask = _whole if tokens_max <= WHOLE_TOKENS_MAX else _streamed
        try:
            async with asyncio.timeout(self._timeout_s):
                response = await ask(line, messages, settings, parameters)
        except Exception as error:  # noqa: BLE001  whatever a library raises is no answer
            told = model_error(error, name=self.name, key=self._endpoint.key, redact=self._redact)
            return _Failure(told, error)
        if response.finish_reason == "content_filter":
            raise ModelError(f"{self.name} refuses to answer this.", lasting=True)
        if response.finish_reason == "error":
            raise ModelError(f"{self.name} broke off its answer.")
        return response

    def _settings(self, tokens_max: int) -> ModelSettings:
        found: dict[str, Any] = {
            "max_tokens": tokens_max,
            "timeout": self._timeout_s,
            "max_retries": 0,  # whoever is patient tries again; twice would be too much
        }
        if self._temperature is not None:
            found["temperature"] = self._temperature
        if self._endpoint.provider == ANTHROPIC:
            found["anthropic_cache_instructions"] = True
            found["anthropic_cache_tool_definitions"] = True
            found["anthropic_cache_messages"] = True
        return found  # type: ignore[return-value]

    async def _connected(self) -> Line:
        """The line, opened in a thread because importing the libraries takes seconds."""
        loop = asyncio.get_running_loop()
        async with self._connecting:
            if self._line is None or self._loop is not loop:
                line = await asyncio.to_thread(self._endpoint.connect)
                await line.open()
                self._line, self._loop = line, loop
            return self._line

    def _spent(self, response: ModelResponse) -> Spent:
        usage = response.usage
        return self._prices.spent(
            usage.input_tokens,
            usage.output_tokens,
            cached=usage.cache_read_tokens,
            cache_written=usage.cache_write_tokens,
        )


@dataclass(frozen=True, slots=True)
class _Failure:
    """A question without an answer: what is told of it, and what the library raised."""

    error: ModelError
    cause: Exception


async def _whole(
    line: Line,
    messages: Sequence[ModelMessage],
    settings: ModelSettings,
    parameters: ModelRequestParameters | None,
) -> ModelResponse:
    """The answer in one piece."""
    from pydantic_ai.direct import model_request

    return await model_request(
        line.speaker,
        messages,
        model_settings=settings,
        model_request_parameters=parameters,
        instrument=False,
    )


async def _streamed(
    line: Line,
    messages: Sequence[ModelMessage],
    settings: ModelSettings,
    parameters: ModelRequestParameters | None,
) -> ModelResponse:
    """The answer piece by piece, so that nobody between us takes a long one for silence."""
    from pydantic_ai.direct import model_request_stream

    async with model_request_stream(
        line.speaker,
        messages,
        model_settings=settings,
        model_request_parameters=parameters,
        instrument=False,
    ) as stream:
        async for _ in stream:
            pass
        return stream.get()


def _texts(response: ModelResponse) -> str:
    from pydantic_ai.messages import TextPart

    parts = (part.content for part in response.parts if isinstance(part, TextPart))
    return "\n".join(part for part in parts if part)


def _thoughts(response: ModelResponse) -> str:
    from pydantic_ai.messages import ThinkingPart

    parts = (part.content for part in response.parts if isinstance(part, ThinkingPart))
    return "\n".join(part for part in parts if part)


def _calls(response: ModelResponse) -> list[tuple[str, Any]]:
    from pydantic_ai.messages import ToolCallPart

    return [(one.tool_name, one.args) for one in response.parts if isinstance(one, ToolCallPart)]


def _reasons(calls: Sequence[Call]) -> str:
    """What stands for a reasoning that was not given: the reasons of the calls."""
    found = (getattr(call, "reasoning", "") for call in calls)
    return " ".join(dict.fromkeys(one for one in found if one)) or "It does not say why."
