"""ApiVersions: what this broker speaks. Derived from the router, so it cannot promise what is not there.

A version that the broker does not know is answered in version 0 with UNSUPPORTED_VERSION and the list (KIP-511), so
that a newer client can choose; `connection.py` sees to that. Versions: 0 to 4.
"""

from __future__ import annotations

import re
from typing import Final

from penstock.broker.request_context import RequestContext
from penstock.broker.router import ROUTES
from penstock.protocol.definitions.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from penstock.protocol.error_codes import ErrorCode

SOFTWARE_NAME_SINCE: Final = 3
_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(request: ApiVersionsRequest, context: RequestContext) -> ApiVersionsResponse:
    if context.api_version >= SOFTWARE_NAME_SINCE and not (
        _SOFTWARE.fullmatch(request.client_software_name) and _SOFTWARE.fullmatch(request.client_software_version)
    ):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    return ApiVersionsResponse(api_keys=supported())


def unsupported_version() -> ApiVersionsResponse:
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=supported())


def supported() -> list[ApiVersion]:
    return [
        ApiVersion(api_key=route.api_key, min_version=route.advertised_from, max_version=route.max_version)
        for route in ROUTES
    ]
