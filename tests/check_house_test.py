#!/usr/bin/env python3
"""tools/check_house.py finds each kind of violation, so that its silence means something."""
import pathlib
import subprocess
import sys
import tempfile

SCRIPT = pathlib.Path(__file__).resolve().parent.parent / "tools" / "check_house.py"


def run(files):
    with tempfile.TemporaryDirectory() as root:
        for name, text in files.items():
            path = pathlib.Path(root) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        done = subprocess.run([sys.executable, SCRIPT, root], capture_output=True, text=True)
        return done.returncode, done.stdout


def expect(files, code, *words):
    got, out = run(files)
    assert got == code and all(w in out for w in words), (got, out, words)


expect({"src/gguf/a.cpp": '#include "base/file.h"\n'}, 0)
expect({"src/base/a.cpp": '#include "gguf/reader.h"\n'}, 1, "base may not include gguf")
expect({"src/model/a.cpp": '#include "tokenizer/tokenizer.h"\n'}, 1, "model may not include tokenizer")
expect({"src/base/a.cpp": '#include "file.h"\n'}, 1, "from the root of src")
expect({"src/base/a.cpp": '#include "apps/main.h"\n'}, 1, "may not include the command")
expect({"src/attic/a.cpp": "\n"}, 1, "not a room")
expect({"src/base/a.cpp": "x;\n" * 501}, 1, "501 lines")
expect({"src/base/a_tables.h": "x;\n" * 501}, 0)
expect({"src/base/a.cpp": 'void f() { std::printf("x"); }\n'}, 1, "speaks only through")
expect({"src/base/a.cpp": "// std::cerr is not for us\n"}, 0)
expect({"src/base/log.cpp": "auto x = stderr;\n"}, 0)
block = "struct X9 {\n  static constexpr int kElements = 32;\n};\n"
naming = {f"src/gpu/a{i}.h": "using B = formats::X9;\n" for i in range(16)}
expect({"src/tensor/formats/x9.h": block, **dict(list(naming.items())[:15])}, 0)
expect({"src/tensor/formats/x9.h": block, **naming}, 1, "x9 is named in 17 files")
expect({"src/tensor/formats/x9.h": block, **naming,
        "src/gpu/a0.h": "#include <gtest/gtest.h>\n" + naming["src/gpu/a0.h"]}, 0)
print("13 passed, 0 failed")
