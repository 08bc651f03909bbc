#!/usr/bin/env python3
"""Runs the tests of the GPU's kernels by AMD machine code: the HIP module as it ships, on a CPU (docs/amd.md).

  tools/amd_machine_code.py [--build build/release] [--targets gfx1100,gfx942,...] [--seed N]

Fails when a test fails, and when a kernel of the module was not run by any of them. --seed: another order of waves and
blocks.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

# Suites of gpu_kernels_test for Hopper alone. Of the others, the first device is a real one
# (tests/support/kernel_device.h).
NOT_PORTABLE = ("Streamed", "StreamedMany", "StreamedRows")

SELF_TEST = "MachineCodeSelfTest"

TARGETS = ("gfx1100", "gfx942", "gfx1201", "gfx90a", "gfx1030")


def machine_code_environment(build, targets, counts, seed=0):
    return dict(os.environ, LD_LIBRARY_PATH=str(build / "stand-in"), ROCMFORGE_TEST_MODULES=str(build),
                ROCMFORGE_MACHINE_CODE=targets, ROCMFORGE_MACHINE_SEED=str(seed), ROCMFORGE_MACHINE_COUNTS=str(counts))


def read_counts(path):
    """A row of numbers by kernel; several processes may have written some each."""
    rows = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        row = json.loads(line)
        known = rows.setdefault(row["kernel"], row)
        if known is row:
            continue
        for key, value in row.items():
            if key in ("registers", "lds_bytes", "threads"):
                known[key] = max(known[key], value)
            elif isinstance(value, int):
                known[key] += value
    return rows


def kernels_of_module(build):
    names = set()
    for bundle in (build / "src/gpu/hip").glob("*.hipfb"):
        names.update(m.decode() for m in re.findall(rb"([A-Za-z0-9_]+)\.kd\0", bundle.read_bytes()))
    return names


def portable_suites(build):
    listed = subprocess.run([build / "src/gpu/gpu_kernels_test", "--gtest_list_tests"], capture_output=True, text=True,
                            check=True).stdout
    # A suite without devices has no tests that end in /0.
    suites = re.findall(r"^(\w+)\.\s[^\n]*\n((?:  [^\n]*\n)*)", listed, re.M)
    return sorted({name for name, tests in suites if re.search(r"/0\s", tests)} - set(NOT_PORTABLE))


def run_suite(build, target, suite, counts, seed):
    # The self-test has kernels of its own.
    test = [build / "src/gpu/gpu_kernels_test", f"--gtest_filter={suite}.*/0"]
    if suite == SELF_TEST:
        test = [build / "tests/machine_code_test", f"--gtest_filter=*{suite}.*/{target}"]
    done = subprocess.run(test + ["--gtest_brief=0"],
                          env=machine_code_environment(build, target, counts, seed), capture_output=True, text=True)
    ran = len(re.findall(r"^\[       OK \]", done.stdout, re.M))
    return done.returncode == 0 and ran > 0, ran, done.stdout + done.stderr


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/release"))
    parser.add_argument("--targets", default=",".join(TARGETS))
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    build = options.build.resolve()
    kernels = kernels_of_module(build)
    if not kernels:
        sys.exit("the HIP module is not built: make gpu")
    suites = portable_suites(build) + [SELF_TEST]
    failed = False
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(2) as pool:
        for target in options.targets.split(","):
            counts = pathlib.Path(folder) / target
            runs = [pool.submit(run_suite, build, target, suite, counts, options.seed) for suite in suites]
            n_tests = 0
            for suite, run in zip(suites, runs):
                good, n, output = run.result()
                n_tests += n
                if not good:
                    failed = True
                    print(f"{target}: {suite} failed\n{output[-4000:]}")
            rows = read_counts(counts)
            missing = sorted(kernels - rows.keys())
            failed |= bool(missing)
            instructions = sum(row[c] for row in rows.values() for c in CLASSES)
            print(f"{target}: {n_tests} tests, {len(kernels & rows.keys())} of {len(kernels)} kernels, "
                  f"{instructions / 1e6:.0f} million instructions of waves")
            for name in missing:
                print(f"{target}: {name} was not run by any test")
    return 1 if failed else 0


CLASSES = ("scalar", "vector", "matrix", "scalar_load", "global_load", "global_store", "lds", "scratch", "atomic", "wait",
           "barrier", "branch", "other")

if __name__ == "__main__":
    sys.exit(main())
