"""Follows docs/install.md as a new user in an empty home, and says where it fails.

    python -m tests.e2e.install_page                 with pip, pipx and uv, one after another
    python -m tests.e2e.install_page --way uv        only one of them
    python -m tests.e2e.install_page --dist FOLDER   with wheels that are built already

Blocks of the page that begin with `sh` are typed into one shell, line after line. `sh pip`,
`sh pipx` and `sh uv` belong to that way only; `sh background` runs until stopped; `sh systemd` is
left out, because it changes the machine.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["WAYS", "Failure", "Line", "follow", "lines_of", "main"]

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "install.md"
WAYS = ("pip", "pipx", "uv")
FOLLOW_S_MAX = 900.0
NOBODY = 65534
PATH = "/usr/local/bin:/usr/bin:/bin"
_BLOCK = re.compile(r"^```(sh[^\n]*)\n(.*?)^```", re.S | re.M)
_COMMENT = re.compile(r"\s+# .*$")
# Where packages come from, and whom to trust for it, is a matter of the machine.
_MACHINE = ("PIP_", "UV_", "SSL_CERT", "HTTP", "http", "NO_PROXY", "no_proxy")
# What is true once a command that goes on does its work.
READY = "operator status | grep -q '^watching *[1-9]'"
_SHELL = """\
until_stopped() {
    : >"$HOME/said"  # what an earlier command said there is not the answer of this one
    "$@" >"$HOME/said" 2>&1 &
    pid=$!
    tries=0
    until ready; do
        kill -0 "$pid" 2>/dev/null && [ "$tries" -lt 150 ] || break
        sleep 0.2
        tries=$((tries + 1))
    done
    became=0
    ready || became=1
    kill -TERM "$pid" 2>/dev/null
    wait "$pid"
    code=$?
    cat "$HOME/said"
    [ "$became$code" = 0143 ]
}
"""


@dataclass(frozen=True, slots=True)
class Line:
    """One command of the page, and the section that it stands in."""

    section: str
    command: str
    background: bool = False


@dataclass(frozen=True, slots=True)
class Failure:
    """The command that failed, how it ended, and what it printed."""

    line: Line
    code: int
    said: str


def lines_of(page: str, way: str) -> list[Line]:
    """The commands that a reader types who installs in this way."""
    lines = []
    for section in re.split(r"^## ", page, flags=re.M)[1:]:
        title = section.partition("\n")[0]
        for kind, text in _BLOCK.findall(section):
            _, _, word = kind.partition(" ")
            if word not in ("", "background", way):
                continue
            for command in text.replace("\\\n", " ").splitlines():
                if bare := " ".join(_COMMENT.sub("", command).split()):
                    lines.append(Line(title, bare, background=word == "background"))
    return lines


def follow(
    lines: Sequence[Line], home: Path, environ: Mapping[str, str], *, ready: str = READY
) -> Failure | None:
    """Type all lines into one shell that starts in the home; None when every one succeeds."""
    script = [f"ready() {{ {ready}; }}", _SHELL]
    for number, line in enumerate(lines):
        command = f"until_stopped {line.command}" if line.background else line.command
        script += [f"echo '@@ {number}'", f'{command} || {{ echo "@@ failed $?"; exit 1; }}']
    words = ["sh", "-c", "\n".join(script)]
    if os.geteuid() == 0:  # a user who owns nothing but this home
        for path in [home, *home.rglob("*")]:
            os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
        words = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *words]
    done = subprocess.run(
        words,
        cwd=home,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=FOLLOW_S_MAX,
        check=False,
    )
    if done.returncode == 0:
        return None
    parts = re.split(r"^@@ (\d+)\n", done.stdout, flags=re.M)
    said, _, code = parts[-1].rpartition("@@ failed ")
    return Failure(lines[int(parts[-2])], int(code.strip() or done.returncode), said.strip())


def try_way(way: str, wheels: Path, folder: Path) -> Failure | None:
    """Follow the page in an empty home in this way."""
    folder.chmod(0o755)
    home = folder / way
    home.mkdir()
    shutil.copytree(wheels, home / "dist")
    tools = folder / "tools"
    if not tools.exists():  # what a user of pipx and uv has already
        # Not the Python of this checkout, which may lie where no other user can enter.
        python = shutil.which("python3", path=PATH) or sys.executable
        subprocess.run([python, "-m", "venv", tools], check=True)
        install = [str(tools / "bin" / "pip"), "install", "--quiet", "pipx", "uv"]
        subprocess.run(install, check=True)
        (folder / "bin").mkdir()
        for program in ("pipx", "uv"):
            (folder / "bin" / program).symlink_to(tools / "bin" / program)
    kept = {name: value for name, value in os.environ.items() if name.startswith(_MACHINE)}
    path = f"{home}/.local/bin:{folder}/bin:{PATH}"
    environ = {**kept, "HOME": str(home), "PATH": path, "LANG": "C.UTF-8"}
    return follow(lines_of(PAGE.read_text(encoding="utf-8"), way), home, environ)


def main(arguments: Sequence[str]) -> int:
    """Print how it went in each way, and return the exit code."""
    parser = argparse.ArgumentParser(description="Follow docs/install.md in an empty home.")
    parser.add_argument("--way", choices=WAYS, action="append", help="only this way")
    parser.add_argument("--dist", type=Path, help="the folder of wheels; otherwise they are built")
    options = parser.parse_args(arguments)
    failed = 0
    with tempfile.TemporaryDirectory(prefix="operator-install-") as name:
        folder = Path(name)
        wheels = options.dist or folder / "dist"
        if options.dist is None:
            subprocess.run([sys.executable, ROOT / ".ci" / "dist.py", wheels], check=True)
        for way in options.way or WAYS:
            failure = try_way(way, wheels, folder)
            if failure is None:
                sys.stdout.write(f"{way}: every command works\n")
                continue
            failed += 1
            sys.stdout.write(
                f"{way}: fails in {failure.line.section!r} at: {failure.line.command}\n"
                f"exit code {failure.code}\n{failure.said[-2000:]}\n"
            )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
