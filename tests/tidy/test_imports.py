"""What is loaded, seen in an interpreter of its own."""

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

from tests.tidy.sources import ROOT

# How many times as long as a bare Python the help may take.
_HELP_TIMES_MAX, _TRIES_MAX = 16.0, 10
_KEPT_OUT = (
    *("anthropic", "fastapi", "httpx2", "openai", "pydantic_ai"),
    *("starlette", "textual", "uvicorn", "valkey"),
)

_LOAD_PROTOCOLS = """
import importlib, json, pkgutil, sys
sys.path[:] = json.loads(sys.argv[1])
import operator_protocols
for found in pkgutil.walk_packages(operator_protocols.__path__, "operator_protocols."):
    importlib.import_module(found.name)
print(json.dumps(sorted(sys.modules)))
"""

_SHOW_HELP = """
import json, sys
sys.argv = ["operator", "--help"]
from operator_sre.faces.cli import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
print(json.dumps(sorted(sys.modules)))
"""


def _modules(*command: str) -> set[str]:
    """The modules in an interpreter's last line of output."""
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_protocols_load_only_the_standard_library() -> None:
    library = [sysconfig.get_path("stdlib"), sysconfig.get_config_var("DESTSHARED")]
    folders = json.dumps([str(ROOT / "protocols" / "src"), *library])
    loaded = _modules("-I", "-S", "-c", _LOAD_PROTOCOLS, folders)
    assert "operator_protocols.domain.ticket" in loaded
    roots = {name.partition(".")[0] for name in loaded} - {"operator_protocols", "__main__"}
    assert sorted(roots - sys.stdlib_module_names) == []


def test_help_loads_nothing_heavy() -> None:
    loaded = _modules("-c", _SHOW_HELP)
    assert "operator_sre.faces.cli" in loaded
    assert sorted(loaded & set(_KEPT_OUT)) == []


def test_help_is_quick() -> None:
    """By processor time beside a bare Python, the least of each: no machine counts."""

    def spent_s(*argv: str | Path) -> float:
        with subprocess.Popen(argv, stdout=subprocess.DEVNULL) as running:
            _, status, used = os.wait4(running.pid, 0)
            running.returncode = os.waitstatus_to_exitcode(status)
        assert running.returncode == 0
        return used.ru_utime + used.ru_stime

    ours = bare = float("inf")
    for _ in range(_TRIES_MAX):
        ours = min(ours, spent_s(Path(sys.executable).with_name("operator"), "--help"))
        bare = min(bare, spent_s(sys.executable, "-c", "pass"))
        if ours <= _HELP_TIMES_MAX * bare:
            break
    assert ours <= _HELP_TIMES_MAX * bare
