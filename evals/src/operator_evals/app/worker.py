"""A worker of a campaign: it takes trials from the queue and hands in their facts."""

from __future__ import annotations

import asyncio
import base64
import binascii
import concurrent.futures
import contextlib
import fcntl
import json
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

from operator_evals.app.campaigns import Jobs, bundle_name, check_campaign
from operator_evals.app.trial_process import Children
from operator_evals.campaign import Campaign, Mind, Planned
from operator_evals.facts import TrialFacts, TrialState
from operator_protocols.errors import ConflictError, OperatorError, RigError, StoreError, UsageError
from operator_protocols.ports import Clock
from operator_sre.app.wiring.engines import TrialQueue, trials_of
from operator_sre.clock import SystemClock
from operator_sre.codec import from_json, to_json
from operator_sre.config import Config
from operator_sre.release import code_revision

__all__ = [
    "Did",
    "Order",
    "Taker",
    "Turns",
    "do_order",
    "order_from",
    "order_of",
    "pack_result",
    "take_trials",
    "unpack_result",
]

TRANSCRIPT_BYTES_MAX = 1 << 20
FACTS_BYTES_MAX = 4 << 20
LEDGER_BYTES_MAX = 16 << 20
_MB = 1 << 20


@dataclass(frozen=True, slots=True)
class Order:
    """One trial for a worker; of the campaign only what this trial needs.

    `transcript` is the text of the variant's transcript, because its file is not there.
    """

    campaign: Campaign
    planned: Planned
    transcript: str = ""


@dataclass(frozen=True, slots=True)
class _Parcel:
    """What comes back; `ledger` is the exported ledger in base64, or "" where there is none."""

    facts: TrialFacts
    ledger: str = ""


def order_of(campaign: Campaign, planned: Planned) -> str:
    """The text that a worker is given."""
    variant = next(variant for variant in campaign.variants if variant.name == planned.variant)
    own = replace(
        campaign,
        scenarios=(planned.scenario,),
        variants=(variant,),
        seeds={variant.name: 1},
        first_seed=planned.seed,
    )
    text, path = "", variant.transcript
    if variant.mind is Mind.TRANSCRIPT:
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise UsageError(f"The transcript {path!r} cannot be read: {error}.") from error
    if len(text.encode()) > TRANSCRIPT_BYTES_MAX:
        raise UsageError(f"The transcript {path!r} is larger than {TRANSCRIPT_BYTES_MAX} bytes.")
    return json.dumps(to_json(Order(own, planned, text)))


def order_from(text: str) -> Order:
    """The order in a text; RigError for text that no leader writes."""
    try:
        return from_json(Order, json.loads(text))
    except ValueError as error:
        raise RigError(f"The order cannot be read: {error}.") from error


def pack_result(facts: TrialFacts, bundle: Path) -> str:
    """The text that goes back: the facts, and the ledger where it is not too large."""
    ledger = ""
    if facts.ledger and bundle.is_file():
        size = bundle.stat().st_size
        if size <= LEDGER_BYTES_MAX:
            ledger = base64.b64encode(bundle.read_bytes()).decode()
        else:
            why = f"with {size / _MB:.0f} MB it is too large to send"
            note = f"its ledger stayed where it was: {why}"
            facts = replace(facts, ledger="", why=f"{facts.why}; {note}" if facts.why else note)
    text = json.dumps(to_json(_Parcel(facts, ledger)))
    if len(text) - len(ledger) > FACTS_BYTES_MAX:
        facts = replace(facts, course=())  # looks in between are for charts alone
        text = json.dumps(to_json(_Parcel(facts, ledger)))
    if (size := len(text) - len(ledger)) > FACTS_BYTES_MAX:
        raise RigError(f"The facts of the trial are too large to send: {size / _MB:.1f} MB.")
    return text


