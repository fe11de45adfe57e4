"""One adapter for every model that pydantic-ai can reach: one turn at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from operator_protocols.domain.budget import Prices
from operator_protocols.domain.run import Answer, Ask, Misuse, Spent
from operator_protocols.errors import ModelError
from operator_sre.models.calls import CALLS_MAX, WrittenCalls, actions_text, call_from, find_calls
from operator_sre.models.fence import clean, estimate_tokens, shorten
from operator_sre.models.offers import Offer, offers
from operator_sre.models.prompt import CONTEXT_CHARS_MAX, Conversation, conversation
from operator_sre.models.remote.endpoint import (
    ANTHROPIC,
    COMPATIBLE,
    Endpoint,
    Line,
    await_abandoned,
    model_error,
    refuses_schema,
    refuses_stream,
    refuses_tools,
)
from operator_sre.models.remote.messages import (
    action_messages,
    offer_tools,
    plain_messages,
    require_schema,
    tool_messages,
    written_text,
)

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelResponse
    from pydantic_ai.models import ModelRequestParameters

__all__ = ["RemoteModel", "ToolMode"]

ToolMode = Literal["auto", "native", "json"]

REASONING_CHARS_MAX = 20_000
REDACTED_MAX = 512
# About what the instructions of the system text take.
SYSTEM_TOKENS = 1_000
# Longer answers take minutes and are streamed.
WHOLE_TOKENS_MAX = 16_384
OUTPUT_TOKENS_MAX = 8_192
CONTEXT_TOKENS_MAX = 32_768
# How long a whole answer may take, if it is streamed and never silent for too long.
ANSWER_S_MAX = 600.0
# After so much silence the server is asked whether it is alive, and has as long to answer.
PROBE_S = 5.0
CHARS_PER_TOKEN = 3
_CUT = "cut_off"
_CUT_SENTENCE = (
    "Your answer was cut off because it was too long; write less, and make fewer calls at once."
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

    `timeout_s` bounds the silence of the server; a server that answers nothing at all is given up
    after twice `probe_s`, and the next time after `probe_s`. An answer has up to `calls_max` calls
    and `output_tokens_max` tokens, and fits into `context_tokens_max` with its question.
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
        calls_max: int = CALLS_MAX,
        output_tokens_max: int = OUTPUT_TOKENS_MAX,
        context_tokens_max: int = CONTEXT_TOKENS_MAX,
        probe_s: float = PROBE_S,
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
        self._calls_max = calls_max
        self._output_tokens_max = min(output_tokens_max, context_tokens_max // 2)
        self._context_tokens_max = context_tokens_max
        self._probe_s = probe_s
        # The same texts are sent again in every turn.
        self._redact = lru_cache(REDACTED_MAX)(redact)
        self._guidance = guidance
        self._schema = provider == COMPATIBLE
        self._streams = True
        self._was_dead = False
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
        # An answer with its calls as JSON in a text.
        line = await self._connect()
        given, seconds_max = offers(ask.briefing), ask.left.seconds_max
        messages = action_messages(self._converse(ask, given), given, self._calls_max)
        parameters = require_schema(given, self._calls_max) if self._schema else None
        received = await self._request(line, messages, parameters, seconds_max=seconds_max)
        if isinstance(received, _Failure) and self._schema and received.refuses_schema:
            self._schema = False
            received = await self._request(line, messages, seconds_max=seconds_max)
        if isinstance(received, _Failure):
            raise received.error
        text = _join_texts(received.response)
        inside = find_calls(text, given) or WrittenCalls(text, ())
        return self._answer(inside.reasoning or text, inside.calls, received, ask)

    async def complete(self, system: str, text: str, *, tokens_max: int) -> tuple[str, Spent]:
        """Complete a plain text, as `operator models test` does."""
        line = await self._connect()
        received = await self._request(line, plain_messages(system, text), tokens_max=tokens_max)
        if isinstance(received, _Failure):
            raise received.error
        text = _join_texts(received.response)
        if not text.strip():
            raise ModelError(f"{self.name} returned an empty answer.")
        return text, received.spent

    async def close(self) -> None:
        """Close its connections."""
        line, self._line = self._line, None
        if line is not None:
            await line.close()
            del line  # and with it what only the connection holds
            await await_abandoned()

    async def _answer_by_tools(self, ask: Ask) -> Answer | None:
        """An answer with tool calls; None when the endpoint has no tools and JSON may be tried."""
        line = await self._connect()
        from pydantic_ai.messages import ThinkingPart, ToolCallPart

        given = offers(ask.briefing)
        messages = tool_messages(self._converse(ask, given))
        parameters = offer_tools(given)
        seconds_max = ask.left.seconds_max
        received = await self._request(line, messages, parameters, seconds_max=seconds_max)
        if isinstance(received, _Failure):
            if self._mode == "auto" and received.refuses_tools:
                return None
            raise received.error
        text, parts = _join_texts(received.response), received.response.parts
        calls = [(part.tool_name, part.args) for part in parts if isinstance(part, ToolCallPart)]
        if not calls and self._mode == "auto" and (inside := find_calls(text, given)) is not None:
            self._mode = "json"
            return self._answer(inside.reasoning or text, inside.calls, received, ask)
        if calls and self._mode == "auto":
            self._mode = "native"
        thoughts = (part.content for part in parts if isinstance(part, ThinkingPart))
        text = text or "\n".join(thought for thought in thoughts if thought)
        return self._answer(text, calls, received, ask)

    def _converse(self, ask: Ask, given: Sequence[Offer]) -> Conversation:
        """The conversation, in the room that the tools and the answer leave."""
        tools = estimate_tokens(actions_text(given, self._calls_max))
        room = self._context_tokens_max - self._output_tokens_max - tools - SYSTEM_TOKENS
        return conversation(
            ask,
            redact=self._redact,
            chars_max=min(room * CHARS_PER_TOKEN, CONTEXT_CHARS_MAX),
            guidance=self._guidance,
        )

    def _answer(
        self, text: str, calls: Sequence[tuple[str, Any]], received: _Received, ask: Ask
    ) -> Answer:
        """The reasoning and the calls; a call that was cut off is a Misuse."""
        reasoning = shorten(clean(text).strip(), REASONING_CHARS_MAX)
        most = self._calls_max
        made = [call_from(name, raw, ask, thoughts=reasoning) for name, raw in calls[:most]]
        if len(calls) > most:
            made.append(Misuse(calls[most][0], "", f"A turn has up to {most} calls."))
        if received.response.finish_reason == "length":
            made[-1:] = [Misuse(calls[-1][0] if calls else _CUT, "", _CUT_SENTENCE)]
        if not reasoning and not made:
            raise ModelError(f"{self.name} returned an empty answer.")
        if not reasoning:
            # Without a reasoning, those of the calls stand in.
            reasons = (getattr(call, "reasoning", "") for call in made)
            reasoning = " ".join(dict.fromkeys(filter(None, reasons))) or "No reasoning given."
        return Answer(reasoning, tuple(made), received.spent)

    async def _request(
        self,
        line: Line,
        messages: Sequence[ModelMessage],
        parameters: ModelRequestParameters | None = None,
        *,
        tokens_max: int | None = None,
        seconds_max: float = ANSWER_S_MAX,
    ) -> _Received | _Failure:
        """One request within its limits. An exception of a library becomes a value."""
        tokens_max = tokens_max or self._output_tokens_max
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
        options: dict[str, Any] = {
            "model_settings": settings,
            "model_request_parameters": parameters,
            "instrument": False,
        }
        streams = self._streams and (line.streams or tokens_max > WHOLE_TOKENS_MAX)
        try:
            response = await self._receive(line, messages, options, seconds_max, streams=streams)
        except Exception as error:  # noqa: BLE001  whatever a library raises is no answer
            if streams and refuses_stream(error):
                self._streams = False
                return await self._request(
                    line, messages, parameters, tokens_max=tokens_max, seconds_max=seconds_max
                )
            why = model_error(error, name=self.name, key=self._endpoint.key, redact=self._redact)
            return _Failure(why, refuses_tools(error), refuses_schema(error))
        if response.finish_reason == "content_filter":
            raise ModelError(f"{self.name} refused to answer (content filter).", lasting=True)
        if response.finish_reason == "error":
            raise ModelError(f"{self.name} aborted its answer.")
        return _Received(response, self._price(response, messages, parameters))

    async def _receive(
        self,
        line: Line,
        messages: Sequence[ModelMessage],
        options: Mapping[str, Any],
        seconds_max: float,
        *,
        streams: bool,
    ) -> ModelResponse:
        """The response; TimeoutError when the server is dead, silent for too long, or too slow."""
        from pydantic_ai.direct import model_request, model_request_stream

        # It answered nothing the last time: it gets a question that is cheaper to wait for first.
        if self._was_dead and not await line.is_alive(self._probe_s):
            raise TimeoutError
        self._was_dead = False
        loop = asyncio.get_running_loop()
        heard_at = loop.time()
        ends_at = heard_at + min(seconds_max, max(ANSWER_S_MAX, self._timeout_s))

        async def ask() -> ModelResponse:
            nonlocal heard_at
            if not streams:
                return await model_request(line.speaker, messages, **options)
            async with model_request_stream(line.speaker, messages, **options) as stream:
                async for _ in stream:
                    heard_at = loop.time()
                return stream.get()

        task = asyncio.create_task(ask())
        try:
            while True:
                now = loop.time()
                left_s = min(heard_at + self._timeout_s, ends_at) - now
                if left_s <= 0:
                    raise TimeoutError
                await asyncio.wait({task}, timeout=min(left_s, self._probe_s))
                if task.done():
                    return task.result()
                is_silent = loop.time() - heard_at >= self._probe_s
                if is_silent and not await line.is_alive(self._probe_s) and not task.done():
                    self._was_dead = True
                    raise TimeoutError
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            del task  # it holds an exception whose traceback holds this frame

    async def _connect(self) -> Line:
        """The connection, opened in a thread because importing the libraries takes seconds."""
        loop = asyncio.get_running_loop()
        async with self._connecting:
            if self._line is None or self._loop is not loop:
                line = await asyncio.to_thread(self._endpoint.connect)
                await line.open()
                self._line, self._loop = line, loop
            return self._line

    def _price(
        self,
        response: ModelResponse,
        messages: Sequence[ModelMessage],
        parameters: ModelRequestParameters | None,
    ) -> Spent:
        """What it cost; the tokens that the endpoint does not report are estimated."""
        usage = response.usage
        tokens_in, tokens_out = usage.input_tokens, usage.output_tokens
        if tokens_in <= 0:
            tokens_in = estimate_tokens(written_text(messages, parameters))
        if tokens_out <= 0:
            tokens_out = estimate_tokens(written_text([response], None))
        return self._prices.price(
            tokens_in,
            tokens_out,
            cached=usage.cache_read_tokens,
            cache_written=usage.cache_write_tokens,
        )


@dataclass(frozen=True, slots=True)
class _Received:
    """A response, and what it cost."""

    response: ModelResponse
    spent: Spent


@dataclass(frozen=True, slots=True)
class _Failure:
    """A failed request: our error, and what the endpoint refused."""

    error: ModelError
    refuses_tools: bool
    refuses_schema: bool


def _join_texts(response: ModelResponse) -> str:
    from pydantic_ai.messages import TextPart

    parts = (part.content for part in response.parts if isinstance(part, TextPart))
    return "\n".join(part for part in parts if part)
