"""The built documentation asks no other host for anything, and fits on a phone.

    python tools/check_docs.py SITE [--narrow]

Reads the pages, style sheets and scripts in the folder SITE and prints a line for each thing
that a browser would fetch from another host; exit code 1 if there is any.  Links that a reader
may click on are no such thing.

With --narrow, every page is opened in Chromium, 400 pixels wide, and a line printed for each that
is wider: formulas, tables and code may scroll in themselves, a page may not.  Where there is no
Chromium with its driver, or no Selenium, that is said.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

# Attributes that a browser fetches when it shows the page.  "href" only of these:
FETCHED = {"src", "srcset", "imagesrcset", "poster", "data", "background", "manifest"}
FETCHED_HREF = {"use", "image", "feimage", "base"}
# <link rel=...> that only says something; every other rel counts as fetched.
SAYS = {"alternate", "author", "canonical", "help", "license", "next", "prev"}

ELSEWHERE = re.compile(r"\s*(?:[a-z][a-z0-9+.-]*:)?//", re.IGNORECASE)
IN_STYLE = re.compile(r"""(?:url\(|@import|image-set\()\s*["']?\s*([^"'\s)]+)""", re.IGNORECASE)
IN_SCRIPT = re.compile(
    r"""["'`](?:(?:https?|wss?)://[^"'`\s]+|//[\w-]+\.[^"'`\s]+)""", re.IGNORECASE
)

# Names that only look like addresses.
NAMESPACES = ("http://www.w3.org/",)


class Page(HTMLParser):
    """Collects what a page fetches from elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._inside = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._inside = tag if tag in ("script", "style") else ""
        given = {name.lower(): value or "" for name, value in attrs}
        for name, value in given.items():
            if name == "style":
                self.found += in_style(value)
            elif name == "srcdoc":
                self.found += in_page(value)
            elif self._is_fetched(tag, name.removeprefix("xlink:"), given):
                # srcset is a list of addresses, each with a size
                self.found += [part.strip() for part in value.split(",") if ELSEWHERE.match(part)]
        if tag == "meta" and given.get("http-equiv", "").lower() == "refresh":
            self.found += re.findall(r"(?i)url=\s*['\"]?((?:https?:)?//\S+)", given["content"])

    @staticmethod
    def _is_fetched(tag: str, name: str, given: dict[str, str]) -> bool:
        if name != "href":
            return name in FETCHED
        if tag == "link":
            return not set(given.get("rel", "").lower().split()) <= SAYS
        return tag in FETCHED_HREF

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside == "style":
            self.found += in_style(data)
        elif self._inside == "script":
            self.found += in_script(data)


def in_page(text: str) -> list[str]:
    """What a page fetches from other hosts."""
    page = Page()
    page.feed(text)
    page.close()
    return page.found


def in_style(text: str) -> list[str]:
    """The same of a style sheet."""
    return [address for address in IN_STYLE.findall(text) if ELSEWHERE.match(address)]


def in_script(text: str) -> list[str]:
    """Addresses that a script may fetch: strings that begin with one."""
    return [found[1:] for found in IN_SCRIPT.findall(text)]


READERS = {".html": in_page, ".css": in_style, ".js": in_script}


def violations(site: Path) -> Iterator[str]:
    """A sentence for each thing that would be fetched from another host."""
    files = {path: path.read_text(encoding="utf-8") for path in sorted(site.rglob("*.*"))
             if path.suffix in READERS}  # fmt: skip
    if not any(path.suffix == ".html" for path in files):
        yield f"{site}: no page here; build the documentation first (python -m sphinx docs site)"
    for path, text in files.items():
        if path.name == "searchindex.js":
            continue  # the text of the pages, once more
        for address in READERS[path.suffix](text):
            if not address.startswith(NAMESPACES):
                yield f"{path.relative_to(site)}: {address}"


WIDTH = 400  # CSS pixels, of a phone

# How wide the page is, and the first thing that a reader cannot see the end of: it reaches further
# than the window, and no part of the page around it scrolls.
MEASURE = """
const root = document.documentElement;
const find = (name) => document.querySelector(name);
const main = find("article") ?? find("main") ?? document.body;
const scrolls = (e) => e !== main &&
  (["auto", "scroll"].includes(getComputedStyle(e).overflowX) || scrolls(e.parentElement));
const wide = [...main.querySelectorAll("*")].find((e) =>
  e.getBoundingClientRect().right > root.clientWidth + 1 && e.checkVisibility() && !scrolls(e));
if (root.scrollWidth <= root.clientWidth && !wide) return null;
return [root.scrollWidth, wide ? wide.outerHTML.slice(0, 100) : ""];
"""


@contextmanager
def open_browser() -> Iterator[Any]:
    """A Chromium without a window, or None where there is none; it is closed in the end."""
    names = ("chromium", "chromium-browser", "google-chrome")
    binary = next(filter(None, map(shutil.which, names)), None)
    driver = shutil.which("chromedriver")
    try:
        from selenium import webdriver
    except ImportError:
        binary = None
    if binary is None or driver is None:
        yield None
        return
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for flag in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"):
        options.add_argument(flag)
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    try:
        yield browser
    finally:
        browser.quit()


def wide_pages(browser: Any, site: Path) -> Iterator[str]:
    """A sentence for each page that is wider than a phone."""
    size = {"width": WIDTH, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    for path in sorted(site.rglob("*.html")):
        browser.get(path.resolve().as_uri())
        wide = browser.execute_script(MEASURE)
        if wide is not None:
            yield f"{path.relative_to(site)}: does not fit {WIDTH} pixels ({wide[0]}): {wide[1]}"


def main() -> int:
    """Check the folder given."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("site", type=Path, metavar="SITE")
    parser.add_argument("--narrow", action="store_true", help="open every page as on a phone")
    given = parser.parse_args()
    found = list(violations(given.site))
    print("\n".join(found) if found else "docs: nothing is fetched from another host")
    if given.narrow:
        with open_browser() as browser:
            wide = [] if browser is None else list(wide_pages(browser, given.site))
        said = "no Chromium: not opened" if browser is None else f"every page fits {WIDTH} pixels"
        print("\n".join(wide) or f"docs: {said}")
        found += wide
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
