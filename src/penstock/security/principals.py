"""From a client certificate to a principal: its distinguished name, and `ssl.principal.mapping.rules` (KIP-371).

The rules are Kafka's: `RULE:pattern/replacement/[LU]` or `DEFAULT`, separated by commas. The first rule whose pattern
matches the whole name decides; L and U turn the result into lower or upper case; DEFAULT keeps the name as it is. `$1`
stands for a group, and a backslash escapes a slash or a backslash. A name that no rule matches is refused.

Must not know: certificates as files, and TLS.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

_RULE: Final = re.compile(
    r"\s*(?:(?P<default>DEFAULT)|RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<replacement>(?:\\.|[^\\/])*)/(?P<case>[LU]?))\s*(?:,|$)",
    re.DOTALL,
)
_GROUP: Final = re.compile(r"\\(.)|\$(\d)", re.DOTALL)


class InvalidRule(Exception):
    """A rule that does not parse. The message names the rule and what is wrong with it, in one line."""


class NoMatchingRule(Exception):
    """No rule matches the certificate's name."""


class _Rule(NamedTuple):
    pattern: re.Pattern[str] | None  # None for DEFAULT
    replacement: str
    case: str

    def apply(self, name: str) -> str | None:
        if self.pattern is None:
            return name
        match = self.pattern.fullmatch(name)
        if match is None:
            return None

        def substituted(part: re.Match[str]) -> str:
            escaped, group = part.groups()
            if escaped is not None:
                return str(escaped)
            # As in Kafka, a group that the pattern does not have stands for itself.
            return match[int(group)] or "" if int(group) <= match.re.groups else part[0]

        result = _GROUP.sub(substituted, self.replacement)
        return {"L": result.lower, "U": result.upper}.get(self.case, lambda: result)()


class PrincipalMapping:
    def __init__(self, rules: Sequence[_Rule]) -> None:
        self._rules = tuple(rules)

    @classmethod
    def parse(cls, text: str) -> PrincipalMapping:
        """Raises InvalidRule. An empty text is DEFAULT."""
        rules: list[_Rule] = []
        position = 0
        text = text.strip() or "DEFAULT"
        while position < len(text):
            match = _RULE.match(text, position)
            if match is None:
                rest = text[position : position + 80]
                raise InvalidRule(f"{rest!r} is not a rule; expected RULE:pattern/replacement/[LU] or DEFAULT")
            rules.append(_rule(match))
            position = match.end()
        return cls(rules)

    def user_of(self, distinguished_name: str) -> str:
        for rule in self._rules:
            user = rule.apply(distinguished_name)
            if user:
                return user
        raise NoMatchingRule(f"no rule of ssl.principal.mapping.rules matches {distinguished_name!r}")


def _rule(match: re.Match[str]) -> _Rule:
    if match["default"]:
        return _Rule(None, "", "")
    try:
        # Java and Python agree on everything such rules use, apart from the spelling of named groups.
        pattern = re.compile(match["pattern"].replace("(?<", "(?P<").replace("(?P<=", "(?<=").replace("(?P<!", "(?<!"))
    except re.error as error:
        raise InvalidRule(f"the pattern of {match[0].strip(' ,')[:80]!r} is not valid: {error}") from None
    return _Rule(pattern, match["replacement"], match["case"])


# RFC 2253's keywords; OpenSSL's long names are what Python reports.
_KEYWORDS: Final = {
    "commonName": "CN",
    "countryName": "C",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}
# Java writes others as their object identifier and the value's DER encoding.
_OBJECT_IDENTIFIERS: Final = {
    "emailAddress": ("1.2.840.113549.1.9.1", 0x16),  # IA5String
    "serialNumber": ("2.5.4.5", 0x13),  # PrintableString
    "title": ("2.5.4.12", 0x0C),  # UTF8String
    "surname": ("2.5.4.4", 0x0C),
    "givenName": ("2.5.4.42", 0x0C),
}

RelativeName = Sequence[tuple[str, str]]


def distinguished_name(subject: Sequence[RelativeName]) -> str:
    """The subject of a certificate as Java's X500Principal.getName() writes it, which Kafka's rules are made for.

    `subject` is in the certificate's order, as `ssl` reports it; RFC 2253 writes the last part first.
    """
    return ",".join("+".join(_attribute(*attribute) for attribute in part) for part in reversed(subject))


def _attribute(name: str, value: str) -> str:
    if name in _OBJECT_IDENTIFIERS:
        identifier, tag = _OBJECT_IDENTIFIERS[name]
        content = value.encode()
        if len(content) < 0x80:
            return f"{identifier}=#{bytes((tag, len(content))).hex()}{content.hex()}"
    escaped = re.sub(r'([,+"\\<>;])', r"\\\1", value)
    if escaped.startswith(("#", " ")):
        escaped = "\\" + escaped
    if escaped.endswith(" ") and len(value) > 1:
        escaped = escaped[:-1] + "\\ "
    return f"{_KEYWORDS.get(name, name)}={escaped}"
