"""Images under the names that the labs want, made of files of this machine; nothing is pulled.

PD, Python, the limiter and its store are the real programs of this machine. Prometheus and Grafana
are a busybox that answers where their health checks ask; Prometheus always says that every store is
up. The load of TiKV only waits.
"""

from __future__ import annotations

import io
import json
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

from tests.engines.debian import busybox
from tests.engines.dockerd import USERS, Engine

__all__ = ["make_image", "python_files", "serving_image", "waiting_image"]

_LIBRARY = re.compile(r"(/\S+) \(0x")
# What nobody imports who only serves.
_LEFT_OUT = {
    "test",
    "tests",
    "idlelib",
    "tkinter",
    "ensurepip",
    "lib2to3",
    "__pycache__",
    "turtledemo",
}
LOAD_S_MAX = 900.0
Files = Mapping[str, Path | str]


def make_image(
    engine: Engine, name: str, files: Files | None = None, *, changes: Sequence[str] = ()
) -> None:
    """An image with busybox, these files (a text, or one of this machine with its libraries)."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        _busybox(tar)
        written: set[str] = set()
        for place, source in (files or {}).items():
            _add(tar, place, source, written)
    repository, _, tag = name.rpartition(":")
    asked = "".join(f"&changes={quote(each)}" for each in changes)
    path = f"/images/create?fromSrc=-&repo={quote(repository)}&tag={tag}{asked}"
    engine.ask("POST", path, raw=content.getvalue(), timeout_s=LOAD_S_MAX)


def serving_image(engine: Engine, name: str, port: int, pages: Mapping[str, str]) -> None:
    """One that has these pages, and nothing else, whatever it is told."""
    script = f"exec httpd -f -p {port} -h /www"
    entry = json.dumps(["sh", "-c", script])
    files = {f"/www{page}": text for page, text in pages.items()}
    make_image(engine, name, files, changes=[f"ENTRYPOINT {entry}"])


def waiting_image(engine: Engine, name: str, program: str) -> None:
    """One in which a program of this name runs, and does nothing."""
    sleep = shutil.which("sleep")
    assert sleep is not None
    entry = json.dumps([f"/bin/{program}", "infinity"])
    make_image(engine, name, {f"/bin/{program}": Path(sleep)}, changes=[f"ENTRYPOINT {entry}"])


def python_files(packages: Iterable[str] = ()) -> dict[str, Path | str]:
    """The Python of this machine at its own place, with these packages of the environment."""
    prefix = Path(sys.base_prefix)
    library = Path(sysconfig.get_path("stdlib"))
    found: dict[str, Path | str] = {}
    for path in sorted(library.rglob("*")):
        inner = path.relative_to(library)
        wanted = not _LEFT_OUT & set(inner.parts) and inner.parts[0] != "site-packages"
        if wanted and path.is_file() and not inner.parts[0].startswith("config-"):
            found[str(path)] = path
    program = prefix / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    found[str(program)] = program
    found["/bin/python"] = f'#!/bin/sh\nexec {program} "$@"\n'
    site = Path(sysconfig.get_path("purelib"))
    # What a package says of itself is asked for by some when they are loaded.
    about = [place for name in packages for place in site.glob(f"{name}*.dist-info")]
    named = [site / name for name in packages if (site / name).exists()]
    files = [site / f"{name}.py" for name in packages if (site / f"{name}.py").exists()]
    for place in (*about, *named, *files):
        for path in sorted(place.rglob("*")) if place.is_dir() else [place]:
            if path.is_file() and "__pycache__" not in path.parts:
                found[f"{library}/site-packages/{path.relative_to(site)}"] = path
    return found


def _busybox(tar: tarfile.TarFile) -> None:
    program = busybox()
    assert program is not None
    for folder, mode in (("bin", 0o755), ("etc", 0o755), ("tmp", 0o1777)):
        entry = tarfile.TarInfo(folder)
        entry.type, entry.mode = tarfile.DIRTYPE, mode
        tar.addfile(entry)
    _write(tar, "/bin/busybox", program.read_bytes(), executable=True)
    _write(tar, "/etc/passwd", USERS.encode(), executable=False)
    told = subprocess.run(
        [str(program), "--list"], check=True, capture_output=True, text=True
    ).stdout
    for applet in set(told.split()) - {"busybox"}:
        entry = tarfile.TarInfo(f"bin/{applet}")
        entry.type, entry.linkname = tarfile.SYMTYPE, "busybox"
        tar.addfile(entry)


def _add(tar: tarfile.TarFile, place: str, source: Path | str, written: set[str]) -> None:
    if place in written:
        return
    written.add(place)
    if isinstance(source, str):
        _write(tar, place, source.encode(), executable=True)
        return
    data = source.read_bytes()
    _write(tar, place, data, executable=bool(source.stat().st_mode & 0o111))
    if data.startswith(b"\x7fELF"):
        told = subprocess.run(["ldd", str(source)], capture_output=True, text=True, check=False)
        for library in _LIBRARY.findall(told.stdout):
            if library not in written:
                written.add(library)
                _write(tar, library, Path(library).read_bytes(), executable=True)


def _write(tar: tarfile.TarFile, place: str, data: bytes, *, executable: bool) -> None:
    entry = tarfile.TarInfo(place.lstrip("/"))
    entry.size, entry.mode = len(data), 0o755 if executable else 0o644
    tar.addfile(entry, io.BytesIO(data))
