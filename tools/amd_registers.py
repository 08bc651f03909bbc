#!/usr/bin/env python3
"""Registers, spills and occupancy of the AMD kernels, from the compiler: what can be known of them without a card.

  tools/amd_registers.py [--targets gfx90a,gfx1100 | --targets all] [--files matvec,matmul,attend] [--all]

Prints one line per kernel and target (with --all; else the worst per file). Exits 1 when a hot kernel keeps registers in
memory. What the hot loops make of the registers: tools/amd_loops.py.
"""
import argparse
import concurrent.futures
import re
import shutil
import sys

import hip_code

ROOT = hip_code.ROOT
# Products of few and of many rows, attention, recurrent layers.
HOT = re.compile(r"^(matvec_\w+_[18]|matmul_\w+|stream_fragments_\w+|experts_\w+_(8|16|64)|attend_\w+|convolve|"
                 r"scan_\w+|delta_rule_\w+)$")
# Those that are built, from the one list there is.
TARGETS = tuple(re.search(r"set\(RF_HIP_TARGETS ([^)]*?) CACHE", (ROOT / "src/gpu/CMakeLists.txt").read_text()).group(1).split())
FIELD = re.compile(r"remark:\s+([A-Za-z ]+?)(?: \[[^\]]*\])?: (\S+) \[-Rpass-analysis")


def find_clang():
    return shutil.which("clang++-19") or shutil.which("amdclang++")


def compile_kernels(clang, file, target):
    """A file's assembly, and each of its kernels: {name: {"VGPRs": n, ...}}."""
    text, remarks, _ = hip_code.assembly_of(clang, shutil.which("ccache"), f"src/gpu/kernels/{file}.cu", target)
    kernels, current = {}, None
    for name, value in FIELD.findall(remarks):
        if name == "Function Name":
            current = kernels.setdefault(value, {})
        elif current is not None and value.isdigit():
            current[name] = int(value)
    return text, kernels


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--targets", default="gfx90a,gfx1100")
    parser.add_argument("--files", default="matvec,matvec_float,matmul_fragments,experts_fragments,stream_fragments,"
                        "stream_experts,matmul_f32,attend,convolve,scan,delta_rule")
    parser.add_argument("--all", action="store_true")
    options = parser.parse_args()
    targets = TARGETS if options.targets == "all" else options.targets.split(",")
    clang = find_clang()
    if clang is None:
        print("no clang for AMD targets")
        return 0
    jobs = [(file, target) for file in options.files.split(",") for target in targets]
    spilling = 0
    print(f"{'kernel':28} {'target':8} {'VGPRs':>5} {'AGPRs':>5} {'spilled':>7} {'scratch':>7} {'LDS':>6} {'occupancy':>9}")
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for (file, target), kernels in zip(jobs, pool.map(lambda job: compile_kernels(clang, *job)[1], jobs)):
            rows = sorted(kernels.items(), key=lambda k: (k[1]["Occupancy"], -k[1]["VGPRs"]))
            for name, of in rows if options.all else rows[:1]:
                print(f"{name:28} {target:8} {of['VGPRs']:5} {of.get('AGPRs', 0):5} {of['VGPRs Spill']:7} {of['ScratchSize']:7} "
                      f"{of['LDS Size']:6} {of['Occupancy']:9}")
            for name, of in rows:
                if HOT.match(name) and (of["VGPRs Spill"] or of["ScratchSize"]):
                    print(f"{name} on {target}: {of['VGPRs Spill']} registers spilled, {of['ScratchSize']} bytes of scratch")
                    spilling += 1
    return 1 if spilling else 0


if __name__ == "__main__":
    sys.exit(main())
