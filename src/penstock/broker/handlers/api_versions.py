"""ApiVersions: what this broker speaks. Derived from the router, so it cannot promise what is not there.

A version that the broker does not know is answered in version 0 with UNSUPPORTED_VERSION and the list (KIP-511), so
that a newer client can choose; `connection.py` sees to that.

Features (KIP-584) tell clients which protocols are switched on: with transaction.version 2 the epoch is bumped at the
end of every transaction (KIP-890), with group.version 1 there are groups of the newer protocol (KIP-848).

Versions: 0 to 4. Before 4 a client cannot read a supported feature that begins at 0, and is told of none.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from penstock.broker.request_context import RequestContext
from penstock.broker.router import ROUTES
from penstock.protocol.definitions.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from penstock.protocol.error_codes import ErrorCode

SOFTWARE_NAME_SINCE: Final = 3
FEATURES_FROM_ZERO_SINCE: Final = 4
FEATURE_LEVELS: Final = {"group.version": 1, "transaction.version": 2}
# Features do not change while the broker runs; a client takes only what has an epoch.
FEATURES_EPOCH: Final = 0
_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(request: ApiVersionsRequest, context: RequestContext) -> ApiVersionsResponse:
    if context.api_version >= SOFTWARE_NAME_SINCE and not (
        _SOFTWARE.fullmatch(request.client_software_name) and _SOFTWARE.fullmatch(request.client_software_version)
    ):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    return ApiVersionsResponse(
        api_keys=supported(),
        supported_features=[
            SupportedFeatureKey(name=name, min_version=0, max_version=level)
            for name, level in FEATURE_LEVELS.items()
            if context.api_version >= FEATURES_FROM_ZERO_SINCE
        ],
        finalized_features_epoch=FEATURES_EPOCH,
        finalized_features=[
            FinalizedFeatureKey(name=name, min_version_level=level, max_version_level=level)
            for name, level in FEATURE_LEVELS.items()
        ],
    )


def unsupported_version() -> ApiVersionsResponse:
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=supported())


@cache  # every connection begins with it
def supported() -> list[ApiVersion]:
    return [
        ApiVersion(api_key=route.api_key, min_version=route.advertised_from, max_version=route.max_version)
        for route in ROUTES
    ]
