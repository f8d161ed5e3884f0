"""What a SASL listener asks of its clients before it serves them: its mechanisms and their users.

Made once per listener by the composition root, from settings and the cluster image. Each connection takes its own
`Authentication` from it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from penstock.core.credentials import ScramCredential, ScramMechanism
from penstock.metadata.listener_security import SaslSettings
from penstock.security.authentication import Authentication
from penstock.security.sasl_server import OAuthBearerExchange, PlainExchange, ScramExchange, ServerExchange

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.broker.node import Node
    from penstock.security.tokens import TokenVerifier


class ListenerGate:
    """`tokens` is there where the listener offers OAUTHBEARER."""

    def __init__(self, settings: SaslSettings, node: Node, tokens: TokenVerifier | None = None) -> None:
        self._node = node
        self._settings = settings
        self._tokens = tokens
        self._makers = {name: self._maker(name) for name in settings.mechanisms}
        # Secrets of this process: `uuid` is the machine's own randomness.
        self._decoy_secret = node.entropy.uuid() + node.entropy.uuid()

    def new_authentication(self) -> Authentication:
        return Authentication(self._makers, self._settings.max_reauth_ms)

    def _maker(self, mechanism: str) -> Callable[[], ServerExchange]:
        if mechanism == "PLAIN":
            return partial(PlainExchange, self._settings.plain_users)
        if mechanism == "OAUTHBEARER":
            assert self._tokens is not None
            return partial(OAuthBearerExchange, self._tokens.verify)
        return partial(self._scram, ScramMechanism[mechanism.replace("-", "_")])

    def _scram(self, mechanism: ScramMechanism) -> ScramExchange:
        nonce = (self._node.entropy.uuid() + self._node.entropy.uuid()).hex()
        return ScramExchange(mechanism, partial(self._find, mechanism), nonce, self._decoy_secret)

    def _find(self, mechanism: ScramMechanism, user: str) -> ScramCredential | None:
        return self._node.image.scram_credentials.get((user, mechanism))
