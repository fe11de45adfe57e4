"""Checks every command of a line: does each of them only read?"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence

import msgspec

from operator_sre.gate.grammar.fit import fit
from operator_sre.gate.grammar.kinds import check
from operator_sre.gate.grammar.paths import resolve_path
from operator_sre.gate.grammar.picked_values import PICKING, picks_secret
from operator_sre.gate.grammar.scene import Scene
from operator_sre.gate.grammar.tables import Tables
from operator_sre.shell.line import parse
from operator_sre.shell.words import Script, Simple, Word

__all__ = ["COMMANDS_MAX", "Finding", "name_of", "read"]

COMMANDS_MAX = 96
CLOSE_LOOKS_MAX = 6
PLACES_MAX = 6
# Where programs of the system lie; a path anywhere else is a program of a user.
_BINARIES = frozenset({"/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin"})
_HARMLESS_VARIABLES = re.compile(
    r"LC_[A-Z]+|LANG|LANGUAGE|TZ|COLUMNS|LINES|NO_COLOR|TERM|ETCDCTL_API"
)
# A path in one of them would be opened and read as data.
_HARMLESS_VALUE = re.compile(r"(?:[A-Za-z_]+\+?=)?(?!:?/)(?!.*\.\.)[\w.@:+,<>/-]*")
_SUDO = frozenset({"sudo", "doas"})
# Those run what follows their own options; when these are not understood, this is guessed.
_WRAPPERS = frozenset(
    {
        *("sudo", "doas", "env", "nice", "ionice", "nohup", "timeout", "stdbuf", "setsid", "xargs"),
        *("watch", "time", "command", "builtin", "exec", "busybox", "chroot", "flock", "strace"),
        *("ltrace", "taskset", "unshare", "nsenter", "chrt", "setpriv", "runuser", "parallel"),
        *("systemd-run", "doas", "pkexec", "script", "unbuffer", "proxychains", "firejail"),
    }
)
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash", "fish", "busybox", "su", "eval"})
# Those print whole descriptions of what runs, with its environment.
_DESCRIBING = frozenset(
    {
        *("kubectl", "oc", "k3s", "microk8s", "docker", "podman", "nerdctl", "crictl", "ctr"),
        *("helm", "systemctl", "nomad"),
    }
)
_WHOLE = re.compile(
    r"inspect|(?:-o=?|--output=|--format=)?(?:json|yaml|kyaml)|show|manifest|values|info|dump|cat"
)
# Then only some fields are printed: by a template, which is checked, or by name.
_CHOSEN = re.compile(r"[^{]*\{\{|-[pP]|--property")
_BARE_VALUE = re.compile(
    r"(?i)(?<![a-z])(?:env|envfrom|environment|values?|data|stringdata)(?![a-z])|\.\.|paths|leaf"
    r"|tostream|getpath|to_entries|flatten|recurse|scalars|strings|walk"
)
# Behind a pipe these leave each line as it is, one after the other.
_KEEPING = frozenset(
    {"head", "tail", "cat", "wc", "nl", "less", "tac", "echo", "md5sum", "sha256sum", "test", "["}
)
_TAKEN_APART = (
    "?It may show environment values without their names, so that secrets in them are not"
    " recognised."
)
# Where an administrator installs, and not everybody may write.
_INSTALLED = re.compile(r"/(?:srv|opt|app|etc|usr/src|usr/local|var/www)(?:/|\Z)")
# The pip of a virtual environment, by its path.
_VENV_PROGRAM = re.compile(r"(?:[\w./-]*/)?(?:\.venv|venv|env|virtualenv)/bin/pip[23]?")
# A function of the shell that runs the line overrides those programs.
_GIT_BEHIND = (
    "Git leaves out the programs that a repository names only where the line itself calls it by its"
    " name, without a path or another program before it."
)
_LEADING = _WRAPPERS | _SHELLS
_OPTION_LIKE = re.compile(r"-.*|[A-Za-z_]\w*=.*|\d[\d.]*[smhd]?")


class Finding(msgspec.Struct, frozen=True, gc=False):
    """One command, and why it is not known to only read; nothing when it is.

    A reason begins with `~` when the command is known to change something, with `!` when that
    destroys or runs code, with `?` when secrets are shown; else nothing is known.
    """

    simple: Simple
    reason: str
    cwd: str = ""


def read(script: Script, scene: Scene, tables: Tables) -> list[Finding]:
    """Every command of the line and inside of them, each with the reason why it is not SAFE."""
    found: list[Finding] = []
    refused, bears = bool(script.trouble), False
    waiting = [(simple, False) for simple in reversed(script.commands)]
    while waiting and len(found) < COMMANDS_MAX:
        simple, inside = waiting.pop()
        cwd, name = scene.cwd, name_of(simple)
        if refused and len(found) >= CLOSE_LOOKS_MAX and name not in _LEADING:
            reason = "It is one of many commands."  # settled; rules of the policy still speak
        else:
            reason = _look(simple, scene, tables)
        if not reason and name in PICKING:
            reason = picks_secret(name, [word.text for word in simple.words[1:]])
        if not inside:
            bears = (bears and simple.piped) or (name in _DESCRIBING and _bears_values(simple))
            if bears and simple.piped and not reason and _takes_apart(simple):
                reason = _TAKEN_APART
        if inside and not reason and name == "git":
            reason = _GIT_BEHIND
        refused = refused or bool(reason)
        if inside and not reason and name in _SHELLS:
            reason = "~It runs a shell inside another command."
        found.append(Finding(simple, reason, cwd))
        inner = scene.inner or (_guess_commands(simple) if reason else ())
        if inner:  # it reads what its wrapper reads, as the same user
            privileged = simple.privileged or name in _SUDO
            fed = simple.piped or _is_redirected(simple)
            for command in reversed(inner):
                piped, raised = command.piped or fed, command.privileged or privileged
                command = msgspec.structs.replace(command, piped=piped, privileged=raised)
                waiting.append((command, True))
            scene.inner = []
    if waiting:
        found.append(Finding(waiting[-1][0], f"It holds more than {COMMANDS_MAX} commands."))
    if not scene.earlier:
        return found
    # The line changes its folder; whether before or after a command, loops may tell.
    moved = (msgspec.structs.replace(finding.simple, moved=True) for finding in found)
    return [
        Finding(simple, finding.reason, finding.cwd)
        for finding, simple in zip(found, moved, strict=True)
    ]


def _bears_values(simple: Simple) -> bool:
    """True when it prints whole descriptions, where names beside values tell what is secret."""
    words = [word.text for word in simple.words[1:]]
    return any(map(_WHOLE.fullmatch, words)) and not any(map(_CHOSEN.match, words))


def _takes_apart(simple: Simple) -> bool:
    """True when it may print values without the names beside them."""
    name = name_of(simple)
    if name in ("jq", "gojq", "jaq", "yq", "grep", "egrep", "fgrep", "rg"):
        return any(_BARE_VALUE.search(word.text) for word in simple.words[1:])
    return name not in _KEEPING


def name_of(simple: Simple) -> str:
    """The name of the program, without the folder it lies in."""
    return simple.words[0].text.rpartition("/")[2] if simple.words else ""


def _is_redirected(simple: Simple) -> bool:
    """True when it reads something that does not stand in the line."""
    return any(
        redirect.operator[0] == "<"
        and (redirect.operator, redirect.word.text) != ("<", "/dev/null")
        for redirect in simple.redirects
    )


def _guess_commands(simple: Simple) -> list[Simple]:
    """What a wrapper with strange options, or a shell with a script, would most likely run."""
    name = name_of(simple)
    if name in _SHELLS:
        texts = [word.text for word in simple.words[1:] if " " in word.text or name == "eval"]
        return [command for text in texts[:4] for command in parse(text).commands]
    if name not in _WRAPPERS:
        return []
    rest = list(simple.words[1:])
    while rest and _OPTION_LIKE.fullmatch(rest[0].text):
        rest.pop(0)
    return [Simple(tuple(rest))] if rest else []


def _look(simple: Simple, scene: Scene, tables: Tables) -> str:
    for redirect in simple.redirects:
        operator, word, reason = redirect.operator, redirect.word, ""
        is_descriptor = not word.opaque and (word.text.isdigit() or word.text == "-")
        if operator == "<<<":
            reason = check("any", word, scene)
        elif operator in (">&", "<&") and is_descriptor:
            continue
        elif word.text.startswith(("/dev/tcp/", "/dev/udp/")):
            scene.network.append(word.text.split("/")[3])
            return "!It opens a network connection from the shell."
        elif operator == "<" and (word.splits or word.glob):
            return "Its input file is not known until it runs."
        elif operator == "<>":
            scene.write(word)
            return f"It opens {word.text[:60]!r} for writing."
        else:
            reason = check("file" if operator == "<" else "null", word, scene)
        if reason:
            return reason
    for name, word in simple.assignments:
        known = simple.words and _HARMLESS_VARIABLES.fullmatch(name)
        if word.opaque or not (known and _HARMLESS_VALUE.fullmatch(word.text)):
            mark = "!" if name.startswith("PIP_") else ""  # it decides where packages come from
            return f"{mark}It sets the variable {name}, which may change what runs."
    if not simple.words:
        return ""
    scene.fed = (simple.piped and not simple.from_line) or _is_redirected(simple)
    first = simple.words[0]
    if first.opaque or (first.glob and first.text != "["):
        return "!The program is not known until it runs."
    name, words = first.text, simple.words[1:]
    if "/" in name:
        folder, name = posixpath.split(name)
        if folder not in _BINARIES:
            if _VENV_PROGRAM.fullmatch(simple.words[0].text):
                # Its own pip is known by what it installs; nothing else is known of its programs.
                outside, scene.venv = scene.venv, True
                pip = tables.get("pip")
                reason = fit("pip", pip, words, scene) if pip else ""
                scene.venv = outside
                if reason[:1] in ("!", "~"):
                    return reason
            return f"{folder}/{name} is not a program of the system."
        if name == "git":
            return _GIT_BEHIND
    if name == "cd":
        return _change_directory(words, scene)
    tool = tables.get(name)
    if tool is None:
        return f"{name[:60]!r} is not a known read-only tool."
    if tool.about:
        return tool.about if tool.about[0] in "!?" else f"~{tool.about}"
    if name == "git" and len(words) > 2 and words[0].text == "-C":
        if reason := _change_directory(words[1:2], scene):
            return reason
        if not _INSTALLED.match(scene.cwd):
            return f"The repository in {scene.cwd[:60]!r} may not be trusted."
        words = words[2:]
    return fit(name, tool, words, scene)


def _change_directory(words: Sequence[Word], scene: Scene) -> str:
    if len(words) != 1 or words[0].opaque or words[0].glob or words[0].text.startswith("-"):
        return "It changes to a directory that is not known until it runs."
    # Where it fails, or where it is in a sub-shell, what follows runs where it ran before.
    scene.earlier.append(scene.cwd)
    scene.cwd = resolve_path(words[0].text, scene.cwd)
    if len(scene.earlier) > PLACES_MAX:
        return "It changes its directory too many times."
    return scene.visit(".")
