"""A run that waits for people for long gives its worker back, and goes on when they answer."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta

from operator_protocols.domain.permit import Approval, ApprovalState
from operator_protocols.domain.ticket import Ticket
from operator_protocols.errors import OperatorError
from operator_protocols.ports import Approvals, Clock

__all__ = ["PARK_S", "Parking"]

# Most answers come within a minute; for those nobody has to brief a mind again.
PARK_S = 60.0
POLL_S = 1.0
log = logging.getLogger(__name__)


class Parking:
    """Stops the work on one ticket once it has waited for people for so long."""

    def __init__(self, approvals: Approvals | None, clock: Clock, *, park_s: float) -> None:
        self._approvals = approvals
        self._clock = clock
        self._park_s = park_s
        self.request: Approval | None = None

    async def follow(self, ticket: Ticket, work: asyncio.Future[Ticket]) -> None:
        """Cancel the work when its time has come; `request` then says what it waits for."""
        if self._approvals is None:
            return
        while True:
            await self._clock.sleep(min(POLL_S, self._park_s))
            try:
                pending = self._approvals.find(states=(ApprovalState.PENDING,), run=ticket.run)
            except OperatorError as error:  # the store may be back at the next look
                log.error("cannot ask what waits: %s", error, extra={"ticket": ticket.id})
                continue
            # Nothing is awaited from here on, so that no answer can slip in between.
            self.request = next((one for one in pending if self._is_due(one)), None)
            if self.request is not None:
                work.cancel()
                return

    def wait_s(self) -> float:
        """How long silence lasts until it is an answer, too."""
        if self.request is None:
            return 0.0
        return max(0.0, (self.request.expires_at - self._clock.now()).total_seconds())

    def _is_due(self, request: Approval) -> bool:
        since = request.requested_at + timedelta(seconds=self._park_s)
        return request.parked and self._clock.now() >= since
