"""Topic patterns with RE2's syntax. Python's `re` is the oracle where both agree."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.coordinator.topic_pattern import TopicPattern
from penstock.protocol.error_codes import BrokerError, ErrorCode


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("orders", ["orders"], ["orders2", "my-orders", "", "Orders"]),
        ("", [""], ["a"]),
        ("orders.*", ["orders", "orders-eu", "orders.x"], ["order"]),
        (r"orders\..+", ["orders.x"], ["orders", "ordersxx"]),
        ("^orders$", ["orders"], ["orders-"]),
        ("a|b(c|d)e", ["a", "bce", "bde"], ["ace", "be"]),
        ("x{2}", ["xx"], ["x", "xxx"]),
        ("x{2,}", ["xx", "xxxx"], ["x"]),
        ("x{0,2}y?", ["", "x", "xxy", "y"], ["xxx", "xyy"]),
        ("[a-c0-9_-]+", ["a-0_9"], ["d", "a.b"]),
        ("[^a-c]x", ["dx", ".x"], ["ax"]),
        ("[]a]", ["a"], ["b"]),
        ("[[:digit:][:upper:]]+", ["A1"], ["a1"]),
        ("[[:^digit:]]", ["a"], ["1"]),
        (r"\d\D\w\W", ["1-_-", "0aA."], ["aaa-", "1-__"]),
        (r"[\d.]+", ["1.2"], ["a"]),
        (r"\pL\p{Nd}\P{Lu}\p{^L}", ["a1b1"], ["a1B1", "a1bb"]),
        ("(?i)Orders", ["orders", "ORDERS"], ["order"]),
        ("(?i:O)rders", ["orders", "Orders"], ["oRders"]),
        ("a(?i)b(?-i)c", ["abc", "aBc"], ["Abc", "abC"]),
        ("(?P<kind>a|b)(?<rest>c)(?:d)", ["acd"], ["abcd"]),
        (r"\Qa.b\E.*", ["a.b", "a.bc"], ["axb"]),
        (r"\Aa\z", ["a"], ["ba"]),
        (r"a\b.b", ["a-b", "a.b"], ["a_b", "aab"]),
        (r"a\B.b", ["a_b", "aab"], ["a-b"]),
        (r"\x61\x{62}", ["ab"], ["x61"]),
        ("a{,2}", [], ["a", "aa"]),  # as in RE2, not a repetition: the text itself, which no topic has
        ("(a*)*b", ["b", "aaab"], ["a"]),
        ("(|a)+", ["", "aa"], ["b"]),
        ("a.*?b", ["ab", "axxb"], ["a"]),
    ],
)
def test_matches_whole_names(pattern: str, matching: list[str], others: list[str]) -> None:
    compiled = TopicPattern(pattern)
    assert [name for name in matching if not compiled.matches(name)] == []
    assert [name for name in others if compiled.matches(name)] == []


@pytest.mark.parametrize(
    "pattern",
    [
        "(", ")", "(a", "a)", "[", "[a", "[z-a]", "[[:no:]]", "*", "a**", "a+*", "(?=a)", "(?!a)", "(?<=a)", r"(a)\1",
        "\\", "[\\", r"\y", r"\p{Greek}", "a{2,1}", "a{1001}", "(?x)a", "(?P<1>a)", "a{1000}{1000}", "(a{100}){100}",
        "(" * 60 + ")" * 60, "a" * 1001, r"\x{ffffff}",
    ],
)  # fmt: skip
def test_refuses_what_re2_refuses_or_what_is_too_large(pattern: str) -> None:
    with pytest.raises(BrokerError) as refusal:
        TopicPattern(pattern)
    assert refusal.value.code == ErrorCode.INVALID_REGULAR_EXPRESSION


@pytest.mark.timeout(10)
@pytest.mark.parametrize("pattern", ["(a+)+b", "(a|a)*b", "(a|aa)+b", "(.*.*.*.*)*b", "((a*)*)*b", "a{0,200}a{0,200}b"])
def test_matching_takes_linear_time_where_backtracking_would_not_end(pattern: str) -> None:
    compiled = TopicPattern(pattern)
    assert not compiled.matches("a" * 249)
    assert compiled.matches("a" * 200 + "b")


@pytest.mark.timeout(10)
def test_repeating_nothing_takes_no_time() -> None:
    assert TopicPattern("(((){1000}){1000}){1000}a").matches("a")


def test_forgetting_earlier_steps_changes_nothing() -> None:
    compiled = TopicPattern("[a-z0-9]*[13579]")
    for number in range(5_000):
        assert compiled.matches(f"topic{number}") is bool(number % 2)


atoms = st.sampled_from(["a", "b", "-", ".", r"\.", r"\d", r"\w", "[ab]", "[^a]", "[0-9_]", "^", "$", r"\b", "(?:)"])
patterns = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: f"(?:{'|'.join(parts)})"),
        st.builds(
            lambda part, quantifier: f"(?:{part}){quantifier}", inner, st.sampled_from(["*", "+", "?", "{2}", "{0,2}"])
        ),
    ),
    max_leaves=6,
)


@given(pattern=patterns, names=st.lists(st.text("ab-._1", max_size=6), min_size=1, max_size=5))
def test_agrees_with_python_where_both_mean_the_same(pattern: str, names: list[str]) -> None:
    compiled = TopicPattern(pattern)
    for name in names:
        assert compiled.matches(name) is (re.fullmatch(pattern, name, re.ASCII) is not None), (pattern, name)
