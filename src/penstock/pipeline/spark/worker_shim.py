"""Stands in for the Python interpreter that Spark starts: asks the zygote for a process, and waits for its end.

Run as a script by `python -IS`, which starts in some 15 ms because it reads neither site-packages nor the environment;
it must therefore import nothing but the standard library's quickest modules. The other side, and the reasons, are in
worker_zygote.py.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys

TYPE_CHECKING = False  # `typing` itself would take as long to import as all the rest
if TYPE_CHECKING:
    from typing import NoReturn

_SOCKET_VARIABLE = "PENSTOCK_ZYGOTE"


def status_of_child(zygote: str, arguments: list[str]) -> int:
    """The exit status, or the negative number of the signal that ended it. OSError: nothing was started."""
    peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    peer.connect(zygote)
    request = json.dumps({"arguments": arguments, "environment": dict(os.environ), "directory": os.getcwd()}).encode()
    socket.send_fds(peer, [len(request).to_bytes(4, "big")], [0, 1, 2])
    peer.sendall(request)
    if peer.recv(1) != b"+":
        raise OSError("the zygote did not take the request")
    answer = b""
    while len(answer) < 4:
        part = peer.recv(4 - len(answer))
        if not part:
            return 1
        answer += part
    return int.from_bytes(answer, "big", signed=True)


def become_interpreter(arguments: list[str]) -> NoReturn:
    os.execv(sys.executable, [sys.executable, *arguments])  # noqa: S606 (no shell is wanted)


def main() -> None:
    arguments = sys.argv[1:]
    zygote = os.environ.get(_SOCKET_VARIABLE)
    if zygote is None or arguments[:1] != ["-m"]:
        become_interpreter(arguments)
    try:
        status = status_of_child(zygote, arguments)
    except OSError:
        become_interpreter(arguments)
    if status < 0:
        if -status != signal.SIGKILL:  # which cannot be set, and is always its own default
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status if status >= 0 else 1)


if __name__ == "__main__":
    main()
