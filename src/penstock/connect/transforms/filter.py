"""Filter: drops records. It is used with a predicate."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.connect.config.definition import ConfigDef
from penstock.connect.data.records import RecordGroup, StepResult
from penstock.connect.transforms.transform import Transform


class Filter(Transform):
    definition = ConfigDef()

    def configure(self, config: Mapping[str, str]) -> None:
        """It has no properties."""

    def apply(self, group: RecordGroup) -> StepResult:
        return StepResult(())
