"""Which client settings a connector's configuration may override: `connector.client.config.override.policy`.

Owns the policies of Kafka Connect. The names of client settings are the clients' concern.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from penstock.connect.config.definition import ConfigException

PREFIXES: Final = ("producer.override.", "consumer.override.", "admin.override.")
ALLOWLIST: Final = "connector.client.config.override.allowlist"
_PACKAGE: Final = "org.apache.kafka.connect.connector.policy."
_CLASS_SUFFIX: Final = "ConnectorClientConfigOverridePolicy"
_OF_PRINCIPALS: Final = frozenset({"sasl.jaas.config", "sasl.mechanism", "security.protocol"})
POLICIES: Final = ("All", "None", "Principal", "Allowlist")


def policy_name(text: str) -> str:
    """`All`, the class name, or the class name with its package. Raises ConfigException."""
    name = text.strip().removeprefix(_PACKAGE).removesuffix(_CLASS_SUFFIX)
    if name not in POLICIES:
        raise ConfigException(
            f"Invalid value {text} for configuration connector.client.config.override.policy: expected one of"
            f" {', '.join(POLICIES)}",
            "connector.client.config.override.policy",
        )
    return name


def overrides(config: Mapping[str, str]) -> dict[str, str]:
    """The properties of a connector's configuration that override client settings."""
    return {name: value for name, value in config.items() if name.startswith(PREFIXES)}


def refusal(policy: str, allowlist: tuple[str, ...], name: str) -> str | None:
    """Why the policy refuses this property, or None. `name` has its prefix."""
    setting = name.split(".override.", 1)[1]
    allowed: Mapping[str, Callable[[], bool]] = {
        "All": lambda: True,
        "None": lambda: False,
        "Principal": lambda: setting in _OF_PRINCIPALS,
        "Allowlist": lambda: setting in allowlist,
    }
    if allowed[policy]():
        return None
    return f"The '{policy}' policy does not allow '{setting}' to be overridden in the connector configuration."
