"""A repository full of programs of its own: none of them runs when git only looks."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from operator_protocols.domain.action import Action
from operator_protocols.domain.verdict import Level
from operator_sre.executor.transports.git import shell_line
from operator_sre.executor.transports.local import ENVIRONMENT, SHELL
from operator_sre.gate import Policy, judge

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
OURS = {"PATH": ENVIRONMENT["PATH"], "GIT_CONFIG_GLOBAL": "/dev/null", "HOME": "/nonexistent"}
PROGRAMS = (
    *("filter.plain.clean", "filter.plain.smudge", "filter.long.process", "diff.plain.command"),
    *("filter.it's | odd.clean", "diff.plain.textconv", "diff.long.textconv", "diff.external"),
    *("gpg.program", "gpg.ssh.program", "gpg.openpgp.program", "gpg.x509.program", "core.pager"),
    *("core.fsmonitor", "core.sshCommand", "core.editor", "core.askPass", "merge.plain.driver"),
)
SETTINGS = {
    "gpg.format": "ssh",
    "log.showSignature": "true",
    "diff.submodule": "diff",
    "status.submoduleSummary": "true",
    "submodule.recurse": "true",
    "protocol.allow": "always",
    "gpg.ssh.allowedSignersFile": "/dev/null",
    "submodule.inner.ignore": "none",
}
ATTRIBUTES = "*.txt filter=plain diff=plain\n*.bin filter=long diff=long\n"
MODULES = '[submodule "inner"]\n\tpath = inner\n\turl = ./inner\n\tignore = none\n'
SIGNATURE = "gpgsig -----BEGIN SSH SIGNATURE-----\n U1NIU0lH\n -----END SSH SIGNATURE-----"
LOOKS = (
    *("git status -sb", "git status -v", "git diff", "git diff --stat", "git diff HEAD -w"),
    *("git diff --no-ext-diff", "git log -p", "git log -S one", "git show", "git show HEAD:a.txt"),
    *("git blame a.txt", "git blame b.bin", "git ls-files -m", "git grep -n one", "git stash list"),
    *("cd inner && git diff", "git log --oneline | head -3", 'echo "$(git diff --name-only)"'),
)


def git(folder: Path, *words: str, told: str = "") -> str:
    """What git says in a folder, with nothing switched off."""
    names = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    argv = ("git", *names, *words)
    run = subprocess.run(
        argv, cwd=folder, env=OURS, input=told, capture_output=True, text=True, check=True
    )
    return run.stdout.strip()


def a_repository(folder: Path) -> None:
    """One with two files of each kind and a signed commit."""
    folder.mkdir()
    git(folder, "init", "-q")
    (folder / ".gitattributes").write_text(ATTRIBUTES)
    for name in ("a.txt", "b.bin"):
        (folder / name).write_text("one\n")
    if folder.name == "outer":
        a_repository(folder / "inner")
        (folder / ".gitmodules").write_text(MODULES)
    git(folder, "-c", "advice.addEmbeddedRepo=false", "add", "-A")
    tree = git(folder, "write-tree")
    who = "a <a@example.org> 1 +0000"
    text = f"tree {tree}\nauthor {who}\ncommitter {who}\n{SIGNATURE}\n\nsigned\n"
    commit = git(folder, "hash-object", "-t", "commit", "-w", "--stdin", told=text)
    git(folder, "update-ref", "HEAD", commit)


@pytest.fixture(scope="module")
def outer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository in which, and in whose submodule, every setting names a program."""
    base = tmp_path_factory.mktemp("git")
    a_repository(base / "outer")
    for folder in (base / "outer", base / "outer" / "inner"):
        lines: list[str] = []
        for place, name in enumerate(PROGRAMS):
            script = base / f"{folder.name}-{place}"
            script.write_text(f'#!/bin/sh\necho "{name}" >> {base}/sprung\ncat\n')
            script.chmod(0o755)
            lines.append(_setting(name, str(script)))
        lines += [_setting(name, value) for name, value in SETTINGS.items()]
        with (folder / ".git" / "config").open("a") as config:
            config.write("\n".join(lines))
        for name in ("a.txt", "b.bin"):  # of the same size, so that its contents are looked at
            (folder / name).write_text("two\n")
    return base / "outer"


def _setting(name: str, value: str) -> str:
    section, _, rest = name.partition(".")
    middle, _, key = rest.rpartition(".")
    return (
        f'[{section} "{middle}"]\n\t{key} = {value}'
        if middle
        else f"[{section}]\n\t{key} = {value}"
    )


def run_in(folder: Path, command: str) -> subprocess.CompletedProcess[str]:
    """The line as it is run."""
    argv = (SHELL, "-c", shell_line(command))
    return subprocess.run(
        argv, cwd=folder, env=ENVIRONMENT, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )


def test_without_the_function_it_is_a_trap(outer: Path) -> None:
    sprung = outer.parent / "sprung"
    argv = (SHELL, "-c", "git status; git log -p; git blame a.txt; git diff --no-ext-diff")
    subprocess.run(argv, cwd=outer, env=OURS, stdin=subprocess.DEVNULL, capture_output=True)
    names = set(sprung.read_text().split("\n"))
    sprung.unlink()
    assert {"filter.long.process", "core.fsmonitor", "gpg.ssh.program"} <= names


def test_no_program_of_a_repository_runs_when_git_only_looks(outer: Path) -> None:
    for command in LOOKS:
        assert judge(Action.shell(command), Policy(), person=True).level is Level.SAFE, command
        run = run_in(outer, command)
        assert run.returncode == 0, (command, run.stderr)
        sprung = outer.parent / "sprung"
        assert not sprung.exists(), (command, sprung.read_text())


def test_what_changed_is_still_seen(outer: Path) -> None:
    assert run_in(outer, "git status -s").stdout == " M a.txt\n M b.bin\n"
    shown = run_in(outer, "git diff a.txt").stdout
    assert "-one\n+two\n" in shown
    assert run_in(outer.parent, f"git -C {outer} diff --name-only").stdout == "a.txt\nb.bin\n"


def test_git_behind_another_program_or_a_path_is_not_safe() -> None:
    behind = ("timeout 5 {}", "nice {}", "/usr/bin/{}", "sh -c '{}'", "env {}", "watch {}")
    for form in behind:
        for look in ("git status", "git diff", "git log -p"):
            line = form.format(look)
            assert judge(Action.shell(line), Policy(), person=True).level is not Level.SAFE, line
