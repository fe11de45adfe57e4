"""Asking an AMQP broker such as RabbitMQ: a login, and how long queues are."""

from __future__ import annotations

import asyncio
import logging
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING

from operator_protocols.errors import MissingExtraError
from operator_protocols.kit.access import Address
from operator_sre.subjects.declarative.document import Table
from operator_sre.subjects.declarative.probes.place import Blind, Place, observe_first, places_of
from operator_sre.subjects.declarative.values import Readings

if TYPE_CHECKING:
    from pika import ConnectionParameters

__all__ = ["KEYS", "AmqpProbe", "read_amqp"]

KEYS = ("queue", "vhost", "port")
PORT, TLS_PORT = 5672, 5671


@dataclass(frozen=True, slots=True)
class AmqpProbe:
    """A login by the protocol of the broker; with a queue, its messages and its consumers."""

    queue: str = ""
    vhost: str = "/"
    port: int | None = None

    @property
    def fields(self) -> frozenset[str]:
        """The values that it can give."""
        more = {"messages", "consumers", "exists"} if self.queue else set()
        return frozenset({"up", "ok", "error", "latency_ms", "endpoint"} | more)

    async def observe(self, place: Place) -> Readings:
        """Log in, query, and close the connection."""
        try:
            import pika.exceptions as refusals
        except ImportError as error:
            raise Blind(str(MissingExtraError("amqp", needed_for="An amqp probe"))) from error
        # What it would log is what the reading says.
        logging.getLogger("pika").setLevel(logging.CRITICAL)

        async def ask(address: Address) -> Readings:
            try:
                return await asyncio.to_thread(self._ask, self._parameters(place, address))
            except (
                refusals.ProbableAuthenticationError,
                refusals.ProbableAccessDeniedError,
                refusals.AuthenticationError,
            ) as error:
                raise Blind("login rejected by the broker") from error
            except refusals.AMQPError as error:
                raise OSError(_why(error)) from error

        default = TLS_PORT if place.access.tls else PORT
        addresses = places_of(place.target, self.port, usual=default)
        return await observe_first(place, addresses, ask)

    def _parameters(self, place: Place, address: Address) -> ConnectionParameters:
        import pika

        access = place.access
        password = place.secret(access.password_file) if access.password_file else "guest"
        tls = None
        if access.tls:
            context = place.trust or ssl.create_default_context()
            tls = pika.SSLOptions(context, access.server_name or address[0])
        return pika.ConnectionParameters(
            host=address[0],
            port=address[1],
            virtual_host=self.vhost,
            credentials=pika.PlainCredentials(access.user or "guest", password),
            ssl_options=tls,
            socket_timeout=place.timeout_s,
            stack_timeout=place.timeout_s,
            blocked_connection_timeout=place.timeout_s,
            client_properties={"connection_name": "operator"},
        )

    def _ask(self, parameters: ConnectionParameters) -> Readings:
        import pika
        from pika.exceptions import ChannelClosedByBroker

        connection = pika.BlockingConnection(parameters)
        try:
            if not self.queue:
                return {}
            channel = connection.channel()
            try:
                # Passive: a queue that does not exist is not made.
                found = channel.queue_declare(self.queue, passive=True).method
            except ChannelClosedByBroker as closed:
                if closed.reply_code == 404:
                    return {"exists": False}
                raise
            return {
                "exists": True,
                "messages": int(found.message_count),
                "consumers": int(found.consumer_count),
            }
        finally:
            if connection.is_open:
                connection.close()


def _why(error: Exception) -> str:
    """Its message; the reason of a failed connection is in its cause."""
    text = f"{error} {error.args} {error.__cause__!r}".lower()
    if "refused" in text:
        return "connection refused"
    if "timeout" in text or "timed out" in text:
        return "it did not answer in time"
    return f"the broker closed the connection: {str(error)[:80] or type(error).__name__}"


def read_amqp(table: Table) -> AmqpProbe:
    """Parse the probe of a description."""
    return AmqpProbe(table.text("queue"), table.text("vhost", "/"), table.port())
