#!/usr/bin/env python3
"""What the hot loops of the AMD kernels ask of a card, from the compiler's assembly, against what the card has.

  tools/amd_loops.py [--targets gfx1100,gfx1201,gfx90a,gfx942] [--kernels matvec_q4_k_1,...] [--markdown]

A kernel's hot loop is the innermost one that streams most: kernels read weights (attention: keys and values)
with non-temporal loads and everything else without, so the assembly says which loads are which. For that loop:

  instructions   by unit, and vector instructions of a wave per byte of weights
  in flight      bytes of weights that a wave has asked for before it first waits for one of them
  issue          the share of its vector issue slots that the card needs to take weights as fast as its memory gives them
  flight         bytes in flight with all its waves, over the bytes that its memory needs: bandwidth x latency

An issue below 1 and a flight above 1 say that nothing counted here keeps the kernel from the speed of the memory. For
kernels of matrix instructions there is instead

  balance        cycles of vector instructions for each cycle of the matrix unit

It is arithmetic, not a measurement, and counts both sides of every branch. With --markdown one line per kernel, figures of
the targets side by side, as docs/lab-notebook.md has them.
"""
import argparse
import collections
import concurrent.futures
import re
import sys

import amd_registers

# Cycles: of a vector instruction, and of a matrix instruction of 16 x 16 x 16 halves.
Card = collections.namedtuple("Card", "name compute_units simds gigahertz gigabytes_per_second wave vector_cycles matrix_cycles")
CARDS = {
    "gfx1100": Card("RX 7900 XTX", 96, 2, 2.3, 960, 32, 1, 32),
    "gfx1201": Card("RX 9070 XT", 64, 2, 2.4, 640, 32, 1, 16),
    "gfx90a": Card("MI250X, one die", 110, 4, 1.7, 1600, 64, 4, 32),
    "gfx942": Card("MI300X", 304, 4, 2.1, 5300, 64, 4, 16),
}
LATENCY = 0.7e-6  # seconds from a load to its data while memory is busy: assumed, see docs/lab-notebook.md

# Bytes of weights, scales and all, that come with a streamed load of 16.
BYTES_PER_LOAD = {"q4_k": 144 / 8, "q6_k": 210 / 8, "q8_0": 34 / 2, "f16": 16, "bf16": 16}
KERNELS = ("matvec_q4_k_1", "matvec_q4_k_8", "matvec_q6_k_1", "matvec_q8_0_1", "matvec_q8_0_8", "matvec_f16_1", "matvec_f16_8",
           "matmul_fragments_128", "experts_q4_k_64", "attend_f16_128")
UNITS = ("vector", "matrix", "memory", "shared", "scalar")

LABEL = re.compile(r"^\.L(BB\d+_\d+):")
BRANCH = re.compile(r"^s_c?branch\S* \.L(BB\d+_\d+)")
WAIT = re.compile(r"^s_waitcnt\b.*\bvmcnt\((\d+)\)|^s_wait_loadcnt(?:_dscnt)? (0x[0-9a-f]+)")
STREAMED = re.compile(r"\b(slc|nt|th:TH_LOAD_NT)\b")
LOAD = re.compile(r"^(?:global|flat|buffer|scratch)_load_")


def unit_of(instruction):
    """One of the UNITS, or None for what only orders others."""
    name = instruction.split()[0]
    if re.match(r"s_(wait|delay_alu|nop|clause|sched|set_inst|sleep|setprio)", name):
        return None
    if re.match(r"v_(mfma|wmma|smfmac|swmmac)", name):
        return "matrix"
    if name.startswith("v_"):
        return "vector"
    if name.startswith("ds_"):
        return "shared"
    return "scalar" if name.startswith("s_") else "memory"


def code_of(assembly, kernel):
    """A kernel's instructions, and where its labels point among them."""
    lines = assembly.splitlines()
    begin = lines.index(next(line for line in lines if line.startswith(f"{kernel}:")))
    instructions, labels = [], {}
    for line in lines[begin + 1:]:
        if line.startswith(".Lfunc_end"):
            break
        label, code = LABEL.match(line), line.partition(";")[0].strip()
        if label:
            labels[label.group(1)] = len(instructions)
        elif code and not code.startswith("."):
            instructions.append(code)
    return instructions, labels


def loops_of(instructions, labels):
    """What lies between the target of a backward branch and the last such branch: [(begin, end), ...]."""
    ends = {}
    for i, instruction in enumerate(instructions):
        branch = BRANCH.match(instruction)
        if branch and labels[branch.group(1)] <= i:
            ends[labels[branch.group(1)]] = i + 1
    return list(ends.items())


