"""A stand-in for systemctl, where no systemd runs: an executable that keeps states in files."""

from __future__ import annotations

from pathlib import Path

__all__ = ["StandIn"]

# `fails` ends with 1, `lies` ends with 0 and does nothing; each is a file beside the states.
_TEXT = """#!/bin/sh
cd {folder} || exit 9
verb=$1 mark=$2 unit=$3
echo "$*" >> calls
[ "$mark" = "--" ] && [ $# -eq 3 ] || exit 64
state=$(cat "$unit" 2>/dev/null || echo inactive)
if [ "$verb" = is-active ]; then
    echo "$state"
    [ "$state" = active ] || exit 3
    exit 0
fi
if [ -e fails ]; then echo "Job for $unit failed." >&2; exit 1; fi
[ -e lies ] && exit 0
case $verb in
    start|restart) echo active > "$unit" ;;
    stop) echo inactive > "$unit" ;;
    *) exit 64 ;;
esac
"""


class StandIn:
    """The executable in a folder, and what it was asked."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.path = folder / "systemctl"
        self.path.write_text(_TEXT.format(folder=folder))
        self.path.chmod(0o755)

    @property
    def calls(self) -> list[str]:
        """Every line it was called with."""
        file = self.folder / "calls"
        return file.read_text().splitlines() if file.exists() else []

    def set(self, unit: str, state: str) -> None:
        """As if the service were in this state."""
        (self.folder / unit).write_text(f"{state}\n")

    def behave(self, how: str) -> None:
        """`fails` or `lies`, from now on."""
        (self.folder / how).touch()
