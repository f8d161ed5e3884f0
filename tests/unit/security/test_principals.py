"""Kafka's principal mapping rules (the examples of its documentation), and distinguished names as Java writes them."""

from __future__ import annotations

import pytest

from penstock.security.principals import InvalidRule, NoMatchingRule, PrincipalMapping, distinguished_name

# The rules of Kafka's documentation.
RULES = (
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,"
    "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L,"
    "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L,"
    "DEFAULT"
)


@pytest.mark.parametrize(
    ("name", "user"),
    [
        ("CN=serviceuser,OU=ServiceUsers,O=Unknown,L=Unknown,ST=Unknown,C=Unknown", "serviceuser"),
        ("CN=adminUser,OU=Admin,O=Unknown,L=Unknown,ST=Unknown,C=Unknown", "adminuser@admin"),
        ("OU=Somewhere,CN=Kafka.Example", "kafka.example"),
        ("O=nothing else", "O=nothing else"),
    ],
)
def test_the_rules_of_the_documentation(name: str, user: str) -> None:
    assert PrincipalMapping.parse(RULES).user_of(name) == user


@pytest.mark.parametrize(
    ("rules", "user"),
    [
        ("DEFAULT", "CN=Duke,O=Sun"),
        ("", "CN=Duke,O=Sun"),
        ("RULE:CN=(.*),O=(.*)/$2-$1/U", "SUN-DUKE"),
        ("RULE:CN=(.*),O=(.*)/$2-$1/", "Sun-Duke"),
        ("RULE:nothing/x/ , RULE:CN=(\\w+),.*/$1/L", "duke"),
        ("RULE:CN=Duke,O=Sun/a\\/b/", "a/b"),
        ("RULE:CN=(.*?),.*/$1$2/", "Duke$2"),
        ("RULE:CN=(?<name>.*?),.*/$1/", "Duke"),
    ],
)
def test_rules(rules: str, user: str) -> None:
    assert PrincipalMapping.parse(rules).user_of("CN=Duke,O=Sun") == user


def test_a_rule_must_match_the_whole_name() -> None:
    with pytest.raises(NoMatchingRule, match="CN=Duke,O=Sun"):
        PrincipalMapping.parse("RULE:CN=Duke/$0/").user_of("CN=Duke,O=Sun")


@pytest.mark.parametrize(
    "rules",
    [
        "default",
        "RULE:",
        "RULE:x/y",
        "RULE:x/y/Q",
        "RULE:x/y/LU",
        "RULE:(/y/",
        "DEFAULT RULE:x/y/",
        "DEFAULT,nonsense",
        "RULE:[/x/, DEFAULT",
    ],
)
def test_rules_that_do_not_parse(rules: str) -> None:
    with pytest.raises(InvalidRule) as refused:
        PrincipalMapping.parse(rules)
    assert "\n" not in str(refused.value)


def test_distinguished_names_are_written_as_java_writes_them() -> None:
    subject = (
        (("countryName", "DE"),),
        (("organizationName", "Fluss, Damm + Söhne"),),
        (("organizationalUnitName", "A"), ("organizationalUnitName", "B")),
        (("commonName", " padded "),),
        (("emailAddress", "a@b.c"),),
    )
    assert distinguished_name(subject) == (
        "1.2.840.113549.1.9.1=#16056140622e63,CN=\\ padded\\ ,OU=A+OU=B,O=Fluss\\, Damm \\+ Söhne,C=DE"
    )
