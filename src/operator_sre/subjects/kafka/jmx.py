"""What the Prometheus JMX agent of a broker tells: how long its requests take, how busy it is."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from operator_protocols.domain.observation import Value
from operator_protocols.kit.access import sentence_of
from operator_protocols.kit.http import Request, UnaskableError, exchange
from operator_protocols.kit.prometheus import samples_of

__all__ = ["read_agent"]

PAGE_BYTES_MAX = 4 << 20
# The names that `jmx.yml` gives them.
PRODUCE_P99, HANDLERS_IDLE = "kafka_produce_p99_ms", "kafka_request_handlers_idle_ratio"


async def read_agent(host: str, port: int, *, within_s: float) -> Mapping[str, Value]:
    """The readings of one broker; `agent_error` where there are none. Never raises."""
    request = Request("GET", "/metrics", body_bytes_max=PAGE_BYTES_MAX)
    try:
        async with asyncio.timeout(within_s):
            answer = await exchange((host, port), request)
    except (OSError, UnaskableError) as error:
        return {"agent_error": f"the JMX agent: {sentence_of(error)}"}
    produce = [value for _, value in samples_of(answer.body, PRODUCE_P99)]
    idle = [value for _, value in samples_of(answer.body, HANDLERS_IDLE)]
    if answer.status != 200 or not produce or not idle:
        return {"agent_error": "the JMX agent: it does not tell what jmx.yml asks for"}
    # A broker that is a controller too counts the idle time of both.
    return {
        "produce_p99_ms": round(produce[0], 1),
        "handlers_idle_ratio": min(1.0, round(idle[0], 3)),
    }