def hot_loop(instructions, labels):
    """Of the innermost loops among those that stream, the one that streams most."""
    streams = [(begin, end) for begin, end in loops_of(instructions, labels) if any(map(is_streamed, instructions[begin:end]))]
    innermost = [a for a in streams if not any(a != b and a[0] <= b[0] and b[1] <= a[1] for b in streams)]
    return max((instructions[begin:end] for begin, end in innermost), key=lambda loop: sum(map(is_streamed, loop)))


def most_in_flight(loop):
    """Streamed loads that are under way at most. Loads come back in the order in which they were asked for."""
    under_way, most = [], 0
    for instruction in loop + loop:
        wait = WAIT.match(instruction)
        if wait:
            left = int(wait.group(1) or wait.group(2), 0)
            under_way = under_way[max(0, len(under_way) - left):]
        elif LOAD.match(instruction):
            under_way.append(is_streamed(instruction))
            most = max(most, sum(under_way))
    return most


def is_streamed(instruction):
    return LOAD.match(instruction) is not None and STREAMED.search(instruction) is not None


def analyse(assembly, kernel):
    """The hot loop: {"streamed": loads, "in_flight": loads, "vector": n, ...}."""
    hot = hot_loop(*code_of(assembly, kernel))
    units = collections.Counter(map(unit_of, hot))
    return {"streamed": sum(map(is_streamed, hot)), "in_flight": most_in_flight(hot), **{unit: units[unit] for unit in UNITS}}


def against(card, loop, bytes_per_load, waves_per_simd):
    """What the loop needs of the card, and the card of the loop."""
    per_load = bytes_per_load * card.wave
    per_byte = loop["vector"] / (loop["streamed"] * per_load)
    slots = card.compute_units * card.simds * card.gigahertz * 1e9 / card.vector_cycles
    in_flight = loop["in_flight"] * per_load
    waves = card.compute_units * card.simds * waves_per_simd
    return {
        "per_byte": per_byte,
        "issue": per_byte * card.gigabytes_per_second * 1e9 / slots,
        "in_flight": in_flight,
        "flight": in_flight * waves / (card.gigabytes_per_second * 1e9 * LATENCY),
    }


def file_of(kernel):
    if kernel.startswith("attend"):
        return "attend"
    if kernel.startswith("matmul"):
        return "matmul"
    return "matvec_float" if "f16" in kernel else "matvec"


def format_of(kernel):
    return re.sub(r"_\d+$", "", kernel.split("_", 1)[1])


def figures_of(kernel, target, assembly, registers):
    """What is printed of a kernel on a target, by column."""
    card, loop, of = CARDS[target], analyse(assembly, kernel), registers[kernel]
    out = {"VGPRs": of["VGPRs"], "spills": of["VGPRs Spill"], "waves per SIMD": of["Occupancy"], **{unit: loop[unit] for unit in UNITS}}
    if loop["matrix"] > 0:
        balance = loop["vector"] * card.vector_cycles / (loop["matrix"] * card.matrix_cycles)
        return {**out, "per byte": "-", "in flight": "-", "issue": "-", "flight": "-", "balance": f"{balance:.1f}"}
    got = against(card, loop, BYTES_PER_LOAD[format_of(kernel)], of["Occupancy"])
    return {**out, "per byte": f"{got['per_byte']:.3f}", "in flight": f"{got['in_flight']:.0f}", "issue": f"{got['issue']:.2f}",
            "flight": f"{got['flight']:.1f}", "balance": "-"}


def side_by_side(figures):
    return ", ".join(map(str, figures if len(set(figures)) > 1 else figures[:1]))


def print_table(titles, rows):
    print("| " + " | ".join(titles) + " |\n" + "|---" * len(titles) + "|")
    for row in rows:
        print("| " + " | ".join(map(str, row)) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--targets", default=",".join(CARDS))
    parser.add_argument("--kernels", default=",".join(KERNELS))
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args()
    clang = amd_registers.find_clang()
    if clang is None:
        print("no clang for AMD targets")
        return 0
    targets, kernels = options.targets.split(","), options.kernels.split(",")
    jobs = [(file, target) for file in sorted(set(map(file_of, kernels))) for target in targets]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        compiled = dict(zip(jobs, pool.map(lambda job: amd_registers.compile_kernels(clang, *job), jobs)))
    figures = {kernel: [figures_of(kernel, target, *compiled[file_of(kernel), target]) for target in targets] for kernel in kernels}
    if options.markdown:
        columns = ("VGPRs", "waves per SIMD", "per byte", "in flight", "issue", "flight", "balance")
        print_table(("kernel", *columns), ((f"`{kernel}`", *(side_by_side([of[column] for of in of_targets]) for column in columns))
                                           for kernel, of_targets in figures.items()))
    else:
        print_table(("kernel", "target", *figures[kernels[0]][0]),
                    ((kernel, target, *of.values()) for kernel, of_targets in figures.items() for target, of in zip(targets, of_targets)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
