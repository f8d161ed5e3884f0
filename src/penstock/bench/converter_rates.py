"""How many records per second and core Connect's converters take: `python -m penstock.bench.converter_rates`.

Raw records of about 100 bytes become groups, and groups become raw records again, without a broker, Spark or a
connector. The time is that of the processor, so that a busy machine changes little.

Owns the records and the table. It must not know how converters work.
"""

from __future__ import annotations

import json
import random
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import pyarrow as pa

from penstock.columns.arrow_rows import FIELDS
from penstock.connect.converters.configured import converters_of
from penstock.connect.data.assembly import to_groups, to_raw

RECORDS: Final = 60_000
ROUNDS: Final = 7
_STRING: Final = "org.apache.kafka.connect.storage.StringConverter"
_JSON: Final = "org.apache.kafka.connect.json.JsonConverter"
_PLAIN: Final = {"key.converter": _STRING, "value.converter": _JSON, "value.converter.schemas.enable": "false"}
_WITH_SCHEMAS: Final = {"key.converter": _STRING, "value.converter": _JSON}


class Case(NamedTuple):
    name: str
    config: dict[str, str]
    values: list[bytes | None]
    headers: list[list[tuple[str, bytes]]] | None = None


class Rate(NamedTuple):
    """Nanoseconds of a core for each record."""

    to_connect_ns: float
    from_connect_ns: float
    groups: int


def cases(count: int = RECORDS) -> Iterator[Case]:
    chance = random.Random(1)  # noqa: S311 (no secret)
    orders = [_order(chance, number) for number in range(count)]
    plain: list[bytes | None] = [_compact(order) for order in orders]
    yield Case("JSON, 5 fields", _PLAIN, plain)
    yield Case("JSON, 5 fields, 1 in 1000 damaged", _PLAIN, [_damaged(each, n) for n, each in enumerate(plain)])
    yield Case("JSON, 5 fields, half of the notes null", _PLAIN, [_compact(_with_null(order)) for order in orders])
    yield Case("JSON, two shapes in turn", _PLAIN, [_compact(_other(order)) for order in orders])
    nested = [_compact({"order": order, "lines": [1, 2, 3]}) for order in orders]
    yield Case("JSON, nested, with a list", _PLAIN, [*nested])
    schema = _compact(_schema())
    enveloped = [b'{"schema":' + schema + b',"payload":' + (each or b"") + b"}" for each in plain]
    yield Case("JSON with schema, 5 fields", _WITH_SCHEMAS, [*enveloped])
    decimals = _compact(_schema(decimal=True))
    prices = [_compact({**order, "amount": _price(order)}) for order in orders]
    yield Case(
        "JSON with schema, a Decimal among 5 fields",
        _WITH_SCHEMAS,
        [b'{"schema":' + decimals + b',"payload":' + each + b"}" for each in prices],
    )
    traced = [[("trace", f"trace-{number}".encode()), ("attempt", b"1")] for number in range(count)]
    yield Case("JSON, 5 fields, two headers", _PLAIN, plain, traced)
    yield Case("text", {"key.converter": _STRING, "value.converter": _STRING}, plain)


def measure(case: Case, rounds: int = ROUNDS) -> Rate:
    batch = _batch(case)
    converters = converters_of({}, case.config)
    groups = to_groups(batch, converters).groups
    return Rate(
        _nanoseconds(lambda: to_groups(batch, converters), rounds) / batch.num_rows,
        _nanoseconds(lambda: to_raw(groups, converters), rounds) / batch.num_rows,
        len(groups),
    )


def _nanoseconds(work: Callable[[], Any], rounds: int) -> float:
    """Of the fastest round."""
    times = []
    for _ in range(rounds):
        start = time.process_time_ns()
        work()
        times.append(time.process_time_ns() - start)
    return float(min(times))


def _order(chance: random.Random, number: int) -> dict[str, Any]:
    return {
        "id": number,
        "customer": f"customer-{chance.randrange(10_000)}",
        "amount": round(chance.uniform(0, 1000), 2),
        "paid": chance.random() < 0.5,
        "note": f"some text here {number}",
    }


def _with_null(order: dict[str, Any]) -> dict[str, Any]:
    return {**order, "note": None} if order["id"] % 2 else order


def _other(order: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "refund", **order} if order["id"] % 2 else order


def _damaged(payload: bytes | None, number: int) -> bytes | None:
    return payload[:-1] if payload is not None and number % 1000 == 0 else payload


def _price(order: dict[str, Any]) -> str:
    return b64encode(int(order["amount"] * 100).to_bytes(4, "big")).decode()


def _schema(*, decimal: bool = False) -> dict[str, Any]:
    amount: dict[str, Any] = {"type": "double", "optional": True, "field": "amount"}
    if decimal:
        name = "org.apache.kafka.connect.data.Decimal"
        amount |= {"type": "bytes", "name": name, "version": 1, "parameters": {"scale": "2"}}
    fields = [
        {"type": "int64", "optional": False, "field": "id"},
        {"type": "string", "optional": False, "field": "customer"},
        amount,
        {"type": "boolean", "optional": False, "field": "paid"},
        {"type": "string", "optional": True, "field": "note"},
    ]
    return {"type": "struct", "fields": fields, "optional": False, "name": "order"}


def _compact(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _batch(case: Case) -> pa.RecordBatch:
    count = len(case.values)
    columns = {
        "key": [f"key-{number}".encode() for number in range(count)],
        "value": case.values,
        "topic": ["orders"] * count,
        "partition": [0] * count,
        "offset": range(count),
        "timestamp": [1_700_000_000_000_000] * count,
        "timestampType": [0] * count,
        "headers": [[{"key": name, "value": value} for name, value in each] for each in case.headers or [[]] * count],
    }
    arrays = [pa.array(columns[name], field.type) for name, field in FIELDS.items()]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(list(FIELDS.values())))


def main() -> None:
    print(f"{'records':45} {'to Connect':>12} {'from Connect':>13}  groups   (records/s and core)")
    for case in cases():
        rate = measure(case)
        print(f"{case.name:45} {1e9 / rate.to_connect_ns:12,.0f} {1e9 / rate.from_connect_ns:13,.0f}  {rate.groups:6}")


if __name__ == "__main__":
    main()
