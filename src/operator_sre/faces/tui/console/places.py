"""Where a command of a person runs, and for how long."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.text import Text
from textual.app import ComposeResult
from textual.widgets import Input

from operator_sre.faces.tui.console.asking import Question

__all__ = ["Place", "PlaceQuestion"]

SECONDS_MAX = 600.0


@dataclass(frozen=True, slots=True)
class Place:
    """A directory, a target of a subject, and seconds."""

    cwd: str = "/"
    subject: str = ""
    target: str = ""
    timeout_s: float = 120.0

    def facts(self) -> Sequence[tuple[str, str]]:
        """As people read it."""
        on = f"{self.target or '-'} of {self.subject}" if self.subject else "this machine"
        return (("in", self.cwd), ("on", on), ("at most", f"{self.timeout_s:g} s"))


class PlaceQuestion(Question):
    """Another place."""

    TITLE_TEXT = "Where it runs"
    YES = "Take it"

    def __init__(self, place: Place, put: Callable[[Place], None]) -> None:
        super().__init__()
        self._place = place
        self._put = put

    def words(self) -> Text:
        """In which order."""
        return Text("Directory, subject, target, seconds. An empty subject is this machine.")

    def fields(self) -> ComposeResult:
        """One line for each."""
        place = self._place
        yield Input(place.cwd, placeholder="directory", id="cwd")
        yield Input(place.subject, placeholder="subject", id="subject", max_length=100)
        yield Input(place.target, placeholder="target", id="target", max_length=100)
        yield Input(f"{place.timeout_s:g}", placeholder="seconds", id="seconds", max_length=5)

    async def do(self) -> bool:
        """Take it, if there is such a place."""
        told = {one.id: one.value.strip() for one in self.query(Input)}
        cwd = _directory(told["cwd"])
        if not cwd:
            self.console_app.say(f"There is no directory {told['cwd']!r}.", bad=True)
            return False
        try:
            timeout_s = min(SECONDS_MAX, max(0.1, float(told["seconds"] or 120.0)))
        except ValueError:
            self.console_app.say(f"{told['seconds']!r} is no number of seconds.", bad=True)
            return False
        self._put(Place(cwd, told["subject"], told["target"], timeout_s))
        return True


def _directory(text: str) -> str:
    """The whole path of a directory; "" when there is none."""
    path = Path(text or "/").expanduser().absolute()
    return str(path) if path.is_dir() else ""
