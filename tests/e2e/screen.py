"""A command as a person has it in front of them: a real terminal, keys, and what can be read."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.e2e.waiting import eventually

__all__ = ["Screen"]

ANSWER_S_MAX = 20.0
END_S_MAX = 60.0
LEFT = "left with"


class Screen:
    """One command in tmux, with a server of its own."""

    def __init__(
        self, words: list[str], folder: Path, *, environ: Mapping[str, str], size: tuple[int, int]
    ) -> None:
        found = shutil.which("tmux")
        if found is None:
            pytest.skip("tmux is not installed")
        self._tmux = found
        self._folder = folder
        variables = " ".join(f"{name}={shlex.quote(text)}" for name, text in environ.items())
        # Where a shell says how large its terminal is, nobody asks the terminal.
        unset = "-u COLUMNS -u LINES -u NO_COLOR"
        line = f"env {unset} {variables} {shlex.join(words)}"
        # The terminal is kept after the command, so that it can be looked at.
        # What is typed before the command has begun is meant for it, and not for its shell.
        script = f"trap : INT; stty -a >before; {line}; echo {LEFT} $?; stty -a >after; exec cat"
        width, height = size
        options = ["-x", str(width), "-y", str(height), "-c", str(folder)]
        self._ask("-f", "/dev/null", "new-session", "-d", *options, "sh", "-c", script)

    @property
    def text(self) -> str:
        """What can be read now."""
        return self._ask("capture-pane", "-p")

    def press(self, *keys: str) -> None:
        """As a person does; `Space`, `Enter`, `C-c` and letters."""
        self._ask("send-keys", *keys)

    def resize(self, width: int, height: int) -> None:
        """Make the window larger or smaller."""
        self._ask("resize-window", "-x", str(width), "-y", str(height))

    def shows(self, *texts: str) -> None:
        """Wait until all of this can be read at once."""

        def seen() -> bool:
            now = self.text
            assert LEFT not in now or all(text in now for text in texts), now
            return all(text in now for text in texts)

        try:
            eventually(seen, f"{texts} on the screen", within_s=END_S_MAX)
        except AssertionError as problem:
            raise AssertionError(f"{problem}\n{self.text}") from None

    def left(self) -> int:
        """Wait for its end; its exit code."""

        def code() -> list[str]:
            return re.findall(rf"{LEFT} (\d+)", self.text)

        return int(eventually(code, "its end", within_s=END_S_MAX)[-1])

    def restored(self) -> None:
        """The terminal is as it was before."""
        flags = "#{alternate_on} #{cursor_flag} #{mouse_any_flag} #{keypad_cursor_flag}"
        assert self._ask("display-message", "-p", flags).split() == ["0", "1", "0", "0"]
        after = self._folder / "after"
        eventually(lambda: after.is_file() and after.read_text(), "how the terminal is set")
        assert after.read_text() == (self._folder / "before").read_text()

    def close(self) -> None:
        """End it with its terminal."""
        subprocess.run(self._line("kill-server"), capture_output=True, timeout=20, check=False)

    def _line(self, *words: str) -> list[str]:
        return [self._tmux, "-S", str(self._folder / "tmux"), *words]

    def _ask(self, *words: str) -> str:
        done = subprocess.run(
            self._line(*words), capture_output=True, timeout=ANSWER_S_MAX, check=True
        )
        return done.stdout.decode(errors="replace")
