"""What the code blocks of the documentation must be, so that `page_runner.py` checks each; links, and images.

The blocks themselves run as a new user runs them: tests/new_user/test_pages.py.
"""

from __future__ import annotations

import re
from typing import Final

import pytest

from tests.docs.page_runner import FENCE, REPOSITORY_PAGES, ROOT, USER_PAGES, blocks, expected_output

PAGES: Final = [*USER_PAGES, *REPOSITORY_PAGES]
LANGUAGES: Final = ("sh", "python", "yaml", "text")


@pytest.mark.parametrize(
    ("text", "output", "matches"),
    [
        ("one\ntwo\n", "one\ntwo\n", True),
        ("one\n", "one\ntwo\n", False),
        ("two\n", "one\ntwo\n", False),
        ("offset ... of orders\n", "offset 17 of orders\n", True),
        ("offset ... of orders\n", "offset 17\nof orders\n", False),
        ("...\ntwo\n", "zero\none\ntwo\n", True),
        ("one\n...\n", "one\ntwo\nthree\n", True),
        ("one\n...\n", "two\none\n", False),
        ("a.b\n", "a-b\n", False),
    ],
)
def test_an_output_block_is_compared_whole(text: str, output: str, matches: bool) -> None:
    assert bool(expected_output(text).fullmatch(output)) is matches


def test_every_block_is_checked() -> None:
    unchecked = [
        f"{page.name}:{block.line}" for page in PAGES for block in blocks(page) if block.language not in LANGUAGES
    ]
    assert unchecked == []


def test_only_pages_that_a_user_reads_have_blocks() -> None:
    """The blocks of the others would not run."""
    assert [page.name for page in REPOSITORY_PAGES if blocks(page)] == []


def test_an_output_block_follows_a_block_that_runs() -> None:
    for page in PAGES:
        before = ""
        for block in blocks(page):
            assert block.language != "text" or before in ("sh", "python"), f"{page.name}:{block.line}"
            before = block.language


def test_every_link_and_image_exists() -> None:
    """Of links to files of ours: the file, and the heading where the link names one."""
    link = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]*))?\)")
    for page in [
        *PAGES,
        *sorted(ROOT.glob("[AC]*.md")),
        *sorted(ROOT.glob("docs/adr/*.md")),
        ROOT / "examples/README.md",
    ]:
        for match in link.finditer(FENCE.sub("", page.read_text(encoding="utf-8"))):
            path, heading = match.groups()
            target = page.parent / path if path else page
            assert target.exists(), f"{page.name}: {match[0]}"
            if heading:
                headings = re.findall(r"^#+ (.*)$", FENCE.sub("", target.read_text(encoding="utf-8")), re.MULTILINE)
                anchors = [re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in headings]
                assert heading in anchors, f"{page.name}: {match[0]}"


def test_images_load_nothing_from_elsewhere() -> None:
    images = sorted(ROOT.glob("docs/images/*.svg"))
    assert images
    for image in images:
        text = image.read_text(encoding="utf-8").replace('xmlns="http://www.w3.org/2000/svg"', "")
        assert not re.search(r"https?://|@import|<script|url\((?!#)", text), image.name
