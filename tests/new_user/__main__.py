"""`make new-user`: what a new user does, in a clean environment.

Builds the wheel, installs it with its extras into a new virtual environment in an empty directory (from the machine's
own pip configuration; nothing editable), and then runs the tests beside this file with it: the documentation's code
blocks, and tasks that state what they expect and count rows. No Java and no make is on the path.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.new_user.environment import VARIABLE

ROOT = Path(__file__).resolve().parents[2]


def main(pytest_arguments: list[str]) -> int:
    with tempfile.TemporaryDirectory(prefix="penstock-new-user-") as name:
        directory = Path(name)
        begun = time.monotonic()
        wheel = build_wheel(directory)
        python = install(wheel, directory)
        print(f"installed {wheel.name} in {time.monotonic() - begun:.0f} s", flush=True)
        words = [
            "-m",
            "pytest",
            "tests/new_user",
            "-m",
            "new_user",
            "-n",
            "2",
            "--dist",
            "worksteal",
            "-p",
            "no:randomly",
        ]
        environment = os.environ | {VARIABLE: str(python.parent.parent)}
        return subprocess.run(
            [sys.executable, *words, f"--basetemp={directory / 'runs'}", *pytest_arguments], cwd=ROOT, env=environment
        ).returncode


def build_wheel(directory: Path) -> Path:
    words = [
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--wheel-dir",
        str(directory / "dist"),
    ]
    subprocess.run([sys.executable, *words, str(ROOT)], check=True)
    [wheel] = (directory / "dist").glob("penstock-*.whl")
    return wheel


def install(wheel: Path, directory: Path) -> Path:
    """The interpreter of a new virtual environment that has the wheel, and pytest, which README's examples use."""
    environment = directory / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    python = environment / "bin" / "python"
    words = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([str(python), *words, f"{wheel}[connect]", "pytest"], check=True, cwd=directory)
    return python


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
