"""A new user's machine: the environment with the wheel, a path without Java and make, and what they type.

Owns processes and their environment. It must not import penstock: what is tested is the installed wheel.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import textwrap
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

VARIABLE: Final = "PENSTOCK_NEW_USER_ENVIRONMENT"
PATIENCE_S: Final = 120.0
_POLL_S: Final = 0.05
# What a new user does not have, and what would lead to this checkout.
_NOT_ON_THE_PATH: Final = re.compile(
    r"java|javac|jshell|jar|keytool|g?make|python3?|python3\.\d+|pip3?|penstock|pytest"
)
_SYSTEM: Final = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")


class Done(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def message(self) -> str:
        """The one line on stderr."""
        lines = self.err.strip().splitlines()
        assert len(lines) == 1, self.err
        return lines[0]


class User:
    """Works in one directory, which was empty, with the commands of one virtual environment."""

    def __init__(self, venv: Path, tools: Path, directory: Path) -> None:
        self.python = venv / "bin" / "python"
        self.directory = directory
        kept = ("HOME", "LANG", "LC_ALL", "TMPDIR", "TZ", "USER")
        self.environment = {name: os.environ[name] for name in kept if name in os.environ}
        self.environment |= {"PATH": f"{venv / 'bin'}{os.pathsep}{tools}", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}

    def write(self, name: str, text: str) -> Path:
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
        return path

    def penstock(self, *words: str, given: str | None = None, expect: int = 0, timeout_s: float = PATIENCE_S) -> Done:
        """Runs `penstock WORDS`; an exit code other than `expect` fails the test, as does any traceback."""
        return self.command("penstock", *words, given=given, expect=expect, timeout_s=timeout_s)

    def command(self, *words: str, given: str | None = None, expect: int = 0, timeout_s: float = PATIENCE_S) -> Done:
        ran = subprocess.run(
            words,
            input=given,
            cwd=self.directory,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=timeout_s,
        )
        said = f"{' '.join(words)} ended with {ran.returncode}:\n{ran.stdout}{ran.stderr}"
        assert ran.returncode == expect, said
        assert "Traceback" not in ran.stderr, said
        return Done(ran.returncode, ran.stdout, ran.stderr)

    def program(self, name: str, *words: str, expect: int = 0) -> Done:
        return self.command(str(self.python), name, *words, expect=expect)

    def produce(self, topic: str, values: Sequence[object], *options: str) -> None:
        lines = "".join(f"{value if isinstance(value, str) else json.dumps(value)}\n" for value in values)
        self.penstock("produce", topic, *options, given=lines)

    def consume(self, topic: str) -> list[str]:
        return self.penstock("consume", topic, "--from-beginning", "-e").lines

    def consume_json(self, topic: str) -> list[Any]:
        return [json.loads(line) for line in self.consume(topic)]

    def once(self, file: str, *options: str, expect: int = 0) -> dict[str, Any]:
        """`penstock run --once --json`; the last event, which has the totals."""
        ran = self.penstock("run", "--once", "--json", *options, file, expect=expect)
        events: list[dict[str, Any]] = [json.loads(line) for line in ran.lines]
        assert events[-1]["event"] == "stopped", ran
        return events[-1]

    def sqlite(self, database: str, query: str) -> list[tuple[Any, ...]]:
        import sqlite3

        connection = sqlite3.connect(self.directory / database)
        try:
            return connection.execute(query).fetchall()
        finally:
            connection.close()

    @contextmanager
    def background(self, *words: str) -> Iterator[Background]:
        process = Background(self, words)
        try:
            yield process
        finally:
            process.end()


class Background:
    """A command that runs while the user does something else. What it prints is in a file."""

    def __init__(self, user: User, words: Sequence[str]) -> None:
        self.words = " ".join(words)
        self._out = user.directory / f"background-{time.monotonic_ns()}.out"
        with self._out.open("wb") as out:
            self.process = subprocess.Popen(
                words, cwd=user.directory, env=user.environment, stdout=out, stderr=out, start_new_session=True
            )

    @property
    def printed(self) -> str:
        return self._out.read_text(errors="replace")

    def wait_for(self, text: str) -> None:
        """Until it has printed this."""
        self.wait_until(f"printed {text!r}", lambda: text in self.printed)

    def wait_for_lines(self, count: int) -> None:
        self.wait_until(f"printed {count} lines", lambda: self.printed.count("\n") >= count)

    def wait_until(self, what: str, reached: Callable[[], bool]) -> None:
        wait_until(f"{self.words} {what}", reached, lambda: self.process.poll() is None, lambda: self.printed)

    def send(self, number: signal.Signals) -> int:
        """The exit code, after this signal to the command itself."""
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_S)

    def kill(self) -> None:
        """kill -9, of everything that it started."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(PATIENCE_S)

    def end(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def wait_until(
    what: str,
    reached: Callable[[], bool],
    alive: Callable[[], bool] = lambda: True,
    said: Callable[[], str] = lambda: "",
) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not reached():
        assert alive(), f"it ended before: {what}\n{said()}"
        assert time.monotonic() < deadline, f"it did not come: {what}\n{said()}"
        time.sleep(_POLL_S)


def make_tools(directory: Path) -> Path:
    """A directory of links to the system's commands, without those that a new user does not have."""
    directory.mkdir()
    for place in map(Path, _SYSTEM):
        for command in place.iterdir() if place.is_dir() else ():
            link = directory / command.name
            if not _NOT_ON_THE_PATH.fullmatch(command.name) and not link.is_symlink():
                link.symlink_to(command)
    return directory
