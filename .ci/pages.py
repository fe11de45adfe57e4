"""Build the documentation as a site that needs no server and no network.

    .venv/bin/python .ci/pages.py              into site/
    .venv/bin/python .ci/pages.py FOLDER

The pages are README.md, docs/ and the pages that README.md names beside them; its table of the
documentation is the navigation. A link to a file that is no page becomes the path of that file.
Every link and every anchor is checked, and a page that the navigation misses is an error.
"""

import argparse
import os
import posixpath
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

__all__ = ["PagesError", "build", "main", "navigation", "on_site", "rewrite"]

_ROOT = Path(__file__).resolve().parent.parent
_FRONT = "README.md"
_BESIDE = ("ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md")
_TABLE = re.compile(r"^## Documentation\n(.*?)(?=^## |\Z)", re.S | re.M)
_ROW = re.compile(r"^\| ([^|]+) \| (.*\]\(.*) \|$", re.M)
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s#]*)(#[^)\s]*)?\)")
_FENCE = re.compile(r"(^```.*?^```$)", re.S | re.M)
# Words behind the language of an example: who it is for, or how a test runs it.
_INFORMATION = re.compile(r"^```(\w+) (\w+)$", re.M)
_WAYS = ("pip", "pipx", "uv")
_FRAME = Path(__file__).with_name("offline.js")
_FRAME_NAME = "iframe-worker.js"  # the plug-in knows it by this name
_SITE = "search/search_index.js"  # only a site has it
_THEME: dict[str, Any] = {
    "name": "material",
    "font": False,  # it would be fetched from elsewhere
    "features": ["content.code.copy", "navigation.footer", "navigation.top", "toc.follow"],
    "palette": [
        {
            "media": f"(prefers-color-scheme: {now})",
            "scheme": scheme,
            "primary": "black",
            "toggle": {"icon": f"material/{icon}", "name": f"Use the {other} colours"},
        }
        for now, scheme, other, icon in (
            ("light", "default", "dark", "weather-night"),
            ("dark", "slate", "light", "weather-sunny"),
        )
    ],
}
_SETTINGS: dict[str, Any] = {
    "site_name": "Operator",
    "site_url": "",
    "use_directory_urls": False,
    "theme": _THEME,
    # The second plug-in makes the search work from files, with a script that it would fetch.
    "plugins": ["search", "offline"],
    "extra": {"generator": False, "polyfills": [f"assets/{_FRAME_NAME}"]},
    "markdown_extensions": [
        "tables",
        "sane_lists",
        "pymdownx.superfences",
        {"pymdownx.highlight": {"use_pygments": True}},
    ],
    "validation": {
        "nav": {"omitted_files": "warn", "not_found": "warn"},
        "links": {"not_found": "warn", "anchors": "warn", "unrecognized_links": "warn"},
    },
    "strict": True,
}


class PagesError(Exception):
    """The site cannot be built; the message is a sentence for a person, with the next step."""


def on_site(path: str) -> str | None:
    """Where a file of the checkout is in the site; None when it is not part of it."""
    if path == _FRONT:
        return "index.md"
    if path in _BESIDE:
        return path.lower()
    return path.removeprefix("docs/") if path.startswith("docs/") else None


def rewrite(text: str, path: str) -> str:
    """The text of a page with the links that it needs in the site."""
    folder, place = posixpath.dirname(path), posixpath.dirname(on_site(path) or "")

    def moved(link: re.Match[str]) -> str:
        mark, words, target, anchor = link[1], link[2], link[3], link[4] or ""
        if not target or "://" in target or target.startswith("mailto:"):
            return link[0]
        file = posixpath.normpath(posixpath.join(folder, target))
        if not (_ROOT / file).exists():
            raise PagesError(f"{path} has a link to {target!r}, which does not exist.")
        if (there := on_site(file)) is None or not (_ROOT / file).is_file():
            return f"{words} (`{file}`)" if words.strip("`") != file else f"`{file}`"
        return f"{mark}[{words}]({posixpath.relpath(there, place or '.')}{anchor})"

    def titled(example: re.Match[str]) -> str:
        title = f' title="{example[2]}"' if example[2] in _WAYS else ""
        return f"```{example[1]}{title}"

    return "".join(
        _INFORMATION.sub(titled, part) if part.startswith("```") else _LINK.sub(moved, part)
        for part in _FENCE.split(text)
    )


