"""Container images made of one program each, without a registry: archives that containerd loads."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path

__all__ = ["make_image"]

_FOLDERS = ("data", "dev", "etc", "proc", "sys", "tmp")
_PASSWD = "root:x:0:0:root:/:/sbin/nologin\nnobody:x:65534:65534:nobody:/:/sbin/nologin\n"


def make_image(program: Path, name: str, output: Path) -> None:
    """An image with this program in its root, which is its entry point."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as archive:
        for folder in _FOLDERS:
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if folder == "tmp" else 0o755
            archive.addfile(entry)
        _add(archive, "etc/passwd", _PASSWD.encode(), 0o644)
        _add(archive, program.name, program.read_bytes(), 0o755)
    content = layer.getvalue()
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Entrypoint": [f"/{program.name}"], "Env": ["PATH=/"], "WorkingDir": "/"},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{_digest(content)}"]},
        "history": [{"created_by": "operator lab"}],
    }
    config_text = json.dumps(config).encode()
    config_name = f"{_digest(config_text)}.json"
    manifest = [{"Config": config_name, "RepoTags": [name], "Layers": ["layer.tar"]}]
    with tarfile.open(output, "w") as archive:
        _add(archive, config_name, config_text, 0o644)
        _add(archive, "layer.tar", content, 0o644)
        _add(archive, "manifest.json", json.dumps(manifest).encode(), 0o644)


def _add(archive: tarfile.TarFile, name: str, content: bytes, mode: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    archive.addfile(entry, io.BytesIO(content))


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
