#!/usr/bin/env python3
"""What the assembly of AMD's kernels must not become: gates over every kernel file, by clang's output.

  tools/amd_gates.py [--targets gfx1100,... | --targets all] [--files matvec,...] [--write] [--cycles]

Fails when, on a target,

  a kernel keeps registers in memory (spills, scratch), unless it is among the EXCEPTIONS
  a barrier is reached while a store to or a load from shared memory is under way
  an atomic follows a write-back of L2 that was not waited for (clang 19 leaves such waits out, on gfx942)
  a kernel of matrix tiles stores to shared memory in pieces below 4 bytes
  the hot loop of a product asks for more than docs/amd_gates.tsv says: vector instructions for 512 weights, other
  instructions, waits for memory

A change that raises a figure says why in its commit, and writes the table anew with --write. --cycles adds what llvm-mca
makes of the loop: cycles of one wave a turn, for comparing two versions, never for tokens per second.
"""
import argparse
import collections
import concurrent.futures
import re
import shutil
import subprocess
import sys

import amd_loops
import amd_registers

TABLE = amd_registers.ROOT / "docs/amd_gates.tsv"
# One target of each set of instructions: no matrix instructions with waves of 64 and of 32, MFMA, WMMA of both kinds.
ONE_OF_EACH = ("gfx906", "gfx942", "gfx1030", "gfx1100", "gfx1201")
COLUMNS = ("vgprs", "vector", "other", "waits", "per_512")
LIMITED = ("vector", "other", "waits")

# (kernel, target) -> why a gate is left open.
PLAIN_FRAGMENTS = "multiply-adds hold queries and sums of 128 elements: attention of many rows is to be written anew"
SCALARS = "scalar registers go to lanes of a vector register, whose save area is 32 bytes"
EXCEPTIONS = {
    **{(f"attend_tiles{alibi}_128", f"gfx{n}"): PLAIN_FRAGMENTS
       for alibi in ("", "_alibi") for n in (906, 1030, 1031, 1032, 1033, 1034, 1035, 1036)},
    **{(f"attend_tiles{alibi}_128", target): SCALARS for alibi in ("", "_alibi") for target in ("gfx908", "gfx90a", "gfx942")},
    # A few bytes of scratch.
    ("scan_head_256", "gfx906"): "one register too many beside the state's 256 numbers",
    **{("stream_fragments_iq1_m_64", f"gfx{n}"): "six registers too many beside the sums of 64 rows"
       for n in (1030, 1031, 1032, 1033, 1034, 1035, 1036)},
}
# attend_tiles is not one of them: it writes values to shared memory transposed, element by element.
MATRIX_TILES = re.compile(r"^matmul_")
PRODUCT = re.compile(r"^matvec_\w+_[18]$")
LDS_ACCESS = re.compile(r"^ds_(?!bpermute|permute|swizzle|nop)")
LDS_WAIT = re.compile(r"^s_waitcnt\b.*\blgkmcnt\((\d+)\)|^s_wait_(?:loadcnt_|storecnt_)?dscnt (0x[0-9a-f]+)")
NARROW_STORE = re.compile(r"^ds_(?:write|store)_b(?:8|16)")
WRITE_BACK = re.compile(r"^(?:buffer_wbl2|global_wb)\b")
STORE_WAIT = re.compile(r"^s_waitcnt\b.*\bvmcnt\(0\)|^s_wait_storecnt(?:_dscnt)? 0x0")
ATOMIC = re.compile(r"^(?:global|flat|buffer)_atomic_")
BARRIER = re.compile(r"^s_barrier(?:_signal)?\b")


def product_files():
    """The kernel files of the HIP module, from the one list there is."""
    text = (amd_registers.ROOT / "src/gpu/CMakeLists.txt").read_text()
    names = [re.search(rf"set\(RF_{kind}\s+([^)]*)\)", text).group(1).split() for kind in ("KERNELS", "FRAGMENT_KERNELS")]
    return names[0] + names[1]


def unwaited_barriers(instructions):
    """Barriers before which, in the order of the text, an access to shared memory was not waited for.

    A branch may skip an access, never a wait that belongs to it: clang puts the wait into the barrier's own block."""
    pending, found = False, 0
    for instruction in instructions:
        if LDS_ACCESS.match(instruction):
            pending = True
        elif wait := LDS_WAIT.match(instruction):
            pending = pending and int(wait.group(1) or wait.group(2), 0) > 0
        elif BARRIER.match(instruction):
            found += pending
            pending = False
    return found


def unwaited_write_backs(instructions):
    """Atomics ahead of which, in the order of the text, a write-back of L2 was not waited for."""
    pending, found = False, 0
    for instruction in instructions:
        if WRITE_BACK.match(instruction):
            pending = True
        elif STORE_WAIT.match(instruction):
            pending = False
        elif ATOMIC.match(instruction):
            found += pending
            pending = False
    return found


def waits_in_sequence(loop):
    """Waits that have loads to wait for: each is a trip to memory that the next load's comes on top of."""
    under_way, n = 0, 0
    for instruction in loop:
        wait = amd_loops.WAIT.match(instruction)
        if wait:
            left = int(wait.group(1) or wait.group(2), 0)
            n += under_way > left
            under_way = min(under_way, left)
        elif amd_loops.LOAD.match(instruction):
            under_way += 1
    return n


