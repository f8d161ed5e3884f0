from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.properties import Entry, PropertiesError, format_properties, parse_properties


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("a=b", "a", "b"),
        ("a:b", "a", "b"),
        ("a b", "a", "b"),
        ("  a \t = \f b ", "a", "b "),
        ("a", "a", ""),
        ("a=", "a", ""),
        ("a==b", "a", "=b"),
        ("a\\=b=c", "a=b", "c"),
        ("a\\ b=c", "a b", "c"),
        ("a=b\\\n   c", "a", "bc"),
        ("a=b\\\\\nc=d", "a", "b\\"),
        ("a=\\u00e9\\t\\q", "a", "\u00e9\tq"),
        ("a=b # no comment", "a", "b # no comment"),
        ("=b", "", "b"),
        ("a=b\\", "a", "b"),
        ("a=\u2028b", "a", "\u2028b"),
    ],
)
def test_entries_are_read_as_java_reads_them(text: str, key: str, value: str) -> None:
    assert parse_properties(text)[0][:2] == (key, value)


def test_comments_blank_lines_and_line_numbers() -> None:
    text = "# a comment \\\n\n! another\r\nfirst=1\r\n\n  # indented\nsecond=\\\n2\rthird=3"
    assert parse_properties(text) == [Entry("first", "1", 4), Entry("second", "2", 7), Entry("third", "3", 9)]


def test_a_bad_unicode_escape_names_its_line() -> None:
    with pytest.raises(PropertiesError, match="line 2"):
        parse_properties("a=b\nc=\\u12g4\n")


@given(st.dictionaries(st.text(min_size=1), st.text()))
def test_what_is_written_is_read_back(values: dict[str, str]) -> None:
    entries = parse_properties(format_properties(values))
    assert {entry.key: entry.value for entry in entries} == values
