"""Asking a node or a store to do something, for tools and for the lab; failures are one error."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

import httpx2

from operator_protocols.domain.target import Target
from operator_protocols.errors import OperatorError
from operator_sre.subjects.ratelimiter.nodes import client_for, headers_of, sentence, url_of
from operator_sre.subjects.ratelimiter.resp import (
    NonsenseError,
    Refusal,
    Reply,
    addresses_of,
    connected,
)
from operator_sre.subjects.ratelimiter.stores import password_of

__all__ = ["TalkError", "api", "command", "in_path", "role_of"]

ANSWER_S_MAX = 5.0
BODY_CHARS_MAX = 300

Secret = Callable[[str], str]


class TalkError(OperatorError):
    """A node or a store did not do what it was asked; the message says who and why."""


async def api(
    target: Target,
    method: str,
    path: str,
    *,
    secret: Secret,
    body: Mapping[str, Any] | None = None,
    timeout_s: float = ANSWER_S_MAX,
) -> dict[str, Any]:
    """The JSON answer of a node to one request; TalkError when there is none."""
    host, port = addresses_of(target)[0]
    url = url_of(target, host, port) + path
    try:
        async with asyncio.timeout(timeout_s), client_for((target,), timeout_s) as client:
            answer = await client.request(
                method, url, json=body, headers=headers_of(target, secret)
            )
        said = answer.json()
    except (TimeoutError, httpx2.TimeoutException) as error:
        raise TalkError(f"{target.name} does not answer within {timeout_s:g} s.") from error
    except httpx2.HTTPError as error:
        raise TalkError(f"{target.name} does not answer: {sentence(error)}.") from error
    except (OSError, RecursionError, ValueError) as error:
        raise TalkError(f"{target.name} answered nonsense to {method} {path}.") from error
    if answer.status_code != 200 or not isinstance(said, dict):
        detail = said.get("detail", said) if isinstance(said, dict) else said
        text = detail if isinstance(detail, str) else json.dumps(detail)
        raise TalkError(f"{target.name} answered {answer.status_code}: {text[:BODY_CHARS_MAX]}")
    return said


async def command(
    target: Target,
    commands: Sequence[Sequence[str | int]],
    *,
    secret: Secret,
    timeout_s: float = ANSWER_S_MAX,
) -> list[Reply]:
    """The answers of a store to some commands; TalkError when it refuses one of them."""
    try:
        async with (
            asyncio.timeout(timeout_s),
            connected(target, password=password_of(target, secret), connect_s=timeout_s) as (
                wire,
                _,
                _,
            ),
        ):
            answers = await wire.ask_all(commands)
    except TimeoutError as error:
        raise TalkError(f"{target.name} does not answer within {timeout_s:g} s.") from error
    except OSError as error:
        raise TalkError(f"{target.name} does not answer: {sentence(error)}.") from error
    except (asyncio.IncompleteReadError, NonsenseError, ValueError) as error:
        raise TalkError(f"{target.name} answered nonsense: {error}.") from error
    for asked, answer in zip(commands, answers, strict=True):
        if isinstance(answer, Refusal):
            raise TalkError(f"{target.name} refused {asked[0]}: {answer.text[:BODY_CHARS_MAX]}")
    return answers


async def role_of(target: Target, *, secret: Secret) -> str:
    """`primary`, `replica`, or "" when it does not say."""
    try:
        (said,) = await command(target, [("ROLE",)], secret=secret)
    except TalkError:
        return ""
    word = said[0] if isinstance(said, list) and said else ""
    return {"master": "primary", "slave": "replica"}.get(str(word), "")


def in_path(key: str) -> str:
    """A key as part of a path."""
    return quote(key, safe="")