def unpack_result(
    text: str, campaign: str, planned: Planned, ledger: Path, named: str
) -> TrialFacts:
    """The facts of the trial that was asked for; its ledger is written to `ledger`.

    `named` is how that file is called from where the database lies.
    """
    if len(text) > FACTS_BYTES_MAX + 2 * LEDGER_BYTES_MAX:
        raise RigError("The result of the trial is too large.")
    try:
        parcel = from_json(_Parcel, json.loads(text))
        bundle = base64.b64decode(parcel.ledger, validate=True)
    except (ValueError, binascii.Error) as error:
        raise RigError(f"The result of the trial cannot be read: {error}.") from error
    facts = parcel.facts
    if (facts.campaign, facts.key, facts.scenario) != (campaign, planned.key, planned.scenario):
        raise RigError(f"The result is for another trial: {facts.key!r}.")
    if not bundle:
        return replace(facts, ledger="")
    ledger.parent.mkdir(parents=True, exist_ok=True)
    whole = ledger.with_suffix(".part")
    whole.write_bytes(bundle)
    whole.replace(ledger)
    return replace(facts, ledger=named)


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
    """So many trials at once, or one alone; first come, first served."""

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._places = asyncio.Semaphore(at_once)
        self._door = asyncio.Lock()

    @asynccontextmanager
    async def one(self, *, alone: bool) -> AsyncIterator[None]:
        """A turn; none is given while a trial waits to run alone."""
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
            away_since: float | None = None
            while True:
                self._wake.clear()
                if self._unfit is not None:
                    raise self._unfit
                held = list(self._under_way)
                try:
                    await asyncio.to_thread(self.queue.beat, held)
                    wanted = await asyncio.to_thread(self.queue.find_taken, held)
                    for errand in held:
                        if errand not in wanted and (task := self._under_way.get(errand)):
                            task.cancel()
                    away_since = None
                except StoreError as error:
                    now = self.clock.monotonic()
                    away_since = now if away_since is None else away_since
                    if now - away_since > AWAY_S_MAX:
                        raise
                    log.error("%s Retrying.", error)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._wake.wait(), self.beat_s)
        finally:
            await asyncio.shield(self._stop())

    async def _do(self, errand: str, text: str, turns: Turns) -> str:
        if self._stopping or self._unfit is not None or errand in self._under_way:
            return ""
        task = asyncio.ensure_future(self._carry_out(text, turns))
        self._under_way[errand] = task
        self._wake.set()  # the leader learns at once who has it
        try:
            return await task
        except asyncio.CancelledError:
            return ""
        finally:
            self._under_way.pop(errand, None)

    async def _carry_out(self, text: str, turns: Turns) -> str:
        order = order_from(text)
        try:
            self.fit(order)
        except OperatorError as error:
            # Others may be able to; this one would only spoil one trial after another.
            self._unfit = error
            self._wake.set()
            return ""
        campaign, planned = order.campaign.name, order.planned
        async with turns.one(alone=planned.scenario.alone):
            self.tell(Did(campaign, planned.key, "taken"))
            facts, back = await self.run(order)
            self.tell(Did(campaign, planned.key, facts.state.value, facts.why))
            if order.campaign.cool_down_s:
                await self.clock.sleep(order.campaign.cool_down_s)
        return back

    async def _stop(self) -> None:
        """No trial of ours is running, and no leader waits for one."""
        self._stopping = True
        tasks = list(self._under_way.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        try:
            await asyncio.to_thread(self.queue.leave)
        except StoreError as error:
            log.error("%s The leader will notice that this worker is gone.", error)
        await asyncio.to_thread(self.queue.close)


async def do_order(
    config: Config, order: Order, command: Sequence[str], folder: Path
) -> tuple[TrialFacts, str]:
    """One trial in a process of its own below `folder`: its facts, and the text that goes back."""
    own = Path(tempfile.mkdtemp(prefix="", dir=folder))
    ledgers = own / "ledgers" / "own"  # what a campaign is called is not for our file system
    planned = order.planned
    try:
        campaign = _campaign_here(order, own)
        jobs = Jobs(config, campaign, tuple(command), own, ledgers, Children(own))
        try:
            facts = await jobs.run(planned)
            return facts, pack_result(facts, ledgers / bundle_name(planned))
        except OperatorError as error:
            facts = TrialFacts(
                order.campaign.name,
                planned.key,
                planned.scenario,
                planned.variant,
                planned.seed,
                TrialState.FAILED,
            )
            facts = replace(facts, why=error.message)
            return facts, pack_result(facts, Path())
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
    """Run trials for the store of this home, until cancelled."""
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
    variants = [replace(variant, transcript=str(file)) for variant in order.campaign.variants]
    return replace(order.campaign, variants=tuple(variants))


@contextmanager
def _this_machine() -> Iterator[Path]:
    """The folder for all trials; ConflictError when there is a worker on this machine already.

    Two of them would not know of each other when one of their trials must be alone.
    """
    folder = Path(tempfile.gettempdir()) / f"operator-eval-{os.getuid()}-w"
    held = folder.with_suffix(".lock")
    for path in (folder, held):
        if path.is_symlink() or (path.exists() and path.stat().st_uid != os.getuid()):
            raise ConflictError(f"{str(folder)!r} belongs to another user.")
    with held.open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ConflictError(
                "A worker is already running on this machine.",
                next_step="Raise its --parallel instead of starting a second one.",
            ) from None
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
