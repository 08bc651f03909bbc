#!/usr/bin/env python3
"""Makes the tiny reference models that are too large to commit, once per machine.

usage: make_goldens.py FOLDER GENERATOR NAME...
A NAME is a model of the generator (tiny_models.py of the reference material), optionally with its dimensions:
llama@1003-384-800-4-2-96-2. Files that are there already are kept; a lock keeps two build trees from making one twice.
list.tsv is what the generator lists, where it can: name, architecture, kind and what the model is for.
"""
import fcntl
import os
import pathlib
import subprocess
import sys
import tempfile

folder, generator, names = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3:]
if not generator.exists():
    print(f"the reference material is not beside the checkout ({generator.name}): nothing made")
    sys.exit(0)
folder.mkdir(parents=True, exist_ok=True)
with open(folder / "lock", "w") as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    if "--list" in generator.read_text():
        listed = subprocess.run([sys.executable, generator, "--list"], check=True, capture_output=True, text=True)
        (folder / "list.tsv.new").write_text(listed.stdout)
        os.rename(folder / "list.tsv.new", folder / "list.tsv")
    for name in names:
        target = folder / f"{name}.gguf"
        if target.exists():
            continue
        base, _, dims = name.partition("@")
        environment = dict(os.environ)
        if dims:
            environment["TINY_DIMS"] = dims.replace("-", ",")
        with tempfile.TemporaryDirectory(dir=folder) as work:
            subprocess.run([sys.executable, generator, work, base], env=environment, check=True, stdout=subprocess.DEVNULL)
            os.rename(pathlib.Path(work) / f"{base}.gguf", target)
        print(name)
