"""DBOS as a queue of ticket numbers, in a schema of its own beside the store.

Nothing else lies there: no command, no secret, no result. All of it may be lost at any time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from operator_sre.engine.joining import Joined, Lane, told

__all__ = ["Errand", "TicketQueue"]

APPLICATION = "operator"
QUEUE = "tickets"
WORKFLOW = "work_ticket"
# Of what lies in the queue, not of our code: whoever is deployed next goes on with it.
VERSION = "1"
QUEUE_POLL_S = 0.2
_WAITS, _RUNS = "ENQUEUED", "PENDING"


@dataclass(frozen=True, slots=True)
class Errand:
    """One ticket number in the queue: who has taken it, and whether it is over."""

    id: str
    executor: str
    waits: bool
    runs: bool


class TicketQueue:
    """A queue of ticket numbers that many processes share. Every verb blocks.

    There can be one of them in a process, because there can be one DBOS in a process.
    """

    def __init__(self, url: str, *, executor: str, at_once: int) -> None:
        self._at_once = at_once
        self._joined = Joined(url, APPLICATION, VERSION, executor, threads_max=at_once)

    def open(self, work: Callable[[int], str]) -> None:
        """Make what is missing in the database, and call `work` for tickets, each in a thread."""
        lane = Lane(QUEUE, self._at_once, QUEUE_POLL_S)
        self._joined.open({WORKFLOW: _workflow(work)}, [lane])

    def add(self, errand: str, ticket: int, *, rank: int) -> None:
        """Put a ticket in; the same errand twice is one. The smaller the rank, the sooner."""
        with told("The engine's queue cannot be written"):
            self._joined.client.enqueue(
                {
                    "workflow_name": WORKFLOW,
                    "queue_name": QUEUE,
                    "workflow_id": errand,
                    "app_version": VERSION,
                    "priority": rank,
                },
                ticket,
            )

    def find(self, *, begins: Sequence[str] = (), live: bool = False) -> list[Errand]:
        """Errands whose names begin so, or all that are not over."""
        if not begins and not live:
            return []
        with told("The engine's queue cannot be read"):
            found = self._joined.client.list_workflows(
                workflow_id_prefix=list(begins) or None,
                status=[_WAITS, _RUNS] if live else None,
                queue_name=QUEUE,
                load_input=False,
                load_output=False,
            )
        return [
            Errand(
                id=one.workflow_id,
                executor=one.executor_id or "",
                waits=one.status == _WAITS,
                runs=one.status == _RUNS,
            )
            for one in found
        ]

    def drop(self, errands: Sequence[str]) -> None:
        """Forget these."""
        if errands:
            with told("The engine's queue cannot be tidied"):
                self._joined.client.delete_workflows(list(errands))

    def over(self, *, before: str, limit: int) -> list[str]:
        """Errands that are over and older than this moment, in ISO 8601."""
        with told("The engine's queue cannot be read"):
            found = self._joined.client.list_workflows(
                status=["SUCCESS", "ERROR", "CANCELLED"],
                completed_before=before,
                queue_name=QUEUE,
                limit=limit,
                load_input=False,
                load_output=False,
            )
        return [one.workflow_id for one in found]

    def close(self) -> None:
        """Take nothing more up, and let go of the database."""
        self._joined.close()


def _workflow(work: Callable[[int], str]) -> Callable[[int], str]:
    def work_ticket(ticket: int) -> str:
        return work(ticket)

    return work_ticket
