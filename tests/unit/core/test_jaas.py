from __future__ import annotations

import pytest

from penstock.core.jaas import LoginModule, MalformedJaas, parse_jaas


def test_a_login_module_with_options() -> None:
    text = (
        "org.apache.kafka.common.security.plain.PlainLoginModule required\n"
        '  username="admin" password="a \\"quoted\\" pass;word"\n  user_alice="alice-secret" user_bob=bare;'
    )
    assert parse_jaas(text) == LoginModule(
        "PlainLoginModule",
        {
            "username": "admin",
            "password": 'a "quoted" pass;word',
            "user_alice": "alice-secret",
            "user_bob": "bare",
        },
    )
    assert parse_jaas("ScramLoginModule required;") == LoginModule("ScramLoginModule", {})


@pytest.mark.parametrize(
    "text",
    ["", "PlainLoginModule", "PlainLoginModule required", 'M required a="hush', "M required a=hush; M required;",
     'M required a="hush" a="hush";'],
)  # fmt: skip
def test_malformed_texts_are_refused_without_showing_them(text: str) -> None:
    with pytest.raises(MalformedJaas) as refused:
        parse_jaas(text)
    assert "hush" not in str(refused.value)
