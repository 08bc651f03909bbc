#!/usr/bin/env python3
"""The version follows the tags of the repository of these sources, and has an entry in CHANGELOG.md."""
import pathlib
import re
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
NEXT = re.search(r"set\(RF_NEXT_VERSION (\S+)\)", (ROOT / "cmake/version.cmake").read_text())[1]


def git(folder, *words):
    names = ["-c", "user.name=T", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", *names, "-C", folder, *words], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def commit(folder):
    git(folder, "commit", "-q", "--allow-empty", "-m", "x")
    return git(folder, "rev-parse", "--short=10", "HEAD")


def version(source, out):
    subprocess.run(["cmake", f"-DSOURCE={source}", f"-DOUT={out}", "-P", ROOT / "cmake/version_header.cmake"],
                   check=True)
    return tuple(re.findall(r'#define RF_\w+ "(.*)"', out.read_text()))


def expect(got, *wanted):
    assert got == wanted, (got, wanted)


with tempfile.TemporaryDirectory() as folder:
    source, out = pathlib.Path(folder) / "source", pathlib.Path(folder) / "version.h"
    source.mkdir()
    expect(version(source, out), NEXT, "unknown")  # an archive
    git(source, "init", "-q")
    expect(version(source, out), NEXT + "-dev", "unknown")  # no commit
    expect(version(source, out), NEXT + "-dev", "unknown")
    first = commit(source)
    git(source, "tag", "other-9.9.9")
    expect(version(source, out), NEXT + "-dev", first)
    git(source, "tag", "v3.20.1")
    expect(version(source, out), "3.20.1", first)
    commit(source)
    last = commit(source)
    expect(version(source, out), "3.20.1+2", last)
    copy = source / "third_party/rocmforge"  # in a repository of somebody else, with tags of its own
    copy.mkdir(parents=True)
    expect(version(copy, out), NEXT, "unknown")

assert re.search(rf"^## {re.escape(NEXT)}[, ]", (ROOT / "CHANGELOG.md").read_text(), re.M), f"no entry for {NEXT}"
