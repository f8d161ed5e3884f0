"""Crash points inside Spark's own commit of files: compiles `StoppableManifestCommit.java` for a pipeline to use.

The compiler is Janino, which Spark carries for its generated code, so that a machine needs no JDK for this.
"""

from __future__ import annotations

import os
import subprocess
import zipfile
from pathlib import Path
from typing import Final

from penstock.pipeline.spark.java import find_java
from penstock.pipeline.spark.jvm import pyspark_home

SOURCE: Final = Path(__file__).with_name("StoppableManifestCommit.java")
CLASS: Final = "penstock.tests.StoppableManifestCommit"
_COMPILE_S_MAX: Final = 120

# Janino's compiler to files has no command line of its own, but its compiler in memory runs a program.
_COMPILE: Final = """
public class Compile {
    public static void main(String[] arguments) throws Exception {
        String[] paths = System.getProperty("java.class.path").split(java.io.File.pathSeparator);
        java.io.File[] jars = new java.io.File[paths.length];
        for (int i = 0; i < paths.length; i++) {
            jars[i] = new java.io.File(paths[i]);
        }
        org.codehaus.janino.Compiler compiler = new org.codehaus.janino.Compiler();
        compiler.setClassPath(jars);
        compiler.setDestinationDirectory(new java.io.File(arguments[1]), false);
        compiler.compile(new java.io.File[] {new java.io.File(arguments[0])});
    }
}
"""


def spark_settings(directory: Path) -> dict[str, str]:
    """For the `spark` key of a pipeline whose files are committed step by step; `directory` keeps what is compiled."""
    return {"spark.jars": str(_jar(directory)), "spark.sql.streaming.commitProtocolClass": CLASS}


def _jar(directory: Path) -> Path:
    jar = directory / "steps.jar"
    program, classes = directory / "Compile.java", directory / "classes"
    classes.mkdir()
    program.write_text(_COMPILE)
    subprocess.run(
        [
            *(find_java().java, "-cp", f"{pyspark_home()}{os.sep}jars{os.sep}*"),
            *("org.codehaus.janino.SimpleCompiler", program, "Compile", SOURCE, classes),
        ],
        check=True,
        timeout=_COMPILE_S_MAX,
    )
    with zipfile.ZipFile(jar, "w") as archive:
        for compiled in classes.rglob("*.class"):
            archive.write(compiled, compiled.relative_to(classes))
    return jar
