"""Fetches Apache Kafka and prepares it for fast starts."""

import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

from clusters import PORT_BOOK, Cluster, free_ports, read_book
from system import Failure, locked, run, say

PARTS = pathlib.Path(__file__).resolve().parent
CACHE = pathlib.Path(
    os.environ.get("TIMELY_KAFKA_CACHE")
    or pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "timely-kafka"
)
# The first compiler only: brokers here live for minutes, and the second one costs half the start.
JVM = ["-Xmx256m", "-Xss512k", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.net.preferIPv4Stack=true"]
SOURCES = ("BrokerProcess.java", "ClusterClient.java")
NEEDS_JDK = "a JDK of version 17 or newer and Maven are needed: on Debian, 'apt-get install default-jdk-headless maven'"


def installation():
    """The folder for exactly these sources and flags, whether it is filled or not."""
    digest = hashlib.sha256(" ".join(JVM).encode())
    for name in ("pom.xml", *SOURCES):
        digest.update((PARTS / name).read_bytes())
    return CACHE / f"kafka-{digest.hexdigest()[:16]}"


def install(_options=None):
    folder = installation()
    if not (folder / "complete").exists():
        check_jdk()
        CACHE.mkdir(parents=True, exist_ok=True)
        with locked(CACHE / "install.lock"):
            if not (folder / "complete").exists():
                fill(folder)
    return folder


def check_jdk():
    if any(shutil.which(program) is None for program in ("java", "javac", "jar", "mvn")):
        raise Failure(NEEDS_JDK)
    said = subprocess.run(["javac", "-version"], capture_output=True, text=True, check=False)
    version = re.search(r"javac (\d+)", said.stdout + said.stderr)
    if not version or int(version[1]) < 17:
        raise Failure(f"{NEEDS_JDK} (found: {(said.stdout + said.stderr).strip()})")


def fill(folder):
    shutil.rmtree(folder, ignore_errors=True)
    jars = folder / "jars"
    jars.mkdir(parents=True)
    say("fetching Apache Kafka")
    run("mvn", "--quiet", "--batch-mode", "--file", PARTS / "pom.xml", "dependency:copy-dependencies",
        f"-DoutputDirectory={jars}", "-DincludeScope=runtime")
    if not list(jars.glob("kafka_*.jar")):
        raise Failure(f"Maven ended well but left no broker in {jars}")
    say("preparing it for fast starts")
    with tempfile.TemporaryDirectory() as scratch:
        run("javac", "-cp", class_path(folder), "-d", scratch, *(PARTS / name for name in SOURCES))
        run("jar", "--create", "--file", jars / "broker-process.jar", "-C", scratch, ".")
    with tempfile.TemporaryDirectory() as scratch, locked(PORT_BOOK.with_suffix(".lock")):
        # Held until the broker has ended: these ports are in no book.
        cluster = Cluster("training", pathlib.Path(scratch))
        cluster.create(free_ports(2, read_book()), brokers=1, config={}, log_requests=False)
        run("java", *JVM, f"-XX:ArchiveClassesAtExit={folder / 'classes.jsa'}",
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", class_path(folder), "BrokerProcess", "--once",
            cluster.nodes()[0].folder)
    (folder / "complete").touch()


def class_path(folder):
    # Sorted, because the archive of classes is valid for one class path only.
    return ":".join(map(str, sorted((folder / "jars").glob("*.jar"))))
