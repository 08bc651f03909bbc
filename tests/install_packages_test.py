#!/usr/bin/env python3
"""tools/install.sh chooses among package names as the release has them. The package tools are played."""
import os
import pathlib
import subprocess
import tempfile

SCRIPT = pathlib.Path(__file__).resolve().parent.parent / "tools" / "install.sh"


def install(names, installed=(), known=(), mentioned=()):
    """-> (exit status, packages that apt-get was asked to install, or None where it was not called)."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)

        def play(program, script):
            (folder / program).write_text("#!/bin/bash\n" + script)
            (folder / program).chmod(0o755)

        def cases(names, action):
            return f"case $last in {'|'.join(names)}) {action};; esac\n" if names else ""

        last = 'last="${@: -1}"\n'
        play("dpkg-query", last + cases(installed, "echo -n install ok installed; exit 0") + "exit 1\n")
        # apt-cache succeeds without a word for a name that packages only mention.
        play("apt-cache", last + cases(known, "echo Package: $last; exit 0") + cases(mentioned, "exit 0") + "exit 100\n")
        play("apt-get", f'[ "$1" = install ] && echo "${{@:2}}" > {folder}/asked; exit 0\n')
        play("sudo", '"$@"\n')
        path = f"{folder}:{os.environ['PATH']}"
        done = subprocess.run(["bash", SCRIPT, *names], env={**os.environ, "PATH": path}, capture_output=True)
        asked = folder / "asked"
        return done.returncode, [n for n in asked.read_text().split() if n[0] != "-"] if asked.exists() else None


def expect(got, wanted):
    assert got == wanted, (got, wanted)


expect(install(["a", "b"], installed=["a", "b"]), (0, None))
expect(install(["a", "b"], installed=["a"], known=["b"]), (0, ["b"]))
expect(install(["a|b"], known=["a", "b"]), (0, ["a"]))
expect(install(["a|b"], known=["b"]), (0, ["b"]))
expect(install(["a|b"], known=["a"], installed=["b"]), (0, ["a"]))
expect(install(["a|b"], known=["b"], mentioned=["a"]), (0, ["b"]))  # Debian 13 and libboost1.81-dev
