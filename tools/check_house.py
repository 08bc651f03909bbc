#!/usr/bin/env python3
"""The laws of the house that a compiler does not check. Prints each violation, exits 1 if there is one.

  includes   an include may point only to an earlier room (ARCHITECTURE.md draws the order)
  length     no source file over 500 lines; data tables (*_tables.*) excepted
  silence    library code speaks through base/log.cpp alone: no printf, cout, cerr, puts, write to stdout or stderr
  layers     the command knows the library, never the other way round
  formats    a weight format is named in few product files of src (docs/add-a-format.md)
"""
import pathlib
import re
import subprocess
import sys

ROOMS = ["base", "tensor", "gguf", "tokenizer", "grammar", "chat", "model", "weights", "kv", "plan", "cpu", "gpu", "engine", "server"]
# Rooms on one line of the drawing do not know each other.
BESIDE_MODEL = ["tokenizer", "grammar", "chat"]
SIDE_BY_SIDE = {("cpu", "gpu"), ("gpu", "cpu")} | {pair for room in BESIDE_MODEL for pair in ((room, "model"), ("model", room))}
MAX_LINES = 500
SOURCE = {".h", ".cpp", ".cu", ".cuh", ".inl", ".py"}
SPEAKS = re.compile(r"\b(?:std::)?(?:printf|fprintf|puts|fputs|putchar|perror)\s*\(|\bstd::(?:cout|cerr|clog)\b|fmt::print\b"
                    r"|STD(?:OUT|ERR)_FILENO|\bstderr\b|\bstdout\b")

# Product files of src that may name a weight format. What includes gtest is no product.
MAX_FORMAT_FILES = 16


def source_files(root):
    listed = subprocess.run(["git", "-C", root, "ls-files", "-co", "--exclude-standard"], capture_output=True, text=True)
    if listed.returncode == 0:
        names = listed.stdout.split("\n")
    else:
        names = [str(p.relative_to(root)) for p in pathlib.Path(root).rglob("*") if "build" not in p.parts]
    return [n for n in names if pathlib.Path(n).suffix in SOURCE and (pathlib.Path(root) / n).is_file()]


def room_of(name):
    parts = pathlib.PurePath(name).parts
    return parts[1] if parts[0] == "src" and len(parts) > 2 else None


def check_file(root, name):
    text = (pathlib.Path(root) / name).read_text(encoding="utf-8")
    lines = text.split("\n")
    if len(lines) - 1 > MAX_LINES and "_tables." not in name:
        yield f"{name}: {len(lines) - 1} lines, the limit is {MAX_LINES}"
    room = room_of(name)
    if room is None:
        return
    if room not in ROOMS:
        yield f"{name}: '{room}' is not a room of the house"
        return
    is_test = name.endswith("_test.cpp")
    for number, line in enumerate(lines, 1):
        include = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
        if include:
            target = include.group(1).split("/")[0]
            if target == "apps":
                yield f"{name}:{number}: the library may not include the command"
            elif target in ROOMS and target != room:
                if ROOMS.index(target) > ROOMS.index(room) or (room, target) in SIDE_BY_SIDE:
                    yield f"{name}:{number}: {room} may not include {target}"
            elif target not in ROOMS and not (is_test and target == "support"):
                yield f"{name}:{number}: include '{include.group(1)}' from the root of src"
        code = line.split("//")[0]
        if not is_test and name != "src/base/log.cpp" and SPEAKS.search(code):
            yield f"{name}:{number}: library code speaks only through base/log.h"


def check_formats(root, files):
    product = {n: (pathlib.Path(root) / n).read_text(encoding="utf-8") for n in files
               if n.startswith("src/") and not re.search(r"_test\.\w+$", n)}
    product = {n: text for n, text in product.items() if "#include <gtest/gtest.h>" not in text}
    for name, text in product.items():
        block = re.search(r"struct (\w+) \{\n  static constexpr int kElements", text)
        if not name.startswith("src/tensor/formats/") or block is None or name.endswith("plain.h"):
            continue
        dtype = pathlib.PurePath(name).stem
        named = re.compile(rf"(?<![A-Za-z0-9])({dtype}|{block.group(1)})(?![A-Za-z0-9])")
        n_files = sum(1 for other in product.values() if named.search(other))
        if n_files > MAX_FORMAT_FILES:
            yield f"{name}: {dtype} is named in {n_files} files, the limit is {MAX_FORMAT_FILES}"


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else "."
    files = source_files(root)
    violations = [v for name in files for v in check_file(root, name)]
    violations += check_formats(root, files)
    for violation in violations:
        print(violation)
    print(f"{len(files)} files checked, {len(violations)} violations")
    return 1 if violations or not files else 0


if __name__ == "__main__":
    sys.exit(main())
