"""What the other parts of scripts/kafka need of the operating system."""

import contextlib
import fcntl
import os
import pathlib
import subprocess
import sys


class Failure(Exception):
    """What the user is told before the program ends with status 1."""


def say(text):
    print(f"scripts/kafka: {text}", file=sys.stderr, flush=True)


def run(*command):
    done = subprocess.run([str(part) for part in command], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          check=False)
    if done.returncode:
        end = "\n".join((done.stdout + done.stderr).strip().splitlines()[-20:])
        raise Failure(f"'{command[0]}' failed with status {done.returncode}\n{end}")


@contextlib.contextmanager
def locked(file):
    with open(file, "a", encoding="utf-8") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def replace(file, text):
    """Writes a file that others read at any time: they see the old text or the new one."""
    new = file.with_name(f"{file.name}.{os.getpid()}")
    new.write_text(text)
    new.replace(file)


def stat(process):
    """State and further fields of a process, or None if it has ended."""
    try:
        fields = pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in "ZX" else fields


def identity(process):
    # With its start time, since numbers of processes are used again.
    return f"{process} {(stat(process) or ['-'] * 20)[19]}"


def living(text):
    process = int(text.split()[0])
    return process if stat(process) and identity(process) == text else None
