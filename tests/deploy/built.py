"""Operator's own images, built by a real Docker engine on a stand-in of their base."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from operator_sre import __version__
from tests.engines.docker_keeper import Asking
from tests.engines.dockerd import Engine

__all__ = [
    "COMMIT",
    "FOLDER",
    "IMAGES",
    "add_image",
    "build_image",
    "hand_over",
    "load_image",
    "save_image",
    "take_in",
]

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "deploy" / "images"
BASE = "operator-tests/python:3.12-slim"
IMAGES = {target: f"operator-sre/{target}:{__version__}" for target in ("operator", "agent")}
BUILD_S_MAX, HAND_OVER_S_MAX = 1800.0, 900.0
COMMIT = "0123456789abcdef0123456789abcdef01234567"
CHUNK_BYTES = 1 << 20
# What is fetched for a build may come through somebody whom only this machine trusts.
TRUSTING = ("SSL_CERT_FILE", "PIP_CERT")
BUNDLE = "/etc/ssl/certs/ca-certificates.crt"


def take_in(engine: Engine, base: Path) -> None:
    """Give an engine the base, from a tar of its root."""
    add_image(engine, BASE, base, *(f"ENV {name}={BUNDLE}" for name in TRUSTING))


def add_image(engine: Engine, image: str, root: Path, *lines: str) -> None:
    """Give an engine an image, from a tar of its root and lines of a Dockerfile."""
    changes = "".join(f"&changes={quote(each)}" for each in lines)
    name, _, tag = image.partition(":")
    path = f"/images/create?fromSrc=-&repo={quote(name)}&tag={tag}{changes}"
    with root.open("rb") as file:
        told = _sent(engine, path, file)
    assert b'"error"' not in told, told


def load_image(engine: Engine, archive: Path) -> None:
    """Give an engine an image from an archive."""
    with archive.open("rb") as file:
        told = _sent(engine, "/images/load?quiet=1", file)
    assert b'"error"' not in told, told


def build_image(engine: Engine, target: str) -> None:
    """Build one of them with what the file beside the Dockerfile lets reach the builder."""
    asked = {
        "dockerfile": "deploy/images/Dockerfile",
        "target": target,
        "t": IMAGES[target],
        "networkmode": "host",
        "buildargs": json.dumps({"BASE": BASE, "COMMIT": COMMIT}),
        "version": "1",
    }
    told = _sent(engine, f"/build?{urlencode(asked)}", _context())
    said = [json.loads(line) for line in told.splitlines()]
    errors = [one["error"] for one in said if "error" in one]
    assert not errors, (errors, "".join(one.get("stream", "") for one in said)[-3000:])


def _context() -> io.BytesIO:
    patterns = (FOLDER / "Dockerfile.dockerignore").read_text().splitlines()
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        for name in [line[1:] for line in patterns if line.startswith("!")]:
            tar.add(ROOT / name, name, filter=_without_caches)
        tar.add(FOLDER / "Dockerfile", "deploy/images/Dockerfile")
    content.seek(0)
    return content


def _without_caches(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if "__pycache__" in Path(entry.name).parts else entry


def hand_over(one: Engine, other: Engine) -> None:
    """Both images of one engine are those of the other as well."""
    asking = Asking(one.socket, timeout_s=HAND_OVER_S_MAX)
    try:
        asking.request("GET", f"/images/get?{urlencode([('names', n) for n in IMAGES.values()])}")
        told = _sent(other, "/images/load?quiet=1", asking.getresponse())
    finally:
        asking.close()
    assert b'"error"' not in told, told


def save_image(engine: Engine, target: str, place: Path) -> None:
    """Write an image into an archive that every container runtime loads."""
    asking = Asking(engine.socket, timeout_s=HAND_OVER_S_MAX)
    try:
        asking.request("GET", f"/images/get?{urlencode([('names', IMAGES[target])])}")
        answer = asking.getresponse()
        assert answer.status == 200, answer.read(2000)
        with place.open("wb") as file:
            while chunk := answer.read(CHUNK_BYTES):
                file.write(chunk)
    finally:
        asking.close()


def _sent(engine: Engine, path: str, body: Any) -> bytes:
    """What an engine says to a stream that has no length of its own."""
    asking = Asking(engine.socket, timeout_s=BUILD_S_MAX)
    try:
        headers = {"Content-Type": "application/x-tar", "Transfer-Encoding": "chunked"}
        asking.request("POST", path, body, headers, encode_chunked=True)
        answer = asking.getresponse()
        told = answer.read()
    finally:
        asking.close()
    assert answer.status < 400, (answer.status, told[:2000])
    return told
