#!/usr/bin/env python3
"""Makes a bundle of code objects of one kernel file, as HIP loads them: one for each AMD target.

  tools/hip_code.py --clang CLANG --lld LLD --bundler BUNDLER --targets gfx1100,gfx1201 [--cache CCACHE]
                    [--flags="-mcumode ..."] --depfile FILE -o OUT SOURCE

Clang's own way from a file to a bundle, but for one step: gfx1200 and gfx1201 get the waits that clang 19 does not write
(gfx12_waits.py). The compiler's cache, if one is named, keeps the assembly; the gates over it (amd_gates.py) ask for the
same assembly.
"""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

import gfx12_waits

ROOT = pathlib.Path(__file__).resolve().parent.parent
TARGETS_OF_GFX12 = ("gfx1200", "gfx1201")
# The remarks are what amd_registers.py reads.
FLAGS = ("-x", "hip", "--offload-device-only", "-nogpuinc", "-nogpulib", "-std=c++20", "-O3", "-Wall", "-Wextra", "-Wshadow",
         "-Werror", "-Rpass-analysis=kernel-resource-usage", "-Isrc", "-S")


def run(command, **more):
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, **more)
    if done.returncode != 0:
        sys.exit(done.stderr or f"{command[0]} ended with {done.returncode}")
    return done


def assembly_of(clang, cache, source, target, flags=()):
    """The text, as clang writes it; its remarks; the files that it was made of. Names are relative to the project's folder,
    so that the cache serves every checkout."""
    with tempfile.TemporaryDirectory() as folder:
        assembly, dependencies = pathlib.Path(folder) / "kernels.s", pathlib.Path(folder) / "kernels.d"
        command = [clang, *FLAGS, f"--offload-arch={target}", *flags, "-MD", "-MF", str(dependencies), "-MT", "kernels",
                   str(source), "-o", str(assembly)]
        done = run(([cache] if cache else []) + command, env=dict(os.environ, CCACHE_NOHASHDIR="1"))
        words = dependencies.read_text().replace("\\\n", " ").split(":", 1)[1].split()
        return assembly.read_text(), done.stderr, [str(ROOT / word) for word in words]


def code_object(options, text, target, folder):
    assembly, relocatable, code = (folder / f"{target}.{kind}" for kind in ("s", "o", "co"))
    assembly.write_text(gfx12_waits.with_waits(text) if target in TARGETS_OF_GFX12 else text)
    run([options.clang, "-x", "assembler", "--target=amdgcn-amd-amdhsa", f"-mcpu={target}", "-c", str(assembly), "-o",
         str(relocatable)])
    run([options.lld, "-m", "elf64_amdgpu", "--no-undefined", "-shared", str(relocatable), "-o", str(code)])
    return code


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--clang", "--lld", "--bundler", "--targets", "--depfile"):
        parser.add_argument(name, required=True)
    parser.add_argument("--cache")
    parser.add_argument("--flags", default="")
    parser.add_argument("-o", dest="out", required=True)
    parser.add_argument("source", type=pathlib.Path)
    options = parser.parse_args()
    source = options.source.resolve().relative_to(ROOT)
    out = pathlib.Path(options.out).resolve()
    targets = options.targets.split(",")
    with tempfile.TemporaryDirectory() as folder:
        codes = []
        for target in targets:
            text, _, dependencies = assembly_of(options.clang, options.cache, source, target, options.flags.split())
            codes.append(code_object(options, text, target, pathlib.Path(folder)))
        names = ["host-x86_64-unknown-linux", *(f"hipv4-amdgcn-amd-amdhsa--{target}" for target in targets)]
        run([options.bundler, "-type=o", "-bundle-align=4096", "-targets=" + ",".join(names), "-input=/dev/null",
             *(f"-input={code}" for code in codes), f"-output={out}"])
    pathlib.Path(options.depfile).write_text(f"{options.out}: " + " ".join(d.replace(" ", "\\ ") for d in dependencies) + "\n")


if __name__ == "__main__":
    main()
