from __future__ import annotations

from penstock.pipeline.declaration.redaction import redacted
from penstock.pipeline.declaration.spec import PipelineSpec


def test_passwords_do_not_show() -> None:
    spec = PipelineSpec.model_validate(
        {
            "name": "hidden",
            "source": {
                "topic": "orders",
                "options": {"kafka.sasl.password": "pa55word", "kafka.client.id": "me", "minPartitions": 8},
            },
            "sink": {"table": "orders", "url": "postgresql://user:s%40cret@host/db"},
        }
    )
    secrets = spec.secrets()
    assert secrets == {"pa55word", "s%40cret", "s@cret"}
    text = "refused pa55word, s@cret and s%40cret of user"
    assert redacted(text, secrets) == "refused ***, *** and *** of user"
