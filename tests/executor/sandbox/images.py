"""An image with bash and Python, made from this machine's own; nothing is pulled."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import tarfile
from functools import cache
from pathlib import Path

import pytest

from tests.engines.dockerd import Engine, docker_engine

__all__ = ["IMAGE", "scripts_engine"]

IMAGE = "operator-tests/scripts:1"
_PYTHON = "/usr/bin/python3"
_PROGRAMS = (
    *("bash", "cat", "grep", "head", "ls", "mount", "nohup", "rm", "setsid", "sh", "sleep"),
    *("timeout", "touch", "tr", "true", "unshare", "wc"),
)


def scripts_engine(config: pytest.Config) -> Engine:
    """The engine of the tests with this image in it; skips where there is none."""
    engine = docker_engine(config)
    if not Path(_PYTHON).exists():
        pytest.skip("needs python3 in /usr/bin, to make an image of it")
    _load(engine)
    return engine


@cache
def _load(engine: Engine) -> None:
    name, _, tag = IMAGE.partition(":")
    engine.ask("POST", f"/images/create?fromSrc=-&repo={name}&tag={tag}", raw=_root())


def _root() -> bytes:
    """A tar of a root file system."""
    programs = [Path(found) for name in _PROGRAMS if (found := shutil.which(name))]
    python = Path(_PYTHON).resolve()
    library = Path(f"/usr/lib/{python.name}")
    loaded = [path for path in library.rglob("*.so") if path.is_file()]
    needed = {lib for path in (*programs, python, *loaded) for lib in _libraries(path)}
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        for name, target in (("lib", "usr/lib"), ("lib64", "usr/lib64"), ("bin", "usr/bin")):
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, target
            tar.addfile(link)
        folder = tarfile.TarInfo("tmp")
        folder.type, folder.mode = tarfile.DIRTYPE, 0o1777
        tar.addfile(folder)
        for path in (*programs, python):
            _add(tar, path, f"usr/bin/{path.name}")
        _add(tar, python, "usr/bin/python3")
        for path in needed:
            _add(tar, path, f"usr{path}" if not str(path).startswith("/usr") else str(path)[1:])
        tar.add(library, str(library)[1:], filter=_kept)
    return content.getvalue()


def _kept(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Without what takes room only; a link that leads out of the image is left out."""
    unwanted = ("/test/", "/ensurepip", "/idlelib", "/lib2to3", "/config-", "/pydoc_data")
    is_out = entry.issym() and entry.linkname.startswith("/")
    return None if is_out or any(part in f"{entry.name}/" for part in unwanted) else entry


def _add(tar: tarfile.TarFile, path: Path, name: str) -> None:
    data = path.resolve().read_bytes()
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(data), 0o755
    tar.addfile(entry, io.BytesIO(data))


@cache
def _libraries(path: Path) -> tuple[Path, ...]:
    told = subprocess.run(["ldd", str(path)], capture_output=True, text=True).stdout
    return tuple(Path(found) for found in re.findall(r"(?:=> )?(/\S+) \(0x", told))
