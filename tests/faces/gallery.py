"""Pictures of the terminal faces for the README, taken while something real happens.

python -m tests.faces.gallery

A rig is started, broken, and repaired with a person's yes; on the way pictures are taken of the
console, and what the demo told is shown again by the demo. Nothing is drawn by hand.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from pathlib import Path
from unittest import mock

from textual.pilot import Pilot

from operator_lab.demo import Begun, Event, Plan, Told, play
from operator_lab.tui.app import Cues, DemoApp, Script
from operator_protocols.domain.entry import Kind
from operator_sre.app.approvals import approve
from operator_sre.app.wiring import App, open_app
from operator_sre.config import Config, load_config
from operator_sre.faces.tui.console.application import Console

__all__ = ["FOLDER", "PICTURES", "main", "slim"]

FOLDER = Path(__file__).parents[2] / "docs" / "gallery"
# What there is a picture of, and what it shows to those who cannot see it.
PICTURES = {
    "demo": "The demo: a node is down, and the agent has diagnosed why",
    "health": "Health: broken invariants, since when, and which process checks them",
    "ticket": "A ticket: observations, reasoning, actions and verdicts in order",
    "diagnosis": "A diagnosis: the cause, its evidence, and why the alternatives were rejected",
    "approvals": "A pending approval: the exact command, what it may change, and when it expires",
    "history": "History: every command that ran or was refused, and who approved it",
    "audit": "The ledger, entry by entry",
}
SIZE = (118, 34)
# The same on every machine, because commands name the home.
HOME = Path("/tmp/operator")
HOST, PERSON = "ops-1", "ada"
SETTLE_S = 0.6
CONNECT_S_MAX = 30.0
_FONT = re.compile(r"\s*@font-face \{.*?\}", re.DOTALL)
_UNIQUE = re.compile(r"terminal-\d+")
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_CREW = (
    f"import socket; socket.gethostname = lambda: {HOST!r};"
    " from operator_sre.faces.cli.main import main; main()"
)
Scene = Callable[[Console, Pilot[int]], Awaitable[None]]


def slim(picture: str) -> str:
    """A picture that fetches nothing, and differs only where what it shows does."""
    plain = _UNIQUE.sub("t", _COMMENT.sub("", _FONT.sub("", picture)))
    lines = [line.strip() for line in plain.splitlines()]
    return "\n".join(line for line in lines if line) + "\n"


def main() -> None:
    """Take all pictures, and write them."""
    HOME.mkdir(mode=0o700)
    try:
        with _incognito():
            taken = asyncio.run(_all())
    finally:
        shutil.rmtree(HOME, ignore_errors=True)
    FOLDER.mkdir(exist_ok=True)
    for name, picture in taken.items():
        (FOLDER / f"{name}.svg").write_text(slim(picture))
        sys.stdout.write(f"{name}.svg  {len(slim(picture)) // 1024} KiB\n")


@contextmanager
def _incognito() -> Iterator[None]:
    """Neither this machine nor whoever sits at it is named."""
    with (
        mock.patch.object(socket, "gethostname", return_value=HOST),
        mock.patch("getpass.getuser", return_value=PERSON),
    ):
        yield


async def _all() -> dict[str, str]:
    pace = {"interval_s": "2", "stable_s": "5", "timeout_s": "2"}
    flags = {"home": str(HOME), "mode": "approve", "profile": "lab", "model": "reasoner", **pace}
    config = load_config(flags=flags, environ={}, cwd=HOME)
    with open_app(config) as app:
        told, taken = await _played(app, config)
        taken |= await _console(config, OVER)
    taken["demo"] = await _demo(told)
    return {name: taken[name] for name in PICTURES}


async def _played(app: App, config: Config) -> tuple[list[Told], dict[str, str]]:
    """All that the demo tells, and pictures of the console while a person is asked."""
    plan = Plan("ratelimiter", "node_kill", (sys.executable, "-P", "-c", _CREW), seed=3)
    told: list[Told] = []
    taken: dict[str, str] = {}
    async with aclosing(play(app, plan)) as feed:
        async for one in feed:
            told.append(one)
            if isinstance(one, Event) and one.kind == Kind.APPROVAL_REQUESTED:
                taken |= await _console(config, ASKED)
                await approve(app, one.payload["approval"]["id"], reason="traffic is low")
    return told, taken


def _keys(*keys: str) -> Scene:
    async def scene(console: Console, pilot: Pilot[int]) -> None:
        for key in keys:
            await pilot.press(key)
            await pilot.pause(SETTLE_S)

    return scene


async def _ticket(console: Console, pilot: Pilot[int]) -> None:
    console.open_ticket(1)


async def _diagnosis(console: Console, pilot: Pilot[int]) -> None:
    console.open_ticket(1)
    await pilot.pause(SETTLE_S)
    await pilot.press("d")


# What is shown while a person is asked, and when all is over.
ASKED: dict[str, Scene] = {
    "health": _keys("1"),
    "ticket": _ticket,
    "diagnosis": _diagnosis,
    "approvals": _keys("3"),
}
OVER: dict[str, Scene] = {"history": _keys("4"), "audit": _keys("6", "v")}


async def _console(config: Config, scenes: dict[str, Scene]) -> dict[str, str]:
    console, taken = Console(config), {}
    async with console.run_test(size=SIZE) as pilot:
        async with asyncio.timeout(CONNECT_S_MAX):
            while console.standing.problem:
                await pilot.pause(0.05)
        for name, scene in scenes.items():
            await scene(console, pilot)
            await pilot.pause(SETTLE_S)
            taken[name] = console.export_screenshot(title=f"operator tui: {name}")
            while len(console.screen_stack) > 1:
                await pilot.press("escape")
                await pilot.pause(0.05)
    return taken


async def _demo(told: Sequence[Told]) -> str:
    """The demo as it stood when the repair had been judged."""
    asked = [at for at, one in enumerate(told) if _is(one, Kind.VERDICT)][-1]
    cues = Cues()

    async def feed() -> AsyncIterator[Told]:
        for one in told[: asked + 1]:
            yield one
        await asyncio.Event().wait()

    async def nobody(approval: str, yes: bool) -> str:
        return ""

    script = Script(
        subject="ratelimiter",
        fault="node_kill",
        sentence="One node is killed.",
        feed=feed(),
        cues=cues,
        answer=nobody,
        report=lambda ending: "",
        stop=lambda: None,
    )
    demo = DemoApp(script)
    async with demo.run_test(size=SIZE) as pilot:
        await pilot.pause(SETTLE_S)
        chapters = [one.chapter for one in told[:asked] if isinstance(one, Begun)]
        for _ in range(max(chapters, default=1)):
            await pilot.press("space")
            await pilot.pause(0.1)
        await pilot.pause(SETTLE_S)
        return demo.export_screenshot(title="operator demo")


def _is(one: Told, kind: Kind) -> bool:
    return isinstance(one, Event) and one.kind == kind


if __name__ == "__main__":
    main()
