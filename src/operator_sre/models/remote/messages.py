"""A conversation as the messages of pydantic-ai."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from operator_sre.models.calls import ACTION_SCHEMA, actions_text
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
]


def tool_messages(told: Conversation) -> list[ModelMessage]:
    """With tool calls and their results, as a model that calls tools knows them."""
    from pydantic_ai import messages as m

    first: list[m.ModelRequestPart] = [
        m.SystemPromptPart(told.system),
        m.UserPromptPart(told.opening),
    ]
    found: list[ModelMessage] = []
    parts = first
    for exchange in told.exchanges:
        found.append(m.ModelRequest(parts))
        said: list[m.ModelResponsePart] = []
        if exchange.reasoning.strip() or not exchange.calls:
            said.append(m.TextPart(exchange.reasoning.strip() or "(nothing)"))
        for one in exchange.calls:
            said.append(m.ToolCallPart(one.name, dict(one.arguments), one.id))
        found.append(m.ModelResponse(said))
        parts = [m.ToolReturnPart(one.name, one.result, one.id) for one in exchange.calls]
    found.append(m.ModelRequest([*parts, m.UserPromptPart(told.closing)]))
    return found


def action_messages(told: Conversation, given: Sequence[Offer]) -> list[ModelMessage]:
    """With calls as JSON in plain text."""
    from pydantic_ai import messages as m

    system = f"{told.system}\n\n{actions_text(given)}"
    found: list[ModelMessage] = []
    parts: list[m.ModelRequestPart] = [m.SystemPromptPart(system)]
    text = told.opening
    for exchange in told.exchanges:
        said, result = exchange.texts()
        found.append(m.ModelRequest([*parts, m.UserPromptPart(text)]))
        found.append(m.ModelResponse([m.TextPart(said)]))
        parts, text = [], result
    found.append(m.ModelRequest([*parts, m.UserPromptPart(f"{text}\n\n{told.closing}")]))
    return found


def plain_messages(system: str, text: str) -> list[ModelMessage]:
    """One question."""
    from pydantic_ai import messages as m

    return [m.ModelRequest([m.SystemPromptPart(system), m.UserPromptPart(text)])]


def offer_tools(given: Sequence[Offer]) -> ModelRequestParameters:
    """The tools that may be called."""
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.tools import ToolDefinition

    tools = [
        ToolDefinition(
            name=one.name,
            description=one.sentence,
            parameters_json_schema=one.schema,
            strict=False,  # a strict schema allows no optional arguments, and ours has some
        )
        for one in given
    ]
    return ModelRequestParameters(function_tools=tools)


def require_schema() -> ModelRequestParameters:
    """An answer by the schema of the action mode."""
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.output import OutputObjectDefinition

    shape = OutputObjectDefinition(json_schema=ACTION_SCHEMA, name="turn", strict=False)
    return ModelRequestParameters(output_mode="native", output_object=shape)
