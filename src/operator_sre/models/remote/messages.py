"""A conversation as the messages of pydantic-ai."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from operator_sre.models.calls import actions_text, turn_schema
from operator_sre.models.offers import Offer
from operator_sre.models.prompt import Conversation

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage
    from pydantic_ai.models import ModelRequestParameters

__all__ = [
    "action_messages",
    "offer_tools",
    "plain_messages",
    "require_schema",
    "tool_messages",
    "written_text",
]


def tool_messages(talk: Conversation) -> list[ModelMessage]:
    """The messages for a model that calls tools."""
    from pydantic_ai import messages as m

    first: list[m.ModelRequestPart] = [
        m.SystemPromptPart(talk.system),
        m.UserPromptPart(talk.opening),
    ]
    found: list[ModelMessage] = []
    parts = first
    for exchange in talk.exchanges:
        found.append(m.ModelRequest(parts))
        reply: list[m.ModelResponsePart] = []
        if exchange.reasoning.strip() or not exchange.calls:
            reply.append(m.TextPart(exchange.reasoning.strip() or "(nothing)"))
        for call in exchange.calls:
            reply.append(m.ToolCallPart(call.name, dict(call.arguments), call.id))
        found.append(m.ModelResponse(reply))
        parts = [m.ToolReturnPart(call.name, call.result, call.id) for call in exchange.calls]
    # What comes before the closing is the same in the next turn, so it is cached up to there.
    found.append(m.ModelRequest([*parts, m.UserPromptPart([m.CachePoint(), talk.closing])]))
    return found


def action_messages(
    talk: Conversation, given: Sequence[Offer], calls_max: int
) -> list[ModelMessage]:
    """The messages for a model that writes its calls as JSON."""
    from pydantic_ai import messages as m

    system = f"{talk.system}\n\n{actions_text(given, calls_max)}"
    found: list[ModelMessage] = []
    parts: list[m.ModelRequestPart] = [m.SystemPromptPart(system)]
    text = talk.opening
    for exchange in talk.exchanges:
        written, result = exchange.texts()
        found.append(m.ModelRequest([*parts, m.UserPromptPart(text)]))
        found.append(m.ModelResponse([m.TextPart(written)]))
        parts, text = [], result
    found.append(m.ModelRequest([*parts, m.UserPromptPart(f"{text}\n\n{talk.closing}")]))
    return found


def plain_messages(system: str, text: str) -> list[ModelMessage]:
    """The messages for a single question."""
    from pydantic_ai import messages as m

    return [m.ModelRequest([m.SystemPromptPart(system), m.UserPromptPart(text)])]


def offer_tools(given: Sequence[Offer]) -> ModelRequestParameters:
    """The request parameters that offer these tools."""
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.tools import ToolDefinition

    tools = [
        ToolDefinition(
            name=offer.name,
            description=offer.sentence,
            parameters_json_schema=offer.schema,
            strict=False,  # a strict schema allows no optional arguments, and ours has some
        )
        for offer in given
    ]
    return ModelRequestParameters(function_tools=tools)


def require_schema(given: Sequence[Offer], calls_max: int) -> ModelRequestParameters:
    """The request parameters that require the schema of the JSON mode."""
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.output import OutputObjectDefinition

    shape = OutputObjectDefinition(
        json_schema=turn_schema(given, calls_max), name="turn", strict=False
    )
    return ModelRequestParameters(output_mode="native", output_object=shape)


def written_text(
    messages: Sequence[ModelMessage], parameters: ModelRequestParameters | None
) -> str:
    """About what goes over the wire, to estimate its tokens."""
    parts = [
        str(getattr(part, "content", "") or getattr(part, "args", ""))
        for message in messages
        for part in message.parts
    ]
    tools = parameters.function_tools if parameters is not None else ()
    parts += [f"{tool.name} {tool.description} {tool.parameters_json_schema}" for tool in tools]
    return "\n".join(parts)