def navigation(front: str) -> list[dict[str, Any]]:
    """The navigation, from the table of the documentation in README.md."""
    table = _TABLE.search(front)
    rows = _ROW.findall(table[1]) if table else []
    if not rows:
        raise PagesError(f"{_FRONT} has no table of the documentation.")
    found: list[dict[str, Any]] = [{"Operator": "index.md"}]
    for title, links in rows:
        pages = [
            {words[0].upper() + words[1:]: place}
            for _, words, target, _ in _LINK.findall(links)
            if (place := on_site(target)) is not None
        ]
        found.append({title[0].upper() + title[1:]: pages})
    return found


def build(target: Path) -> int:
    """Build the site into the folder, and return the number of its pages."""
    if target.is_dir() and any(target.iterdir()) and not (target / _SITE).is_file():
        raise PagesError(f"{str(target)!r} has other files: name a new directory.")
    with tempfile.TemporaryDirectory(prefix="operator-docs-") as name:
        folder = Path(name)
        files = [path for path in (_ROOT / "docs").rglob("*") if path.is_file()]
        count = 0
        for path in [*files, *(_ROOT / page for page in (_FRONT, *_BESIDE))]:
            own = path.relative_to(_ROOT).as_posix()
            place = folder / "docs" / (on_site(own) or own)
            place.parent.mkdir(parents=True, exist_ok=True)
            if path.suffix == ".md":
                count += 1
                place.write_text(rewrite(path.read_text(encoding="utf-8"), own), encoding="utf-8")
            else:
                shutil.copy2(path, place)
        (folder / "docs" / "assets").mkdir()
        shutil.copy2(_FRAME, folder / "docs" / "assets" / _FRAME_NAME)
        settings = {
            **_SETTINGS,
            "docs_dir": str(folder / "docs"),
            "site_dir": str(folder / "site"),
            "nav": navigation((_ROOT / _FRONT).read_text(encoding="utf-8")),
        }
        (folder / "mkdocs.yml").write_text(_config(settings), encoding="utf-8")
        done = subprocess.run(
            [sys.executable, "-m", "mkdocs", "build", "-f", str(folder / "mkdocs.yml")],
            env={**os.environ, "NO_MKDOCS_2_WARNING": "1", "DISABLE_MKDOCS_2_WARNING": "true"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode:
            raise PagesError(f"the documentation has mistakes:\n{done.stdout.strip()}")
        if target.exists():
            shutil.rmtree(target)
        shutil.copytree(folder / "site", target)
    return count


def _config(settings: Mapping[str, Any]) -> str:
    """The file of settings; anchors are made as GitHub makes them, which YAML names by a tag."""
    slug = "  - toc:\n      permalink: true\n      slugify: !!python/object/apply:"
    slug += "pymdownx.slugs.slugify {kwds: {case: lower}}\n"
    text = yaml.safe_dump(dict(settings), sort_keys=False)
    return text.replace("markdown_extensions:\n", f"markdown_extensions:\n{slug[2:]}", 1)


def main(arguments: list[str]) -> int:
    """Build, print where it is, and return the exit code."""
    parser = argparse.ArgumentParser(description="Build the documentation site.")
    parser.add_argument("folder", nargs="?", type=Path, default=_ROOT / "site")
    target = parser.parse_args(arguments).folder
    try:
        count = build(target)
    except (PagesError, OSError) as error:
        sys.stderr.write(f"docs: {error}\n")
        return 1
    sys.stdout.write(f"{count} pages: open {target / 'index.html'}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
