"""Make a release: wheels, checksums, a list of all components, and a signature over them.

    make release                                  build and check into dist/, unsigned
    make release ARGS="--key FILE"                and sign; FILE is made if it does not exist
    make release ARGS=--write                     first write the version and the changelog heading

The version follows from the changelog. The first release is the version of pyproject.toml. After
that, a section `### Breaking` in `## Unreleased` raises the second number before 1.0 and the first
from then on, only `### Fixed` raises the last, and anything else the second.

`operator release verify dist` checks all of it without a network.
"""

import argparse
import datetime
import importlib.metadata
import json
import re
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import Requirement

import dist
from operator_sre.app.release_files import BILL, KEY, SIGNATURE, SIGNED, SUMS, sum_of
from operator_sre.ledger import KeyFile

__all__ = ["components", "main", "next_version", "write_version"]

_ROOT = Path(__file__).resolve().parent.parent
_CHANGELOG = _ROOT / "CHANGELOG.md"
_UNRELEASED = "## Unreleased"
# Every file that states the version, as `version = "..."` or `__version__ = "..."`.
VERSIONED = (
    *(f"{project}/pyproject.toml" for project in dist.PROJECTS),
    "src/operator_sre/__init__.py",
    "services/ratelimiter/src/operator_ratelimiter/__init__.py",
)
_VERSION = re.compile(r'^((?:__)?version(?:__)? = ")(\d+\.\d+\.\d+)(")', re.M)


class ReleaseError(Exception):
    """The tree cannot be released; the message is a sentence for a person, with the next step."""


def next_version(changelog: str, now: str) -> str:
    """The version of the next release, by what the changelog says since the last one."""
    _, found, rest = changelog.partition(_UNRELEASED)
    if not found:
        raise ReleaseError(f"CHANGELOG.md has no section {_UNRELEASED!r}.")
    section, _, older = rest.partition("\n## ")
    if not re.search(r"^- ", section, re.M):
        raise ReleaseError("CHANGELOG.md says nothing since the last release: describe a change.")
    released = re.match(r"(\d+)\.(\d+)\.(\d+)", older)
    if released is None:
        return now
    major, minor, patch = map(int, released.groups())
    titles = set(re.findall(r"^### (.*)$", section, re.M))
    if "Breaking" in titles and major:
        return f"{major + 1}.0.0"
    if titles == {"Fixed"}:
        return f"{major}.{minor}.{patch + 1}"
    return f"{major}.{minor + 1}.0"


def write_version(root: Path, version: str, today: str) -> None:
    """Write the version into every file that states it, and head the changelog with it."""
    for name in VERSIONED:
        file = root / name
        text, count = _VERSION.subn(rf"\g<1>{version}\g<3>", file.read_text(), count=1)
        if not count:
            raise ReleaseError(f"{name} states no version.")
        file.write_text(text)
    changelog = root / "CHANGELOG.md"
    heading = f"{_UNRELEASED}\n\n## {version} ({today})"
    changelog.write_text(changelog.read_text().replace(_UNRELEASED, heading, 1))


def components(name: str) -> Iterator[dict[str, object]]:
    """Everything that a distribution with all of its extras installs, in CycloneDX's words."""
    names, seen = [name], set[str]()
    while names:
        key = re.sub(r"[-_.]+", "-", names.pop()).lower()
        if key in seen:
            continue
        seen.add(key)
        try:
            found = importlib.metadata.distribution(key)
        except importlib.metadata.PackageNotFoundError:
            continue  # for another system or Python
        own = key.startswith("operator-")
        extras = (found.metadata.get_all("Provides-Extra") or []) if own else []
        for text in found.requires or []:
            wanted = Requirement(text)
            marker = wanted.marker
            if marker is None or any(marker.evaluate({"extra": e}) for e in ("", *extras)):
                names.append(wanted.name)
        (expression, *_) = found.metadata.get_all("License-Expression") or [""]
        yield {
            "type": "library",
            "bom-ref": f"pkg:pypi/{key}@{found.version}",
            "name": key,
            "version": found.version,
            "purl": f"pkg:pypi/{key}@{found.version}",
            **({"licenses": [{"expression": expression}]} if expression else {}),
        }


def write_bill(target: Path, version: str) -> None:
    """Write the bill of materials."""
    found = sorted(components("operator-sre"), key=lambda component: str(component["name"]))
    pins = (target / "constraints.txt").read_text().split()
    serial = uuid.uuid5(uuid.NAMESPACE_URL, f"operator-sre@{version} {' '.join(pins)}")
    own = f"pkg:pypi/operator-sre@{version}"
    bill = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{serial}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": own,
                "name": "operator-sre",
                "version": version,
                "purl": own,
            }
        },
        "components": [component for component in found if component["bom-ref"] != own],
    }
    (target / BILL).write_text(json.dumps(bill, indent=1) + "\n", encoding="utf-8")


def release(target: Path, *, key: Path | None, write: bool) -> str:
    """Build everything into the folder, and return the version."""
    stated = _VERSION.search((_ROOT / "pyproject.toml").read_text())
    now = stated[2] if stated else ""
    version = next_version(_CHANGELOG.read_text(), now)
    if write:
        write_version(_ROOT, version, f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}")
    wrong = [
        name
        for name in VERSIONED
        if (found := _VERSION.search((_ROOT / name).read_text())) is None or found[2] != version
    ]
    if wrong:
        raise ReleaseError(
            f"The next version is {version}, and {', '.join(wrong)} says otherwise:"
            " run `make release ARGS=--write`, and commit."
        )
    for old in (SIGNATURE, KEY):
        (target / old).unlink(missing_ok=True)
    signer = KeyFile(key) if key is not None else None
    dist.build(target, key=signer.key if signer else "")
    write_bill(target, version)
    files = sorted(file for file in target.iterdir() if file.name != SUMS)
    lines = [f"{sum_of(file)}  {file.name}\n" for file in files]
    (target / SUMS).write_text("".join(lines), encoding="utf-8")
    if signer is not None:
        signature = signer.sign(SIGNED + (target / SUMS).read_bytes())
        (target / SIGNATURE).write_text(f"{signature.hex()}\n", encoding="utf-8")
        (target / KEY).write_text(f"{signer.key}\n", encoding="utf-8")
    return version


def main(arguments: list[str]) -> int:
    """Release, print what was made, and return the exit code."""
    parser = argparse.ArgumentParser(description="Make a release.")
    parser.add_argument("folder", nargs="?", type=Path, default=_ROOT / "dist")
    parser.add_argument("--key", type=Path, help="sign with the Ed25519 key in this file")
    parser.add_argument("--write", action="store_true", help="write the version into the tree")
    options = parser.parse_args(arguments)
    try:
        version = release(options.folder, key=options.key, write=options.write)
    except (ReleaseError, dist.DistError, OSError) as error:
        sys.stderr.write(f"release: {error}\n")
        return 1
    signed = "signed" if options.key else "not signed: name a key with ARGS='--key FILE'"
    sys.stdout.write(f"{version} is in {options.folder}, {signed}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
