"""A command through the gate: judged while it is typed, run when it is meant, seen as it speaks."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Input

from operator_protocols.errors import OperatorError
from operator_sre.faces.tui.console import telling
from operator_sre.faces.tui.console.frame import Page, Panel
from operator_sre.faces.tui.console.outputs import Decoded
from operator_sre.faces.tui.console.places import Place, PlaceQuestion
from operator_sre.faces.tui.lines import Lines

if TYPE_CHECKING:
    from operator_protocols.domain.permit import Approval
    from operator_sre.app.commands import Execution, Wanted
    from operator_sre.app.outlook import Outlook
    from operator_sre.app.wiring import App

__all__ = ["RunPage"]

COMMAND_CHARS_MAX = 10_000
_SHOWN = ("verdict", "in", "target", "reads", "writes", "network", "sensitive", "undo", "then")


class RunPage(Page):
    """One command at a time, as `operator exec` would run it."""

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
        Binding("escape", "back", "Out of the line"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._place = Place()
        self._judging = False
        self._judged = ""
        self._command: asyncio.Task[Execution] | None = None

    def body(self) -> ComposeResult:
        """The line, what the gate thinks of it, and what it says."""
        yield Input(
            placeholder="a command line; it is judged while you type",
            id="command",
            max_length=COMMAND_CHARS_MAX,
        )
        yield Panel(id="verdict")
        yield Lines(id="output")

    def on_mount(self) -> None:
        """Ready to type."""
        super().on_mount()
        self._place = Place(cwd=self.console_app.here)
        self.query_one(Panel).border_title = "What the gate thinks"
        self.query_one(Lines).border_title = "Output"
        self.query_one(Input).focus()
        self._tell(None)

    def on_screen_resume(self) -> None:
        """What another page wants to be run is put into the line."""
        super().on_screen_resume()
        if wanted := self.console_app.wanted:
            self.console_app.wanted = ""
            self.query_one(Input).value = wanted
        self.query_one(Input).focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Judge what is there now."""
        self._judge()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Run it."""
        command = event.value.strip()
        if not command:
            return
        if self._command is not None:
            self.console_app.say("One command runs already; Ctrl-X cancels it.")
            return
        self.work(self._run(command), group="run")

    def action_type(self) -> None:
        """Back to the line."""
        self.query_one(Input).focus()

    def action_back(self) -> None:
        """Out of the line, so that digits open pages again."""
        self.query_one(Lines).focus()

    def action_cancel(self) -> None:
        """End what runs, or take the request back that waits."""
        if self._command is None:
            self.console_app.say("Nothing runs from here.")
        else:
            self._command.cancel()

    def action_place(self) -> None:
        """In which directory, on which target, for how long."""
        self.app.push_screen(PlaceQuestion(self._place, self._put))

    def _put(self, place: Place) -> None:
        self._place, self._judged = place, ""
        self._judge()

    def _wanted(self, command: str) -> Wanted:
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
        if not self._judging:
            self._judging = True
            self.work(self._judges(), group="judges")

    async def _judges(self) -> None:
        """The newest text, and again until it is the one that was judged."""
        try:
            while (command := self.query_one(Input).value.strip()) != self._judged or not command:
                self._judged = command
                if not command:
                    self._tell(None)
                    return
                try:
                    self._tell(await self._foreseen(command))
                except OperatorError as error:
                    self._tell(None, str(error))
        finally:
            self._judging = False

    async def _foreseen(self, command: str) -> Outlook:
        wanted = self._wanted(command)

        def foresee(app: App) -> Outlook:
            from operator_sre.app.commands import foresee_command

            return foresee_command(app, wanted)

        return await self.console_app.read(foresee)

    def _tell(self, outlook: Outlook | None, problem: str = "") -> None:
        panel = self.query_one(Panel)
        if outlook is None:
            place = telling.facts(self._place.facts(), panel.text_width)
            panel.show(
                telling.facts([("problem", problem)], panel.text_width) if problem else place
            )
            return
        from operator_sre.app.outlook import facts_of

        told = dict(facts_of(outlook))
        cell = telling.level(outlook.verdict.level)
        text = Text(f"{cell.text}  risk {outlook.verdict.risk}\n", f"bold {cell.style}")
        text.append(telling.facts([(one, told.get(one, "")) for one in _SHOWN], panel.text_width))
        panel.show(text)

    async def _run(self, command: str) -> None:
        from operator_sre.app.commands import ending_of

        lines = self.query_one(Lines)
        said, wanted = Decoded(lines), self._wanted(command)
        lines.clear()
        lines.border_title = "Output, running; Ctrl-X cancels"
        self._command = asyncio.ensure_future(self._execute(wanted, said))
        try:
            executed = await self._command
        except asyncio.CancelledError:
            lines.feed("\n— cancelled; if it ran, it was ended and may have done a part\n")
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
        if not said.bytes:
            lines.feed(executed.result.stdout + executed.result.stderr)
        for sentence in ending_of(executed):
            lines.feed(f"— {sentence}\n")
        took = f"{executed.result.duration_s:.2f} s"
        lines.feed(f"— exit {executed.result.exit_code} in {took}, entry {executed.seq}\n")

    async def _execute(self, wanted: Wanted, said: Decoded) -> Execution:
        lines = self.query_one(Lines)

        def asked(approval: Approval) -> None:
            lines.feed(f"— {approval.level}, risk {approval.risk}: {approval.explanation}\n")
            lines.feed(f"— it waits for approval {approval.id}: press Esc, then 3\n")

        async def execute(app: App) -> Execution:
            from operator_sre.app.commands import execute_command

            return await execute_command(app, wanted, asked=asked, watch=said.feed)

        return await self.console_app.link.act(execute)
