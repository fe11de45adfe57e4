"""Count the source files that one incident passes through, from the first observation to its proof.

    .venv/bin/python .ci/incident.py          the number of files
    .venv/bin/python .ci/incident.py --list   their paths as well

A rate limiter is started, one of its nodes is killed, and one process observes it, opens a ticket,
diagnoses it, restarts the node and proves that it answers. A file counts when a function of it ran
in that process in between, and not only while a module was being imported.
"""

import argparse
import asyncio
import inspect
import sys
import tempfile
import threading
from pathlib import Path
from types import FrameType
from typing import Any

from operator_lab.app.rigs import break_rig, own_rig
from operator_protocols.domain.ticket import TicketState
from operator_sre.app.wiring import App, open_app
from operator_sre.config import load_config

__all__ = ["FileCounter", "main", "run_incident"]

_ROOT = Path(__file__).resolve().parent.parent
_FOLDERS = (str(_ROOT / "protocols/src"), str(_ROOT / "src"))
SUBJECT, FAULT = "ratelimiter", "node_kill"
OBSERVATIONS_MAX, INTERVAL_S = 60, 0.5
SETTINGS = {"mode": "execute", "stable_s": "2", "interval_s": "1"}


class FileCounter:
    """Collects the files of this tree in which a function runs, for the length of a `with`."""

    def __init__(self) -> None:
        self.files: set[str] = set()

    def __enter__(self) -> "FileCounter":
        threading.setprofile(self._profile)
        sys.setprofile(self._profile)
        return self

    def __exit__(self, *error: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def _profile(self, frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        is_new = event == "call" and code.co_filename not in self.files
        if not is_new or not code.co_filename.startswith(_FOLDERS):
            return
        # The body of a module or a class is no function, and what it calls belongs to the import.
        caller: FrameType | None = frame
        while caller is not None and caller.f_code.co_flags & inspect.CO_OPTIMIZED:
            caller = caller.f_back
        if caller is None or caller.f_globals.get("__name__") == "__main__":
            self.files.add(code.co_filename)


async def run_incident(app: App) -> set[str]:
    """Break a rig, have it repaired in this process, and return the files that took part."""
    rig = await own_rig(app, SUBJECT)
    try:
        await break_rig(app, SUBJECT, FAULT, target=None, seed=1)
        with FileCounter() as counter:
            engine = app.engine()
            for _ in range(OBSERVATIONS_MAX):
                await engine.pipeline.watch(SUBJECT)
                if await engine.work_once():
                    break
                await asyncio.sleep(INTERVAL_S)
        (ticket,) = app.store.tickets.find()
        if ticket.state is not TicketState.RESOLVED:
            raise SystemExit(f"The incident was not resolved: {ticket.state}: {ticket.reason}")
    finally:
        await rig.down()
        await app.programs.dismiss()
    return counter.files


def main(arguments: list[str]) -> int:
    """Print how many files one incident passes through."""
    parser = argparse.ArgumentParser(description="Count the files that one incident passes.")
    parser.add_argument("--list", action="store_true", help="print the paths as well")
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        flags = {"home": f"{folder}/home", **SETTINGS}
        with open_app(load_config(flags=flags, environ={}, cwd=Path(folder))) as app:
            files = asyncio.run(run_incident(app))
    paths = sorted(Path(file).relative_to(_ROOT).as_posix() for file in files)
    sys.stdout.write(f"{len(paths):>16,}  files that one incident passes through\n")
    if chosen.list:
        sys.stdout.write("".join(f"{path}\n" for path in paths))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
