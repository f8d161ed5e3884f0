"""Kafka's `sasl.jaas.config`: one login module with its options.

Must not know what the options mean: the wire client takes a username and a password from them, the broker the users of
PLAIN.

Invariant: no error message contains the text, which holds passwords.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_OPTION: Final = r"([\w.$@-]+)\s*=\s*(?:\"((?:\\.|[^\"\\])*)\"|([^\s\";]+))"
_ENTRY: Final = re.compile(
    r"\s*(?P<module>[\w.$]+)\s+(?P<flag>\w+)"
    r"(?P<options>(?:\s+[\w.$@-]+\s*=\s*(?:\"(?:\\.|[^\"\\])*\"|[^\s\";]+))*)\s*;\s*",
    re.DOTALL,
)
_OPTIONS: Final = re.compile(_OPTION, re.DOTALL)


class MalformedJaas(Exception):
    """The text is not one login module. The message says what is wrong, without the text."""


class LoginModule(NamedTuple):
    """`name` is the class without its package: `PlainLoginModule`."""

    name: str
    options: dict[str, str]


def parse_jaas(text: str) -> LoginModule:
    match = _ENTRY.fullmatch(text)
    if match is None:
        raise MalformedJaas('expected one entry: org.apache.kafka...LoginModule required name="value" ... ;')
    options: dict[str, str] = {}
    for name, quoted, bare in _OPTIONS.findall(match["options"]):
        if name in options:
            raise MalformedJaas(f"the option {name} is given twice")
        options[name] = bare or re.sub(r"\\(.)", r"\1", quoted)
    return LoginModule(match["module"].rpartition(".")[2], options)
