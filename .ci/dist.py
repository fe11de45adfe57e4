"""Build the wheels of all distributions into a folder, with the documentation and the commit.

    python3 .ci/dist.py              into dist/
    python3 .ci/dist.py FOLDER

They are built from a copy of the files that git tracks. The copy of the core has the documentation
in `manual/`, and the commit in a file: a `+` behind it says that the tree had local changes.
`SHA256SUMS` lists the wheels, and `constraints.txt` has the versions of the dependencies that they
were tested with:

    pip install -f dist -c dist/constraints.txt 'operator-sre[lab]'
"""

import argparse
import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

__all__ = ["DistError", "build", "main"]

_ROOT = Path(__file__).resolve().parent.parent
_UV = _ROOT / ".venv" / "bin" / "uv"
PROJECTS = ("protocols", "services/ratelimiter", ".", "lab", "evals")
# The pictures are three quarters of the documentation, and a terminal shows none.
_DOCUMENTS = {".md", ".json"}


class DistError(Exception):
    """The wheels cannot be built; the message is a sentence for a person, with the next step."""


def build(target: Path, *, key: str = "") -> list[Path]:
    """Build every wheel into the folder, and return them; `key` is what the next is signed with."""
    tracked = _git("ls-files", "-z").split("\0")[:-1]
    commit = _git("rev-parse", "--verify", "HEAD").strip()
    changed = "+" if _git("status", "--porcelain", "--untracked-files=normal") else ""
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        for name in tracked:
            source, copy = _ROOT / name, tree / name
            if source.is_file() and not source.is_symlink():
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, copy)
        manual = tree / "src" / "operator_sre" / "manual"
        for page in [path for path in tree.glob("docs/**/*") if path.suffix in _DOCUMENTS]:
            place = manual / page.relative_to(tree / "docs")
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(page, place)
        (manual / "commit.txt").write_text(f"{commit}{changed}\n")
        if key:
            (manual / "release.pub").write_text(f"{key}\n")
        made = tree / "made"
        for project in PROJECTS:
            _run([str(_UV), "build", "--wheel", "--quiet", "-o", str(made), str(tree / project)])
        wheels = sorted(made.glob("*.whl"))
        for old in [*target.glob("operator_*.whl")]:
            old.unlink()
        built = [Path(shutil.copy2(wheel, target / wheel.name)) for wheel in wheels]
    sums = [f"{hashlib.sha256(wheel.read_bytes()).hexdigest()}  {wheel.name}" for wheel in built]
    pins = re.findall(r"^[\w.-]+==[^\\\n]*", (_ROOT / "requirements.lock").read_text(), re.M)
    (target / "constraints.txt").write_text("".join(f"{pin.strip()}\n" for pin in pins))
    (target / "SHA256SUMS").write_text("\n".join(sums) + "\n")
    return built


def _git(*words: str) -> str:
    return _run(["git", "-C", str(_ROOT), *words])


def _run(command: list[str]) -> str:
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout
    except FileNotFoundError as error:
        raise DistError(f"{error.filename} is missing: run `make dist` in a checkout.") from error
    except subprocess.CalledProcessError as error:
        lines = error.stderr.strip().splitlines() or ["no output"]
        raise DistError(f"{command[0]} {command[1]} failed: {lines[-1]}") from error


def main(arguments: list[str]) -> int:
    """Build, print what was built, and return the exit code."""
    parser = argparse.ArgumentParser(description="Build the wheels of all distributions.")
    parser.add_argument("folder", nargs="?", type=Path, default=_ROOT / "dist")
    target = parser.parse_args(arguments).folder
    try:
        wheels = build(target)
    except (DistError, OSError) as error:
        sys.stderr.write(f"dist: {error}\n")
        return 1
    for wheel in wheels:
        sys.stdout.write(f"{wheel.stat().st_size / 1000:8,.0f} kB  {target / wheel.name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
