"""Fetch the pinned files of a rig from a Maven repository into a cache, each checked by digest."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import os
import re
import shutil
import tempfile
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO

from operator_protocols.domain.rig import Artifact
from operator_protocols.errors import RigError
from operator_protocols.kit.units import format_bytes

__all__ = ["REPOSITORY_VARIABLE", "Tell", "fetch_artifacts", "repository_of"]

REPOSITORY_VARIABLE = "OPERATOR_MAVEN_REPOSITORY"
ANSWER_S_MAX = 30.0
CHUNK_BYTES = 256 << 10
SETTINGS_BYTES_MAX = 1 << 20
AT_ONCE = 4
_MIRROR = re.compile(r"<mirror>(.*?)</mirror>", re.DOTALL)
_URL = re.compile(r"<url>\s*(https?://[^<\s]+?)/?\s*</url>")
_FOR_CENTRAL = re.compile(r"<mirrorOf>[^<]*(?:\*|\bcentral\b)[^<]*</mirrorOf>")
_SUPER_POM = "org/apache/maven/model/pom-4.0.0.xml"

Tell = Callable[[str], None]


def fetch_artifacts(
    artifacts: Sequence[Artifact], tell: Tell, *, env: Mapping[str, str] = os.environ
) -> None:
    """Return when every file is in its place with its digest; RigError says what is missing.

    Files in the local repository of Maven are copied. Several processes may do it at once.
    """
    missing = [each for each in artifacts if _digest(Path(each.file)) != each.sha256]
    local = Path(env.get("HOME", "/")) / ".m2" / "repository"
    rest = [each for each in missing if not _copy(local / each.path, each)]
    if not rest:
        return
    repository = repository_of(env)
    total, done = sum(each.size_bytes for each in rest), 0
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for each, _ in zip(
            rest, pool.map(lambda each: _fetch(repository, each), rest), strict=True
        ):
            done += each.size_bytes
            tell(f"fetched {format_bytes(done)} of {format_bytes(total)}")


def repository_of(env: Mapping[str, str]) -> str:
    """The repository of the environment: the variable, a mirror in Maven's settings, or its own.

    RigError where none is configured.
    """
    if given := env.get(REPOSITORY_VARIABLE, "").rstrip("/"):
        if not given.startswith(("https://", "http://")):
            raise RigError(f"{REPOSITORY_VARIABLE} is not an http(s) address.")
        return given
    settings = Path(env.get("HOME", "/")) / ".m2" / "settings.xml"
    with contextlib.suppress(OSError):
        text = settings.read_bytes()[:SETTINGS_BYTES_MAX].decode("utf-8", "replace")
        for mirror in _MIRROR.findall(re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)):
            if _FOR_CENTRAL.search(mirror) and (url := _URL.search(mirror)):
                return url[1]
    # What an installed Maven uses without any setting.
    program = shutil.which("mvn", path=env.get("PATH"))
    libraries = Path(program).resolve().parents[1] / "lib" if program else Path("/nonexistent")
    for file in sorted(libraries.glob("maven-model-builder*.jar")):
        with contextlib.suppress(OSError, KeyError, zipfile.BadZipFile):
            with zipfile.ZipFile(file) as archive:
                pom = archive.read(_SUPER_POM).decode("utf-8", "replace")
            if url := _URL.search(pom):
                return url[1]
    raise RigError(
        "The rig needs files of Maven Central, and no Maven repository is configured.",
        next_step=f"Install Maven, or set {REPOSITORY_VARIABLE} to the address of a repository.",
    )


def _digest(file: Path) -> str:
    try:
        with file.open("rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest()
    except OSError:
        return ""


def _copy(source: Path, artifact: Artifact) -> bool:
    if _digest(source) != artifact.sha256:
        return False
    with source.open("rb") as content, _draft(artifact) as draft:
        shutil.copyfileobj(content, draft)
    return True


def _fetch(repository: str, artifact: Artifact) -> None:
    name = Path(artifact.path).name
    try:
        request = urllib.request.Request(f"{repository}/{artifact.path}")  # noqa: S310  http(s)
        with (
            urllib.request.urlopen(request, timeout=ANSWER_S_MAX) as answer,  # noqa: S310
            _draft(artifact) as draft,
        ):
            digest, left = hashlib.sha256(), artifact.size_bytes
            while chunk := answer.read(CHUNK_BYTES):
                left -= len(chunk)
                digest.update(chunk)
                if left < 0:
                    break
                draft.write(chunk)
            if left or digest.hexdigest() != artifact.sha256:
                raise RigError(
                    f"{name} of the Maven repository is not the pinned file.",
                    next_step=f"Use another repository: set {REPOSITORY_VARIABLE}.",
                )
    except urllib.error.HTTPError as problem:
        raise _unavailable(name, f"it answered {problem.code}") from problem
    except (OSError, http.client.HTTPException) as problem:
        reason = getattr(problem, "reason", problem)
        raise _unavailable(name, str(reason) or type(problem).__name__) from problem


def _unavailable(name: str, why: str) -> RigError:
    return RigError(
        f"{name} cannot be fetched from the Maven repository: {why}.",
        next_step=f"Try again, or set {REPOSITORY_VARIABLE} to another repository.",
    )


@contextlib.contextmanager
def _draft(artifact: Artifact) -> Iterator[BinaryIO]:
    """A file beside the place of the artifact, which it takes when nothing was raised."""
    place = Path(artifact.file)
    place.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{place.name}.", dir=place.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        Path(name).chmod(0o644)
        Path(name).replace(place)
    finally:
        Path(name).unlink(missing_ok=True)
