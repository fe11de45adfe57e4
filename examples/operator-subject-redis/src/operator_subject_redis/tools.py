"""The tools of a server. Only the executor calls them, and only with a permit."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from operator_protocols.domain.category import FailureCategory
from operator_protocols.kit.access import sentence_of
from operator_protocols.kit.knowledge import read_knowledge
from operator_protocols.kit.resp import ProtocolError
from operator_protocols.kit.tool import Act, Call, Done, RefusedCall, TypedTool, find_target
from operator_protocols.ports import SubjectSettings, Tool
from operator_subject_redis.subject import ask, password_of

__all__ = ["KNOWLEDGE", "redis_tools"]

KNOWLEDGE = read_knowledge(Path(__file__).parent)
COMMANDS = {
    "unpause_clients": ("CLIENT", "UNPAUSE"),
    "purge_memory": ("MEMORY", "PURGE"),
}


def redis_tools(settings: SubjectSettings) -> Sequence[Tool]:
    """All tools of one subject."""

    def send(*words: str) -> Act:
        async def act(call: Call) -> Done:
            target = find_target(settings.targets(), call.text("target"), "server")
            try:
                async with asyncio.timeout(settings.timeout_s):
                    reply = await ask(target, *words, password=password_of(settings, target))
            except (OSError, EOFError) as error:
                why = f"{target.name}: {sentence_of(error)}."
                raise RefusedCall(why, FailureCategory.NETWORK) from error
            except ProtocolError as error:
                raise RefusedCall(f"{target.name}: {error}.") from error
            return Done(f"{target.name} answered {reply}")

        return act

    return tuple(TypedTool(KNOWLEDGE.tools[name], send(*words)) for name, words in COMMANDS.items())
