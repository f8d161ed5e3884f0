"""How a cluster's metadata lies in a key-value store: a log of changes, a snapshot, and the registrations of brokers.

Under the cluster's prefix:

    brokers/<id>              the registration of a live broker, under the lease of its session
    cluster                   the cluster's id and the format of the keys; written once
    head                      the number of the newest entry, and the snapshot that the log begins behind
    log/<number>              an entry: the changes of one proposal, and who made it
    snapshot/<name>/<part>    the changes that lead from an empty image to that of one entry

Every entry is committed together with `head`, if `head` has the revision that the proposer has seen. So the entries
form one order, and each was decided on the image of the entries before it. A proposal costs two keys, however many
topics and partitions it changes: etcd limits the operations of a transaction to 128 and its size to 1.5 MiB.

A broker whose registration was deleted is not live, whatever the log says; no entry is needed for that.

Values are JSON; those of the log and of snapshots are compressed. What cannot be understood raises `MetadataDamaged`.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from penstock.core.ids import BrokerId
from penstock.metadata.change_records import decode_change, encode_change
from penstock.metadata.changes import Change
from penstock.metadata.image import ClusterImage, InvalidChange

FORMAT: Final = 1
ENTRY_BYTES_MAX: Final = 1 << 20
"""Of an entry as it is stored: below etcd's limit on a request, with room for the other keys of the transaction."""
_PART_TEXT_BYTES: Final = 1 << 20
_VALUE_TEXT_BYTES_MAX: Final = 256 << 20
_FAST: Final = 1


class MetadataDamaged(Exception):
    """A key cannot be understood: written by a newer version, by another program, or damaged. One line."""


@dataclass(frozen=True, slots=True)
class ClusterKeys:
    """The names of the keys. `prefix` begins and ends with a slash."""

    prefix: str

    @property
    def cluster(self) -> str:
        return self.prefix + "cluster"

    @property
    def head(self) -> str:
        return self.prefix + "head"

    @property
    def brokers(self) -> str:
        return self.prefix + "brokers/"

    @property
    def log(self) -> str:
        return self.prefix + "log/"

    @property
    def snapshots(self) -> str:
        return self.prefix + "snapshot/"

    def broker(self, broker_id: BrokerId) -> str:
        return f"{self.brokers}{broker_id}"

    def broker_id(self, key: str) -> BrokerId | None:
        """The broker of a registration's key; None if it is another key."""
        number = key.removeprefix(self.brokers)
        return BrokerId(int(number)) if key.startswith(self.brokers) and number.isdecimal() else None

    def entry(self, number: int) -> str:
        return f"{self.log}{number:016d}"

    def snapshot(self, name: str) -> str:
        return f"{self.snapshots}{name}/"

    def snapshot_part(self, name: str, index: int) -> str:
        return f"{self.snapshots}{name}/{index:06d}"


@dataclass(frozen=True, slots=True)
class Head:
    """`snapshot` is the name of the snapshot, empty if there is none; it stands for the entries up to and including
    `snapshot_entry`. The log holds those behind it, up to and including `entry`."""

    entry: int = 0
    snapshot_entry: int = 0
    snapshot: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """`proposer` names one attempt of one process, so that it recognises its own entry."""

    proposer: str
    changes: tuple[Change, ...]


def encode_cluster(cluster_id: str) -> bytes:
    return _text({"format": FORMAT, "cluster_id": cluster_id})


def decode_cluster(key: str, value: bytes) -> str:
    fields = _object(key, value)
    if isinstance(fields.get("format"), int) and fields["format"] > FORMAT:
        raise MetadataDamaged(f"{key} was written by a newer Penstock (format {fields['format']}); upgrade this one")
    cluster_id: str = _field(key, fields, "cluster_id", str)
    return cluster_id


def encode_head(head: Head) -> bytes:
    return _text({"entry": head.entry, "snapshot_entry": head.snapshot_entry, "snapshot": head.snapshot})


def decode_head(key: str, value: bytes) -> Head:
    fields = _object(key, value)
    return Head(
        _field(key, fields, "entry", int),
        _field(key, fields, "snapshot_entry", int),
        _field(key, fields, "snapshot", str),
    )


def encode_registration(epoch: int) -> bytes:
    """Only the epoch: the log has the rest."""
    return _text({"epoch": epoch})


def decode_registration(key: str, value: bytes) -> int:
    epoch: int = _field(key, _object(key, value), "epoch", int)
    return epoch


def encode_entry(entry: Entry) -> bytes:
    changes = [encode_change(change) for change in entry.changes]
    return zlib.compress(_text({"proposer": entry.proposer, "changes": changes}), _FAST)


def decode_entry(key: str, value: bytes) -> Entry:
    fields = _object(key, _decompressed(key, value))
    return Entry(_field(key, fields, "proposer", str), _changes(key, _field(key, fields, "changes", list)))


def encode_snapshot(image: ClusterImage) -> Iterator[bytes]:
    """The parts of a snapshot, each small enough for a transaction of its own."""
    texts: list[str] = []
    size = 0
    for change in (*image.live_broker_changes(), *image.live_changes()):
        text = json.dumps(encode_change(change), separators=(",", ":"))
        if texts and size + len(text) > _PART_TEXT_BYTES:
            yield _part(texts, image)
            texts, size = [], 0
        texts.append(text)
        size += len(text)
    yield _part(texts, image)


def apply_snapshot_part(key: str, value: bytes, image: ClusterImage) -> None:
    fields = _object(key, _decompressed(key, value))
    apply_changes(key, _changes(key, _field(key, fields, "changes", list)), image)
    # Of a broker that was unregistered since, no change tells it.
    image.last_broker_epoch = max(image.last_broker_epoch, _field(key, fields, "last_broker_epoch", int))


def apply_changes(key: str, changes: Iterable[Change], image: ClusterImage) -> None:
    """The committed changes of one key. What does not fit raises MetadataDamaged; the image must not be used then."""
    try:
        for change in changes:
            image.apply(change)
    except InvalidChange as error:
        raise MetadataDamaged(f"{key} does not fit the metadata before it ({error})") from None


def _part(texts: Sequence[str], image: ClusterImage) -> bytes:
    return zlib.compress(
        f'{{"last_broker_epoch":{image.last_broker_epoch},"changes":[{",".join(texts)}]}}'.encode(), _FAST
    )


def _changes(key: str, records: object) -> tuple[Change, ...]:
    if not isinstance(records, list):
        raise MetadataDamaged(f"{key} holds no list of changes")
    try:
        return tuple(decode_change(record) for record in records)
    except ValueError as error:
        raise MetadataDamaged(f"{key} cannot be understood ({error}); a newer Penstock may have written it") from None


def _decompressed(key: str, value: bytes) -> bytes:
    try:
        inflater = zlib.decompressobj()
        text = inflater.decompress(value, _VALUE_TEXT_BYTES_MAX)
    except zlib.error:
        raise MetadataDamaged(f"{key} is damaged") from None
    if not inflater.eof:
        raise MetadataDamaged(f"{key} is damaged")
    return text


def _text(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode()


def _json(key: str, text: bytes) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise MetadataDamaged(f"{key} is damaged, or belongs to another program") from None


def _object(key: str, text: bytes) -> dict[str, Any]:
    value = _json(key, text)
    if not isinstance(value, dict):
        raise MetadataDamaged(f"{key} is damaged, or belongs to another program")
    return value


def _field(key: str, fields: dict[str, Any], name: str, kind: type) -> Any:
    value = fields.get(name)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise MetadataDamaged(f"{key} lacks its {name}, or belongs to another program")
    return value
