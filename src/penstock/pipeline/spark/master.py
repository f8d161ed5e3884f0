"""The master URL of a Spark cluster, checked before Spark starts.

Spark itself tries a master for a minute and then prints the stack traces of two languages. A URL that cannot be meant,
a name that does not resolve and a port on which nothing listens are one line within seconds here.

Owns the forms of a master URL. It must not know pipelines, and imports nothing of Spark.
"""

from __future__ import annotations

import re
import socket
from typing import Final

_CONNECT_TIMEOUT_S: Final = 3.0
_SPARK: Final = "spark://"
# What Spark 4.3 accepts (SparkContext.createTaskScheduler), besides spark://.
_OTHER_FORMS: Final = re.compile(r"local(\[[^\]]+\])?|local-cluster\[[^\]]+\]|yarn|k8s://\S+")
_DEFAULT_PORT: Final = 7077


class MasterError(RuntimeError):
    """No cluster can be reached under the URL. The message is one line for a person."""


class InvalidMaster(MasterError):
    """The URL is none that Spark knows."""


def standalone_masters(url: str) -> list[tuple[str, int]]:
    """The hosts and ports of `spark://h1:p1,h2:p2`; none for a master of another kind. Raises InvalidMaster."""
    if not url.startswith(_SPARK):
        if not _OTHER_FORMS.fullmatch(url):
            meant = f" (did you mean {_SPARK}{url}?)" if re.fullmatch(r"[\w.-]+:\d+", url) else ""
            raise InvalidMaster(
                f"'{url}' is no master URL of Spark: expected spark://HOST:PORT, yarn, k8s://...{meant}"
            )
        return []
    return [_address(part, url) for part in url.removeprefix(_SPARK).split(",")]


def require_master(url: str) -> None:
    """Raises MasterError unless one of the masters accepts a connection. Others than standalone ones are not asked."""
    masters = standalone_masters(url)
    reasons = []
    for host, port in masters:
        try:
            socket.create_connection((host, port), timeout=_CONNECT_TIMEOUT_S).close()
            return
        except socket.gaierror:
            reasons.append(f"the name '{host}' does not resolve")
        except OSError as failure:
            reasons.append(f"{host}:{port}: {(failure.strerror or str(failure)).lower()}")
    if masters:
        raise MasterError(f"no Spark master answers at {url} ({'; '.join(reasons)}); check the URL and that it runs")


def _address(text: str, url: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise InvalidMaster(
            f"'{url}' is no master URL of Spark: expected spark://HOST:PORT, usually port {_DEFAULT_PORT}"
        )
    return host.strip("[]"), int(port)
