"""Run a command through the gate: judged while it is typed, shown while it runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Input

from operator_protocols.errors import OperatorError
from operator_sre.faces.tui.console import display
from operator_sre.faces.tui.console.frame import Page, Panel
from operator_sre.faces.tui.console.outputs import Decoded
from operator_sre.faces.tui.console.question import Question
from operator_sre.faces.tui.lines import Lines

if TYPE_CHECKING:
    from operator_protocols.domain.permit import Approval
    from operator_sre.app.commands import Execution, Wanted
    from operator_sre.app.outlook import Outlook
    from operator_sre.app.wiring import App

__all__ = ["Place", "PlaceQuestion", "RunPage"]

COMMAND_CHARS_MAX = 10_000
SECONDS_MAX = 600.0
_SHOWN = (
    *("verdict", "outcome", "directory", "target"),
    *("reads", "writes", "network", "sensitive", "undo"),
)


class RunPage(Page):
    """Runs one command at a time, as `operator exec` does."""

    NAME = "run"
    AUTO_FOCUS = "Input"
    DEFAULT_CSS = """
    RunPage Panel { height: auto; min-height: 4; max-height: 11; }
    RunPage Lines { height: 1fr; min-height: 4; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "type", "Type"),
        Binding("ctrl+x", "cancel", "Cancel", priority=True),
        Binding("ctrl+t", "place", "Where", priority=True),
        Binding("escape", "back", "Leave the line"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._place = Place()
        self._judging = False
        self._judged = ""
        self._command: asyncio.Task[Execution] | None = None

    def body(self) -> ComposeResult:
        """The command line, its verdict, and its output."""
        yield Input(
            placeholder="command; the gate judges it while you type",
            id="command",
            max_length=COMMAND_CHARS_MAX,
        )
        yield Panel(id="verdict")
        yield Lines(id="output")

    def on_mount(self) -> None:
        """Focus the command line."""
        super().on_mount()
        self._place = Place(cwd=self.console_app.here)
        self.query_one(Panel).border_title = "Verdict"
        self.query_one(Lines).border_title = "Output"
        self.query_one(Input).focus()
        self._tell(None)

    def on_screen_resume(self) -> None:
        """Take over a command from another page."""
        super().on_screen_resume()
        if wanted := self.console_app.wanted:
            self.console_app.wanted = ""
            self.query_one(Input).value = wanted
        self.query_one(Input).focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Judge the command."""
        self._judge()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Run the command."""
        command = event.value.strip()
        if not command:
            return
        if self._command is not None:
            self.console_app.say("A command is already running. Ctrl-X cancels it.")
            return
        self.work(self._run(command), group="run")

    def action_type(self) -> None:
        """Focus the command line."""
        self.query_one(Input).focus()

    def action_back(self) -> None:
        """Leave the command line, so that digits open pages again."""
        self.query_one(Lines).focus()

    def action_cancel(self) -> None:
        """Cancel the running command, or its pending approval."""
        if self._command is None:
            self.console_app.say("No command is running.")
        else:
            self._command.cancel()

    def action_place(self) -> None:
        """Ask for the working directory, the target and the timeout."""

        def put(place: Place) -> None:
            self._place, self._judged = place, ""
            self._judge()

        self.app.push_screen(PlaceQuestion(self._place, put))

    def _read_form(self, command: str) -> Wanted:
        from operator_sre.app.commands import Wanted

        place = self._place
        return Wanted(
            command,
            cwd=place.cwd,
            subject=place.subject,
            target=place.target,
            timeout_s=place.timeout_s,
        )

    def _judge(self) -> None:
        """Judge the newest text, and again until it is the text that was judged."""

        async def judge() -> None:
            try:
                while (line := self.query_one(Input).value.strip()) != self._judged or not line:
                    self._judged = line
                    if not line:
                        self._tell(None)
                        return
                    wanted = self._read_form(line)

                    def foresee(app: App, wanted: Wanted = wanted) -> Outlook:
                        from operator_sre.app.commands import foresee_command

                        return foresee_command(app, wanted)

                    try:
                        self._tell(await self.console_app.read(foresee))
                    except OperatorError as error:
                        self._tell(None, str(error))
            finally:
                self._judging = False

        if not self._judging:
            self._judging = True
            self.work(judge(), group="judges")

    def _tell(self, outlook: Outlook | None, problem: str = "") -> None:
        panel = self.query_one(Panel)
        if outlook is None:
            pairs = [("problem", problem)] if problem else self._place.facts()
            panel.show(display.facts(pairs, panel.text_width))
            return
        from operator_sre.app.outlook import facts_of

        known = dict(facts_of(outlook))
        cell = display.level(outlook.verdict.level)
        text = Text(f"{cell.text}  risk {outlook.verdict.risk}\n", f"bold {cell.style}")
        text.append(
            display.facts([(name, known.get(name, "")) for name in _SHOWN], panel.text_width)
        )
        panel.show(text)

    async def _run(self, command: str) -> None:
        """Run a command, show its output, and say how it ended."""
        from operator_sre.app.commands import ending_of

        lines = self.query_one(Lines)
        output, wanted = Decoded(lines), self._read_form(command)

        def show_request(approval: Approval) -> None:
            lines.feed(f"— {approval.level}, risk {approval.risk}: {approval.explanation}\n")
            lines.feed(f"— pending approval {approval.id}: press Esc, then 3\n")

        async def execute(app: App) -> Execution:
            from operator_sre.app.commands import execute_command

            return await execute_command(app, wanted, on_request=show_request, watch=output.feed)

        lines.clear()
        lines.border_title = "Output, running; Ctrl-X cancels"
        self._command = asyncio.ensure_future(self.console_app.link.act(execute))
        try:
            executed = await self._command
        except asyncio.CancelledError:
            lines.feed("\n— cancelled; if it was running, it was stopped and may have partly run\n")
            return
        except OperatorError as error:
            lines.feed(f"— {error}\n")
            return
        finally:
            self._command = None
            lines.border_title = "Output"
        if not executed.ran:
            lines.feed(f"— not run: {executed.result.stderr or executed.explanation}\n")
            return
        if not output.bytes:
            lines.feed(executed.result.stdout + executed.result.stderr)
        for sentence in ending_of(executed):
            lines.feed(f"— {sentence}\n")
        took = f"{executed.result.duration_s:.2f} s"
        lines.feed(f"— exit {executed.result.exit_code} in {took}, entry {executed.seq}\n")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a command runs, and its timeout."""

    cwd: str = "/"
    subject: str = ""
    target: str = ""
    timeout_s: float = 120.0

    def facts(self) -> Sequence[tuple[str, str]]:
        """The place as labelled texts."""
        on = f"{self.target or '-'} of {self.subject}" if self.subject else "this machine"
        return (("in", self.cwd), ("on", on), ("timeout", f"{self.timeout_s:g} s"))


class PlaceQuestion(Question):
    """Ask for another place."""

    TITLE_TEXT = "Where it runs"
    YES = "Set"

    def __init__(self, place: Place, put: Callable[[Place], None]) -> None:
        super().__init__()
        self._place = place
        self._put = put

    def words(self) -> Text:
        """Name the fields."""
        return Text(
            "Working directory, subject, target, timeout (s). No subject means this machine."
        )

    def fields(self) -> ComposeResult:
        """One field for each."""
        place = self._place
        yield Input(place.cwd, placeholder="working directory", id="cwd")
        yield Input(place.subject, placeholder="subject", id="subject", max_length=100)
        yield Input(place.target, placeholder="target", id="target", max_length=100)
        yield Input(
            f"{place.timeout_s:g}", placeholder="timeout in seconds", id="seconds", max_length=5
        )

    async def do(self) -> bool:
        """Set the place, if it exists."""
        given = {field.id: field.value.strip() for field in self.query(Input)}
        cwd = _find_directory(given["cwd"])
        if cwd is None:
            self.console_app.say(f"There is no directory {given['cwd']!r}.", bad=True)
            return False
        try:
            timeout_s = min(SECONDS_MAX, max(0.1, float(given["seconds"] or 120.0)))
        except ValueError:
            self.console_app.say(
                f"{given['seconds']!r} is not a valid number of seconds.", bad=True
            )
            return False
        self._put(Place(str(cwd), given["subject"], given["target"], timeout_s))
        return True


def _find_directory(text: str) -> Path | None:
    """The absolute path of a directory that exists. Not async, because it reads the disk."""
    path = Path(text or "/").expanduser().absolute()
    return path if path.is_dir() else None
