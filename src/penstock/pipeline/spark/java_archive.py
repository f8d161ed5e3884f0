"""A class archive that lets the JVM of a session skip most of its loading: made once, used by every later start.

Owns the file in the cache directory and the process that makes it: a session of its own that runs a small pipeline
and ends. Java 25 and newer write an AOT cache (JEP 483, 514), older ones a dynamic AppCDS archive (JEP 350).

Invariants:
- An archive is only ever an aid: the JVM checks that it fits and goes on without it when not; where that fails, the
  session starts the JVM again without it and forgets it.
- A file under its final name is whole: it is written under another name and renamed.
- Nothing of a running pipeline waits for it: it is made at lowest priority, after a session has ended.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from penstock.pipeline.spark.java import JavaRuntime, cache_dir

POLICY_VARIABLE: Final = "PENSTOCK_JAVA_ARCHIVE"  # auto (the default), use (but never make), off
RECORD_VARIABLE: Final = "PENSTOCK_JAVA_ARCHIVE_RECORD"  # set in the process that makes one: where to write it
_FIRST_WITH_AOT_CACHE: Final = 25
_KEPT: Final = 3


def archive_path(java: JavaRuntime, options: Sequence[str], jars: Path) -> Path:
    """One name for everything that an archive depends on: the runtime, Spark's jars and the JVM's options."""
    library = java.home / "lib" / "server" / "libjvm.so"
    stamps = [str(path.stat().st_mtime_ns) if path.exists() else "" for path in (library, jars)]
    facts = [str(java.home), str(java.version), str(jars), *stamps, *(o for o in options if not o.startswith("-Xmx"))]
    key = hashlib.sha256("\0".join(facts).encode()).hexdigest()[:16]
    return cache_dir() / "java-archives" / f"spark-{key}.{'aot' if java.version >= _FIRST_WITH_AOT_CACHE else 'jsa'}"


def archive_options(java: JavaRuntime, archive: Path) -> list[str]:
    """What the JVM is told about archives: to write one, to use the one that is there, or nothing."""
    recorded = os.environ.get(RECORD_VARIABLE)
    aot = java.version >= _FIRST_WITH_AOT_CACHE
    if recorded:
        return [f"-XX:AOTCacheOutput={recorded}" if aot else f"-XX:ArchiveClassesAtExit={recorded}", "-Xlog:disable"]
    if _policy() == "off" or not _is_whole(archive):
        return []
    # An archive that does not fit is not worth a word to the user: the JVM starts without it.
    use = [f"-XX:AOTCache={archive}"] if aot else [f"-XX:SharedArchiveFile={archive}", "-Xshare:auto"]
    return [*use, "-Xlog:disable"]


def discard(archive: Path) -> None:
    """For a JVM that did not start with it."""
    for path in (_size_file(archive), archive):
        path.unlink(missing_ok=True)


def make_in_background(archive: Path) -> None:
    """Starts the making, unless there is one already or it is not wanted; returns at once, and never raises."""
    if _policy() != "auto" or RECORD_VARIABLE in os.environ or _is_whole(archive):
        return
    with contextlib.suppress(OSError):
        subprocess.Popen(  # noqa: S603 (this interpreter)
            [sys.executable, "-P", "-m", "penstock.pipeline.spark.java_archive", str(archive)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )


def make(archive: Path) -> bool:
    """Runs a small pipeline in a session that records. False when another process is at it, or it came to nothing."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    with (archive.parent / f"{archive.name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        if _is_whole(archive):
            return True
        with tempfile.TemporaryDirectory(dir=archive.parent, prefix=".recording-") as scratch:
            recorded = Path(scratch) / archive.name
            os.environ[RECORD_VARIABLE] = str(recorded)
            from penstock.pipeline.spark.archive_rehearsal import rehearse

            rehearse(Path(scratch))
            if not recorded.exists():
                return False
            _size_file(archive).write_text(str(recorded.stat().st_size))
            recorded.rename(archive)
        _forget_old(archive.parent)
    return True


def _forget_old(directory: Path) -> None:
    """Each is some 200 MB, and an upgrade of Java or of Spark leaves one behind."""
    archives = [path for pattern in ("*.jsa", "*.aot") for path in directory.glob(pattern)]
    archives.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    for forgotten in archives[_KEPT:]:
        discard(forgotten)


def _size_file(archive: Path) -> Path:
    return archive.with_name(f"{archive.name}.size")


def _is_whole(archive: Path) -> bool:
    """The JVM maps the file and dies of a page that is not there, so one that was cut short must not reach it."""
    try:
        return archive.stat().st_size == int(_size_file(archive).read_text())
    except (OSError, ValueError):
        return False


def _policy() -> str:
    return os.environ.get(POLICY_VARIABLE, "auto")


if __name__ == "__main__":
    os.nice(19)
    sys.exit(0 if make(Path(sys.argv[1])) else 1)
