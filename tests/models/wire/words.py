"""Replies in the words of two wire formats: Anthropic messages and OpenAI chat completions."""

from __future__ import annotations

import json
from typing import Any

from tests.models.wire.server import Heard, Reply

__all__ = [
    "claude",
    "claude_error",
    "claude_mind",
    "claude_stream",
    "openai",
    "openai_error",
    "openai_mind",
    "tool",
]

Tool = tuple[str, Any]


def tool(name: str, **arguments: object) -> Tool:
    """One tool call."""
    return name, arguments


def claude(
    text: str = "", *tools: Tool, stop: str = "", tokens: tuple[int, int] = (100, 20), **usage: int
) -> Reply:
    """A message of Anthropic."""
    content: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
    for place, (name, arguments) in enumerate(tools):
        use = {"type": "tool_use", "id": f"toolu_{place}", "name": name, "input": arguments}
        content.append(use)
    return Reply.json(
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "claude-test",
            "content": content,
            "stop_reason": stop or ("tool_use" if tools else "end_turn"),
            "stop_sequence": None,
            "usage": {"input_tokens": tokens[0], "output_tokens": tokens[1], **usage},
        }
    )


def claude_error(status: int, kind: str, message: str = "no", **headers: str) -> Reply:
    """An error of Anthropic."""
    error = {"type": "error", "error": {"type": kind, "message": message}}
    return Reply.json(error, status=status, **headers)


def claude_stream(name: str, arguments: object, *, error: str = "") -> Reply:
    """A message of Anthropic with one tool call, as a stream of events, or of one that fails."""
    usage = {"input_tokens": 100, "output_tokens": 1}
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-test"}
    told = json.dumps(arguments)
    parts = [told[: len(told) // 2], told[len(told) // 2 :]]
    use = {"type": "tool_use", "id": "toolu_0", "name": name, "input": {}}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**head, "content": [], "usage": usage}},
        {"type": "content_block_start", "index": 0, "content_block": use},
        *(
            {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "input_json_delta", "partial_json": part},
            }
            for part in parts
        ),
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "tool_use", "stop_sequence": None},
            "usage": {"output_tokens": 20},
        },
        {"type": "message_stop"},
    ]
    if error:
        events[3:] = [{"type": "error", "error": {"type": error, "message": "no"}}]
    body = "".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in events)
    return Reply(body.encode(), headers={"content-type": "text/event-stream"})


def openai(
    text: str | None = None,
    *tools: Tool,
    stop: str = "",
    tokens: tuple[int, int] = (100, 20),
    **message: object,
) -> Reply:
    """A chat completion; the arguments of a tool may be any text."""
    calls = [
        {
            "id": f"call_{place}",
            "type": "function",
            "function": {
                "name": name,
                "arguments": told if isinstance(told, str) else json.dumps(told),
            },
        }
        for place, (name, told) in enumerate(tools)
    ]
    said = {"role": "assistant", "content": text, **({"tool_calls": calls} if calls else {})}
    choice = {
        "index": 0,
        "message": {**said, **message},
        "finish_reason": stop or ("tool_calls" if calls else "stop"),
    }
    usage = {"prompt_tokens": tokens[0], "completion_tokens": tokens[1]}
    return Reply.json(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": "local",
            "choices": [choice],
            "usage": {**usage, "total_tokens": sum(tokens)},
        }
    )


def openai_error(status: int, message: str, **headers: str) -> Reply:
    """An error of an OpenAI-compatible server."""
    return Reply.json({"error": {"message": message, "type": "error"}}, status=status, **headers)


def claude_mind(heard: Heard) -> Reply:
    """A mind that looks twice and then gives up, whatever it is told."""
    schemas = {one["name"]: one["input_schema"] for one in heard.body["tools"]}
    results = sum(
        part.get("type") == "tool_result"
        for message in heard.body["messages"]
        for part in message["content"]
        if isinstance(part, dict)
    )
    return claude("I look first.", _next(schemas, results))


def openai_mind(heard: Heard) -> Reply:
    """The same mind behind another API."""
    schemas = {
        one["function"]["name"]: one["function"]["parameters"] for one in heard.body["tools"]
    }
    results = sum(message["role"] == "tool" for message in heard.body["messages"])
    return openai("I look first.", _next(schemas, results))


def _next(schemas: dict[str, Any], results: int) -> Tool:
    if results >= 2:
        return tool("escalate", reason="I have looked twice and know nothing.")
    look = tool("shell", command="ps aux", reasoning="What runs?")
    places = schemas["shell"]["properties"]["target"].get("enum", [])
    return look[0], {**look[1], **({"target": places[0]} if places else {})}
