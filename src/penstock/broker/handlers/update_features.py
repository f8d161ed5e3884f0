"""UpdateFeatures: finalizes the level of a feature for the whole cluster (KIP-584).

This broker's features are always at their highest level (see ApiVersions): asking for that level changes nothing, and
any other level, or an unknown feature, is INVALID_UPDATE_VERSION. As in Kafka, one error refuses all updates of the
request. Versions: 0 to 2; before 2 the answer names each feature.
"""

from __future__ import annotations

from penstock.broker.handlers.api_versions import FEATURE_LEVELS
from penstock.broker.request_context import RequestContext
from penstock.core.acls import AclOperation
from penstock.protocol.definitions.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from penstock.protocol.error_codes import ErrorCode


def handle(request: UpdateFeaturesRequest, context: RequestContext) -> UpdateFeaturesResponse:
    if not context.access.may_with_cluster(AclOperation.ALTER):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return UpdateFeaturesResponse(error_code=code, error_message=code.text)
    for update in request.feature_updates:
        reason = _refusal(update)
        if reason is not None:
            return UpdateFeaturesResponse(
                error_code=ErrorCode.INVALID_UPDATE_VERSION,
                error_message=f"No feature was updated: {update.feature[:100]} cannot be set to level "
                f"{update.max_version_level}, because {reason}.",
            )
    return UpdateFeaturesResponse(
        results=[UpdatableFeatureResult(feature=update.feature) for update in request.feature_updates]
    )


def _refusal(update: FeatureUpdateKey) -> str | None:
    level = FEATURE_LEVELS.get(update.feature)
    if level is None:
        return f"this broker has no such feature; it has {', '.join(FEATURE_LEVELS)}"
    if not 0 <= update.max_version_level <= level:
        return f"it supports the levels from 0 to {level}"
    if update.max_version_level < level:
        return f"this version runs it at level {level} only"
    return None
