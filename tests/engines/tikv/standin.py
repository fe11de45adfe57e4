"""Puts the stand-ins into a folder, under the names of the programs they stand in for.

    python -m tests.engines.tikv.standin FOLDER

With that folder first on PATH a rig takes them; nobody can mistake them for the real ones, because
their versions and the first lines of their logs say what they are.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

__all__ = ["install"]

ROOT = Path(__file__).parents[3]
DISCONNECTED_S = 4.0
_SHIM = """\
#!/bin/sh
exec {python} -S -c {code} "$@"{more}
"""


def install(folder: Path, *, disconnected_s: float = DISCONNECTED_S) -> Path:
    """Two programs in a folder; a store is Disconnected for PD after so long without a word."""
    folder.mkdir(parents=True, exist_ok=True)
    programs = {"pd-server": "pd", "tikv-server": "tikv"}
    for name, module in programs.items():
        code = (
            f"import sys; sys.path.insert(0, {str(ROOT)!r}); "
            f"from tests.engines.tikv.{module} import main; main()"
        )
        more = f" --disconnected-s {disconnected_s:g}" if module == "pd" else ""
        program = folder / name
        text = _SHIM.format(python=shlex.quote(sys.executable), code=shlex.quote(code), more=more)
        program.write_text(text, encoding="utf-8")
        program.chmod(0o755)
    return folder


if __name__ == "__main__":
    install(Path(sys.argv[1]))