def cycles_of(loop, target):
    """llvm-mca's cycles of a turn; None where it does not know an instruction."""
    text = "\n".join(re.sub(r"\.L(BB\d+_\d+)", "0", line) for line in loop)
    done = subprocess.run(["llvm-mca-19", "-mtriple=amdgcn-amd-amdhsa", f"-mcpu={target}", "-iterations=2"], input=text,
                          capture_output=True, text=True)
    found = re.search(r"Total Cycles:\s+(\d+)", done.stdout)
    return int(found.group(1)) // 2 if found else None


def weights_of_a_turn(kernel, loop, target):
    """Weights that a wave's turn of the loop covers: bytes that it streams over bytes per weight; None if unknown."""
    bytes_per_load = amd_loops.BYTES_PER_LOAD.get(amd_loops.format_of(kernel))
    if bytes_per_load is None:
        return None
    wave = 64 if target.startswith("gfx9") else 32
    weights_per_byte = {"q4_k": 256 / 144, "q6_k": 256 / 210, "q8_0": 32 / 34, "f16": 0.5, "bf16": 0.5}
    return sum(map(amd_loops.is_streamed, loop)) * bytes_per_load * wave * weights_per_byte[amd_loops.format_of(kernel)]


def figures_of_product(kernel, target, instructions, labels, registers):
    try:
        loop = amd_loops.hot_loop(instructions, labels)
    except ValueError:
        return None  # no loop streams: nothing to hold it to
    units = collections.Counter(map(amd_loops.unit_of, loop))
    weights = weights_of_a_turn(kernel, loop, target)
    other = sum(units[unit] for unit in ("scalar", "memory", "shared"))
    return {"vgprs": registers["VGPRs"], "vector": units["vector"], "other": other, "waits": waits_in_sequence(loop),
            "per_512": f"{units['vector'] * 512 / weights:.0f}" if weights else "-", "loop": loop}


def defects_of(kernel, target, instructions, registers):
    """What no kernel may have."""
    if (kernel, target) not in EXCEPTIONS and (registers["VGPRs Spill"] or registers["ScratchSize"]):
        yield f"{registers['VGPRs Spill']} registers spilled, {registers['ScratchSize']} bytes of scratch"
    if n := unwaited_barriers(instructions):
        yield f"{n} barriers with shared memory under way"
    if n := unwaited_write_backs(instructions):
        yield f"{n} atomics behind a write-back of L2 that was not waited for"
    if MATRIX_TILES.match(kernel) and (n := sum(1 for i in instructions if NARROW_STORE.match(i))):
        yield f"{n} stores of less than 4 bytes to shared memory"


def check_file(clang, file, target):
    """(defects, {kernel: figures}) of one file on one target."""
    assembly, registers = amd_registers.compile_kernels(clang, file, target)
    defects, figures = [], {}
    for kernel, of in registers.items():
        instructions, labels = amd_loops.code_of(assembly, kernel)
        defects += [f"{kernel} on {target}: {defect}" for defect in defects_of(kernel, target, instructions, of)]
        if PRODUCT.match(kernel):
            found = figures_of_product(kernel, target, instructions, labels, of)
            if found:
                figures[kernel, target] = found
    return defects, figures


def read_table():
    if not TABLE.exists():
        return {}
    lines = TABLE.read_text().splitlines()
    titles = lines[0].split("\t")
    rows = [dict(zip(titles, line.split("\t"))) for line in lines[1:]]
    return {(row["kernel"], row["target"]): row for row in rows}


def write_table(table):
    lines = ["\t".join(("kernel", "target", *COLUMNS))]
    lines += ["\t".join((kernel, target, *(str(row[c]) for c in COLUMNS))) for (kernel, target), row in sorted(table.items())]
    TABLE.write_text("\n".join(lines) + "\n")


def above_table(figures, table):
    for key, got in sorted(figures.items()):
        allowed = table.get(key)
        if allowed is None:
            yield f"{key[0]} on {key[1]}: not in the table, --write adds it"
            continue
        for column in LIMITED:
            if got[column] > int(allowed[column]):
                yield f"{key[0]} on {key[1]}: {column} {got[column]}, {allowed[column]} allowed"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--targets", default=",".join(ONE_OF_EACH))
    parser.add_argument("--files", default=",".join(product_files()))
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--cycles", action="store_true")
    options = parser.parse_args()
    clang = shutil.which("clang++-19")
    if clang is None:
        print("no clang++-19: the table is of its code")
        return 0
    targets = amd_registers.TARGETS if options.targets == "all" else options.targets.split(",")
    jobs = [(file, target) for file in options.files.split(",") for target in targets]
    defects, figures = [], {}
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for more_defects, more_figures in pool.map(lambda job: check_file(clang, *job), jobs):
            defects += more_defects
            figures.update(more_figures)
    if options.cycles:
        for (kernel, target), row in sorted(figures.items()):
            print(kernel, target, *(f"{c} {row[c]}" for c in COLUMNS), "cycles", cycles_of(row["loop"], target))
    table = read_table()
    if options.write:
        write_table({**table, **{key: row for key, row in figures.items() if key[1] in ONE_OF_EACH}})
    else:
        defects += above_table({key: row for key, row in figures.items() if key[1] in ONE_OF_EACH}, table)
    print("\n".join(defects) if defects else f"{len(jobs)} compilations: no kernel is worse than it may be")
    return 1 if defects else 0


if __name__ == "__main__":
    sys.exit(main())
