"""One adapter for every model that pydantic-ai can reach: one turn at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from operator_protocols.domain.prices import Prices
from operator_protocols.domain.run import Answer, Ask, Misuse, Spent
from operator_protocols.errors import ModelError
from operator_sre.models.calls import CALLS_MAX, WrittenCalls, call_from, find_calls
from operator_sre.models.fence import clean, shorten
from operator_sre.models.offers import offers
from operator_sre.models.prompt import CONTEXT_CHARS_MAX, Conversation, conversation
from operator_sre.models.remote.endpoint import ANTHROPIC, COMPATIBLE, Endpoint, Line
from operator_sre.models.remote.errors import model_error, refuses_schema, refuses_tools
from operator_sre.models.remote.messages import (
    action_messages,
    offer_tools,
    plain_messages,
    require_schema,
    tool_messages,
)

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelResponse
    from pydantic_ai.models import ModelRequestParameters

__all__ = ["RemoteModel", "ToolMode"]

ToolMode = Literal["auto", "native", "json"]

REASONING_CHARS_MAX = 20_000
REDACTED_MAX = 512
SHOWN_CHARS_MAX = 500
# Longer answers take minutes and are streamed.
WHOLE_TOKENS_MAX = 16_384
_CUT = "cut_off"
_CUT_SENTENCE = (
    "Your answer was cut off because it was too long; write less, and make fewer calls at once."
)
_FORM_SENTENCE = (
    'No tool was called: answer with one JSON object {"reasoning": ..., "calls": [...]}.'
)


class RemoteModel:
    """A model behind an API.

    `provider` is `anthropic`, `openai-compatible` (with a `base_url`: Ollama, vLLM, llama.cpp, LM
    Studio) or any other name that pydantic-ai knows. `key` stays in memory and is never shown.
    `redact` removes secrets from all external text before it is sent. Nothing is imported or
    connected before the first request. Raises ModelError when it does not
    answer, and MissingExtraError when the library for its provider is not installed.

    With `tools="auto"` the model is offered tools until the endpoint refuses them or the model
    writes its calls as text; from then on it is asked for JSON.
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
        # Anthropic itself always supports tools, and mentions them in unrelated errors.
        certain = tools == "auto" and provider == ANTHROPIC and not base_url
        self._mode: ToolMode = "native" if certain else tools
        self._temperature = temperature
        self._tokens_out_max = tokens_out_max
        self._context_chars_max = context_chars_max
        # The same texts are sent again in every turn.
        self._redact = lru_cache(REDACTED_MAX)(redact)
        self._guidance = guidance
        self._schema = provider == COMPATIBLE
        self._line: Line | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._connecting = asyncio.Lock()

    @property
    def name(self) -> str:
        """Its name in the ledger."""
        return self._name

    @property
    def mode(self) -> ToolMode:
        """The current mode; `auto` until it is known whether the model can call tools."""
        return self._mode

    async def answer(self, ask: Ask) -> Answer:
        """One turn: its reasoning and its calls, in order."""
        if self._mode != "json":
            answer = await self._answer_by_tools(ask)
            if answer is not None:
                return answer
            self._mode = "json"  # remembered: the endpoint is not asked for tools again
        return await self._answer_by_json(ask)

    async def complete(self, system: str, text: str, *, tokens_max: int) -> tuple[str, Spent]:
        """Complete a plain text, as `operator models test` does."""
        line = await self._connect()
        response = await self._request(line, plain_messages(system, text), tokens_max=tokens_max)
        if isinstance(response, _Failure):
            raise response.error
        text = _join_texts(response)
        if not text.strip():
            raise ModelError(f"{self.name} returned an empty answer.")
        return text, self._price(response)

    async def close(self) -> None:
        """Close its connections."""
        line, self._line = self._line, None
        if line is not None:
            await line.close()

    async def _answer_by_tools(self, ask: Ask) -> Answer | None:
        """An answer with tool calls; None when the endpoint has no tools and JSON may be tried."""
        line = await self._connect()
        from pydantic_ai.messages import ThinkingPart, ToolCallPart

        given = offers(ask.briefing)
        messages = tool_messages(self._converse(ask))
        response = await self._request(line, messages, parameters=offer_tools(given))
        if isinstance(response, _Failure):
            if self._mode == "auto" and refuses_tools(response.cause):
                return None
            raise response.error
        text, parts = _join_texts(response), response.parts
        calls = [(part.tool_name, part.args) for part in parts if isinstance(part, ToolCallPart)]
        if not calls and self._mode == "auto" and (inside := find_calls(text, given)) is not None:
            self._mode = "json"
            return self._answer(inside.reasoning or text, inside.calls, response, ask)
        if calls and self._mode == "auto":
            self._mode = "native"
        thoughts = (part.content for part in parts if isinstance(part, ThinkingPart))
        text = text or "\n".join(thought for thought in thoughts if thought)
        return self._answer(text, calls, response, ask)

    async def _answer_by_json(self, ask: Ask) -> Answer:
        """An answer with its calls as JSON in a text."""
        line = await self._connect()
        given = offers(ask.briefing)
        messages = action_messages(self._converse(ask), given)
        parameters = require_schema() if self._schema else None
        response = await self._request(line, messages, parameters=parameters)
        if isinstance(response, _Failure) and self._schema and refuses_schema(response.cause):
            self._schema = False
            response = await self._request(line, messages)
        if isinstance(response, _Failure):
            raise response.error
        text = _join_texts(response)
        inside = find_calls(text, given) or WrittenCalls(text, ())
        if inside.calls or response.finish_reason == "length":
            return self._answer(inside.reasoning or text, inside.calls, response, ask)
        if not text.strip():
            raise ModelError(f"{self.name} returned an empty answer.")
        shown = clean(text)
        misuse = Misuse("answer", shorten(shown, SHOWN_CHARS_MAX), _FORM_SENTENCE)
        return Answer(shorten(shown, REASONING_CHARS_MAX), (misuse,), self._price(response))

    def _converse(self, ask: Ask) -> Conversation:
        return conversation(
            ask,
            redact=self._redact,
            chars_max=self._context_chars_max,
            guidance=self._guidance,
        )

    def _answer(
        self, text: str, calls: Sequence[tuple[str, Any]], response: ModelResponse, ask: Ask
    ) -> Answer:
        """The reasoning and the calls; a call that was cut off is a Misuse."""
        reasoning = shorten(clean(text).strip(), REASONING_CHARS_MAX)
        made = [call_from(name, raw, ask, thoughts=reasoning) for name, raw in calls[:CALLS_MAX]]
        if len(calls) > CALLS_MAX:
            made.append(Misuse(calls[CALLS_MAX][0], "", f"A turn has up to {CALLS_MAX} calls."))
        if response.finish_reason == "length":
            made[-1:] = [Misuse(calls[-1][0] if calls else _CUT, "", _CUT_SENTENCE)]
        if not reasoning and not made:
            raise ModelError(f"{self.name} returned an empty answer.")
        if not reasoning:
            # Without a reasoning, those of the calls stand in.
            reasons = (getattr(call, "reasoning", "") for call in made)
            reasoning = " ".join(dict.fromkeys(filter(None, reasons))) or "No reasoning given."
        return Answer(reasoning, tuple(made), self._price(response))

    async def _request(
        self,
        line: Line,
        messages: Sequence[ModelMessage],
        *,
        parameters: ModelRequestParameters | None = None,
        tokens_max: int | None = None,
    ) -> ModelResponse | _Failure:
        """One request within its timeout. An exception of a library becomes a value."""
        from pydantic_ai.direct import model_request, model_request_stream

        tokens_max = tokens_max or self._tokens_out_max
        settings: dict[str, Any] = {
            "max_tokens": tokens_max,
            "timeout": self._timeout_s,
            "max_retries": 0,  # Patient retries already
        }
        if self._temperature is not None:
            settings["temperature"] = self._temperature
        if self._endpoint.provider == ANTHROPIC:
            settings["anthropic_cache_instructions"] = True
            settings["anthropic_cache_tool_definitions"] = True
            settings["anthropic_cache_messages"] = True
        options: dict[str, Any] = {
            "model_settings": settings,
            "model_request_parameters": parameters,
            "instrument": False,
        }
        try:
            async with asyncio.timeout(self._timeout_s):
                if tokens_max <= WHOLE_TOKENS_MAX:
                    response = await model_request(line.speaker, messages, **options)
                else:
                    # Streamed, so that no proxy times out during a long answer.
                    async with model_request_stream(line.speaker, messages, **options) as stream:
                        async for _ in stream:
                            pass
                        response = stream.get()
        except Exception as error:  # noqa: BLE001  whatever a library raises is no answer
            why = model_error(error, name=self.name, key=self._endpoint.key, redact=self._redact)
            return _Failure(why, error)
        if response.finish_reason == "content_filter":
            raise ModelError(f"{self.name} refused to answer (content filter).", lasting=True)
        if response.finish_reason == "error":
            raise ModelError(f"{self.name} aborted its answer.")
        return response

    async def _connect(self) -> Line:
        """The connection, opened in a thread because importing the libraries takes seconds."""
        loop = asyncio.get_running_loop()
        async with self._connecting:
            if self._line is None or self._loop is not loop:
                line = await asyncio.to_thread(self._endpoint.connect)
                await line.open()
                self._line, self._loop = line, loop
            return self._line

    def _price(self, response: ModelResponse) -> Spent:
        usage = response.usage
        return self._prices.price(
            usage.input_tokens,
            usage.output_tokens,
            cached=usage.cache_read_tokens,
            cache_written=usage.cache_write_tokens,
        )


@dataclass(frozen=True, slots=True)
class _Failure:
    """A failed request: our error, and the exception of the library."""

    error: ModelError
    cause: Exception


def _join_texts(response: ModelResponse) -> str:
    from pydantic_ai.messages import TextPart

    parts = (part.content for part in response.parts if isinstance(part, TextPart))
    return "\n".join(part for part in parts if part)
