"""Git without the programs that a repository names: filters, converters, signatures, hooks.

Settings with a fixed name are overridden by the environment. The others, like `filter.NAME.clean`,
are known only where git is called, so that a function of the shell lists their names and overrides
each of them for that call. Submodules have settings of their own, and are left out.
"""

from __future__ import annotations

import re

__all__ = ["ENVIRONMENT", "shell_line"]

# A repository's own diff.external would be run, and git takes no empty one for none.
_DIFF = 'f() { diff -u --label "a/$1" --label "b/$1" -- "$2" "$5"; [ $? -le 1 ]; }; f'
# Settings that override those of a repository, whose author could run code by them.
_SETTINGS = {
    "core.fsmonitor": "false",
    "core.hooksPath": "/dev/null",
    "core.pager": "cat",
    "diff.external": _DIFF,
    "diff.ignoreSubmodules": "all",
    "diff.submodule": "short",
    "gpg.openpgp.program": "/bin/false",
    "gpg.program": "/bin/false",
    "gpg.ssh.program": "/bin/false",
    "gpg.x509.program": "/bin/false",
    "log.showSignature": "false",
    "protocol.allow": "never",
    "status.submoduleSummary": "false",
    "submodule.recurse": "false",
}
ENVIRONMENT = {
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_CONFIG_COUNT": str(len(_SETTINGS)),
    **{f"GIT_CONFIG_KEY_{place}": name for place, name in enumerate(_SETTINGS)},
    **{f"GIT_CONFIG_VALUE_{place}": value for place, value in enumerate(_SETTINGS.values())},
}
# Names of settings that hold a program, each with what takes its place; an empty filter is none.
_PROGRAMS = {
    r"filter\..*\.clean": "",
    r"filter\..*\.smudge": "",
    r"filter\..*\.process": "",
    r"filter\..*\.required": "false",
    r"diff\..*\.command": _DIFF,
    r"diff\..*\.textconv": "cat",
    r"merge\..*\.driver": "false",
}
_SED = "\n".join(
    [
        r"s/'/'\\''/g",
        *(f"s|^{name}$|'&'='{value}'|p" for name, value in _PROGRAMS.items()),
        r"s|^\(submodule\..*\)\.[a-z]*$|'\1.ignore'='all'|p",
    ]
).replace("'", "'\\''")
# With -C it is the folder named there whose settings count.
_FUNCTION = f"""git() {{
if [ "$1" = -C ] && [ $# -gt 2 ]; then (cd -- "$2" && shift 2 && git "$@"); return; fi
GIT_CONFIG_PARAMETERS=$({{
command git config --name-only --list
command git config --name-only --list --blob :.gitmodules
command git config --name-only --list --file "$(command git rev-parse --show-toplevel)/.gitmodules"
}} 2>/dev/null | sed -n '{_SED}' | tr '\\n' ' ') command git "$@"
}}
"""
_NAMED = re.compile(r"\bgit\b")


def shell_line(command: str) -> str:
    """A command line whose calls of git run no program that a repository names."""
    return _FUNCTION + command if _NAMED.search(command) else command
