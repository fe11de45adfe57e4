"""A worker: takes trials that somebody leads elsewhere, does them here, and sends back what came.

It speaks with every beat. What nobody wants any more, or what others were given meanwhile, it ends.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import fcntl
import logging
import os
import secrets
import shutil
import socket
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from operator_protocols.errors import ConflictError, OperatorError, StoreError, UsageError
from operator_protocols.ports import Clock
from operator_sre.app.evals.campaigns import Jobs, bundle_name, check_campaign
from operator_sre.app.evals.children import Children
from operator_sre.app.evals.parcels import Order, order_from, packed
from operator_sre.app.evals.revision import code_revision
from operator_sre.app.wiring.trials import TrialQueue, trials_of
from operator_sre.clock import SystemClock
from operator_sre.config import Config
from operator_sre.evals.campaign import Campaign
from operator_sre.evals.facts import TrialFacts, TrialState

__all__ = ["Did", "Taker", "Turns", "do_order", "take_trials"]

BEAT_S = 3.0
# So long a database may be away; what is under way is done again elsewhere if it stays so.
AWAY_S_MAX = 300.0
NAME_CHARS_MAX = 64
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Did:
    """What a worker did, for people: `taken` is when it begins, later it is its end."""

    campaign: str
    trial: str
    state: str
    why: str = ""


class Turns:
    """So many at once, or one that has all of it for itself; whoever comes first is first."""

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._places = asyncio.Semaphore(at_once)
        self._door = asyncio.Lock()

    @asynccontextmanager
    async def one(self, *, alone: bool) -> AsyncIterator[None]:
        """A turn; nobody comes in while somebody waits for all places."""
        wants, has = self._at_once if alone else 1, 0
        try:
            async with self._door:
                while has < wants:
                    await self._places.acquire()
                    has += 1
            yield
        finally:
            for _ in range(has):
                self._places.release()


@dataclass(slots=True)
class Taker:
    """Takes from the queue until it is cancelled, or is found unfit for what it was given.

    `fit` raises for an order that cannot be done here, `run` does one and says what goes back.
    """

    queue: TrialQueue
    fit: Callable[[Order], None]
    run: Callable[[Order], Awaitable[tuple[TrialFacts, str]]]
    clock: Clock
    at_once: int = 1
    tell: Callable[[Did], None] = lambda did: None
    beat_s: float = BEAT_S
    _under_way: dict[str, asyncio.Task[str]] = field(default_factory=dict)
    _wake: asyncio.Event = field(default_factory=asyncio.Event)
    _unfit: OperatorError | None = None
    _stopping: bool = False

    async def work(self) -> None:
        """Take trials until cancelled; what is under way then is given back."""
        loop, turns = asyncio.get_running_loop(), Turns(self.at_once)

        def hand_over(errand: str, text: str) -> str:
            """From a thread of the queue into our loop, where all work is done."""
            with contextlib.suppress(concurrent.futures.CancelledError, RuntimeError):
                doing = self._do(errand, text, turns)
                return asyncio.run_coroutine_threadsafe(doing, loop).result()
            return ""

        try:
            await asyncio.to_thread(self.queue.open, hand_over)
            await self._beat_forever()
        finally:
            await asyncio.shield(self._stop())

    async def _do(self, errand: str, text: str, turns: Turns) -> str:
        if self._stopping or self._unfit is not None or errand in self._under_way:
            return ""
        task = asyncio.ensure_future(self._done(text, turns))
        self._under_way[errand] = task
        self._wake.set()  # whoever leads hears at once who has it
        try:
            return await task
        except asyncio.CancelledError:
            return ""
        finally:
            self._under_way.pop(errand, None)

    async def _done(self, text: str, turns: Turns) -> str:
        order = order_from(text)
        try:
            self.fit(order)
        except OperatorError as error:
            # Others may be able to; this one would only spoil one trial after another.
            self._unfit = error
            self._wake.set()
            return ""
        campaign, one = order.campaign.name, order.planned
        async with turns.one(alone=one.scenario.alone):
            self.tell(Did(campaign, one.key, "taken"))
            facts, back = await self.run(order)
            self.tell(Did(campaign, one.key, facts.state.value, facts.why))
            if order.campaign.cool_down_s:
                await self.clock.sleep(order.campaign.cool_down_s)
        return back

    async def _beat_forever(self) -> None:
        away_since: float | None = None
        while True:
            self._wake.clear()
            if self._unfit is not None:
                raise self._unfit
            try:
                await self._beat()
                away_since = None
            except StoreError as error:
                now = self.clock.monotonic()
                away_since = now if away_since is None else away_since
                if now - away_since > AWAY_S_MAX:
                    raise
                log.error("%s It is tried again.", error)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), self.beat_s)

    async def _beat(self) -> None:
        held = list(self._under_way)
        await asyncio.to_thread(self.queue.beat, held)
        wanted = await asyncio.to_thread(self.queue.taken, held)
        for errand in held:
            if errand not in wanted and (task := self._under_way.get(errand)):
                task.cancel()

    async def _stop(self) -> None:
        """Nothing of ours goes on, and nobody waits for us."""
        self._stopping = True
        tasks = list(self._under_way.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        try:
            await asyncio.to_thread(self.queue.leave)
        except StoreError as error:
            log.error("%s Others find out by our silence.", error)
        await asyncio.to_thread(self.queue.close)


async def do_order(
    config: Config, order: Order, command: Sequence[str], folder: Path
) -> tuple[TrialFacts, str]:
    """One trial in a process of its own below `folder`: its facts, and the text that goes back."""
    own = Path(tempfile.mkdtemp(prefix="", dir=folder))
    ledgers = own / "ledgers" / "own"  # what a campaign is called is not for our file system
    one = order.planned
    try:
        campaign = _campaign_here(order, own)
        jobs = Jobs(config, campaign, tuple(command), own, ledgers, Children(own))
        try:
            facts = await jobs.run(one)
            return facts, packed(facts, ledgers / bundle_name(one))
        except OperatorError as error:
            facts = TrialFacts(
                order.campaign.name, one.key, one.scenario, one.variant, one.seed, TrialState.FAILED
            )
            facts = replace(facts, why=error.message)
            return facts, packed(facts, Path())
    finally:
        shutil.rmtree(own, ignore_errors=True)


async def take_trials(
    config: Config,
    *,
    command: Sequence[str],
    at_once: int = 1,
    name: str = "",
    tell: Callable[[Did], None] = lambda did: None,
) -> None:
    """Join those who do trials for the store of this home, until cancelled."""
    called = name or socket.gethostname()
    if not called.isprintable() or ":" in called or len(called) > NAME_CHARS_MAX:
        raise UsageError(
            f"A worker cannot be called {called[:NAME_CHARS_MAX]!r}.",
            next_step=f"Use up to {NAME_CHARS_MAX} letters, without a colon.",
        )
    executor = f"{called}:{os.getpid()}-{secrets.token_hex(4)}"
    version = code_revision()
    queue = trials_of(config, executor=executor, version=version, name=called, at_once=at_once)
    with _this_machine() as folder:

        async def run(order: Order) -> tuple[TrialFacts, str]:
            return await do_order(config, order, command, folder)

        def fit(order: Order) -> None:
            with tempfile.TemporaryDirectory() as place:
                check_campaign(config, _campaign_here(order, Path(place)))

        await Taker(queue, fit, run, SystemClock(), at_once, tell).work()


def _campaign_here(order: Order, folder: Path) -> Campaign:
    """The campaign of an order, with the transcript of its variant as a file of this machine."""
    if not order.transcript:
        return order.campaign
    file = folder / "transcript.json"
    file.write_text(order.transcript, encoding="utf-8")
    variants = [replace(one, transcript=str(file)) for one in order.campaign.variants]
    return replace(order.campaign, variants=tuple(variants))


@contextmanager
def _this_machine() -> Iterator[Path]:
    """The folder for all trials; ConflictError when there is a worker on this machine already.

    Two of them would not know of each other when one of their trials has to be alone.
    """
    folder = Path(tempfile.gettempdir()) / f"operator-eval-{os.getuid()}-w"
    held = folder.with_suffix(".lock")
    if any(one.is_symlink() or _is_foreign(one) for one in (folder, held)):
        raise ConflictError(f"{str(folder)!r} belongs to somebody else.")
    with held.open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ConflictError(
                "A worker does trials on this machine already.",
                next_step="Let it do more at once, with --parallel.",
            ) from None
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _is_foreign(path: Path) -> bool:
    return path.exists() and path.stat().st_uid != os.getuid()
