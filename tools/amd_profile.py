#!/usr/bin/env python3
"""What kernels do on an AMD card, counted by executing their machine code on a CPU (docs/amd.md).

  tools/amd_profile.py [--target gfx1100] [--kernels matvec_q4_k_1,...] [--build build/release] [-- COMMAND...]

Runs COMMAND (a short answer of the small model, if none is given) with the HIP module and the stand-in for HIP's library,
and prints for each kernel, added up over its launches:

  launches, waves      of the grid
  vector .. other      instructions of waves by class, a dual one counted once
  used                 bytes that lanes asked for, over bytes of the 64-byte lines that each instruction touched
  conflicts            extra cycles of LDS for each access, by 32 banks of 4 bytes
  in flight            loads of a wave under way when it waits for some
  waves/SIMD           that the kernel's registers and LDS leave room for
  and for each card the least time, with what bounds it:
    issue    the slots of vector and matrix instructions
    memory   the lines that were touched, of which no cache had any
    latency  the same lines, as many at a time as waves wait for
    lds      accesses to LDS with their conflicts, one a cycle of a compute unit

The times are bounds of a model, not measurements: see docs/amd.md for what it leaves out.
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile

from amd_loops import CARDS, LATENCY, Card
from amd_machine_code import machine_code_environment, read_counts

# Strix Halo has gfx1151; the code of gfx1100 stands for it.
STRIX_HALO = Card("Strix Halo", 40, 2, 2.9, 256, 32, 1, 32)
CARDS_OF = {"gfx1100": [CARDS["gfx1100"], STRIX_HALO], "gfx1201": [CARDS["gfx1201"]], "gfx942": [CARDS["gfx942"]]}
REGISTERS = {"gfx1100": 1536, "gfx1201": 1536, "gfx942": 512}  # of a SIMD's lane
LDS_BYTES = 65536  # of a compute unit, for each two or four SIMDs
SHOWN = ("vector", "matrix", "scalar", "global_load", "global_store", "lds", "scratch", "wait")
ISSUED_APART = ("scalar", "scalar_load", "wait", "barrier", "branch", "other")


def occupancy(row, target):
    """Waves on a SIMD, bounded by registers and by LDS."""
    wave = 64 if target == "gfx942" else 32
    most = 8 if target == "gfx942" else 16
    waves = min(most, REGISTERS[target] // max(row["registers"], 1))
    if row["lds_bytes"]:
        blocks = LDS_BYTES // row["lds_bytes"]
        waves_of_block = (row["threads"] + wave - 1) // wave
        simds = 4 if target == "gfx942" else 2
        waves = min(waves, max(1, blocks * waves_of_block // simds))
    return waves


def bounds(row, card, waves_per_simd):
    """Seconds that each part of a card needs at least."""
    vector = sum(v for k, v in row.items() if k in SHOWN and k not in ISSUED_APART and k != "matrix")
    cycles = vector * card.vector_cycles + row["matrix"] * card.matrix_cycles
    hertz = card.gigahertz * 1e9
    simds = card.compute_units * card.simds
    n_accesses = row["global_load"] + row["global_store"]
    waves_at_once = min(waves_per_simd * simds, max(1, row["waves"] // row["launches"]))
    at_once = waves_at_once * max(1, in_flight(row))
    return {"issue": cycles / (simds * hertz), "memory": row["line_bytes"] / (card.gigabytes_per_second * 1e9),
            "latency": n_accesses / at_once * LATENCY,
            "lds": (row["lds_accesses"] + row["lds_extra_cycles"]) / (card.compute_units * hertz)}


def in_flight(row):
    return row["loads_under_way"] / row["load_waits"] if row["load_waits"] else 0


def least_time(row, card, waves_per_simd):
    """The largest bound, as text."""
    seconds, name = max((seconds, name) for name, seconds in bounds(row, card, waves_per_simd).items())
    return f"{1e6 * seconds:.2f} {name}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--target", default="gfx1100", choices=sorted(CARDS_OF))
    parser.add_argument("--kernels")
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/release"))
    parser.add_argument("command", nargs="*")
    options = parser.parse_args()
    build = options.build.resolve()
    command = options.command or [str(build / "rocmforge"), "run", "models/story-q4_k_m.gguf", "-p", "Once upon a time",
                                  "-n", "2", "--device", "gpu"]
    with tempfile.TemporaryDirectory() as folder:
        counts = pathlib.Path(folder) / "counts"
        done = subprocess.run(command, env=machine_code_environment(build, options.target, counts), text=True,
                              capture_output=True)
        if done.returncode != 0:
            sys.exit(done.stdout + done.stderr)
        rows = read_counts(counts)
    if not rows:
        sys.exit("the command ran no kernel by machine code")
    wanted = options.kernels.split(",") if options.kernels else sorted(rows)
    cards = CARDS_OF[options.target]
    head = "".join(f" {c:>12}" for c in SHOWN)
    print(f"{'kernel':24} {'launches':>8} {'waves':>8}{head} {'used':>5} {'conflicts':>9} {'in flight':>9} "
          f"{'waves/SIMD':>10}" + "".join(f" {c.name + ', us':>18}" for c in cards))
    for name in wanted:
        if name not in rows:
            sys.exit(f"{name}: the command did not run this kernel")
        row = rows[name]
        used = row["requested_bytes"] / row["line_bytes"] if row["line_bytes"] else 0
        conflicts = row["lds_extra_cycles"] / row["lds_accesses"] if row["lds_accesses"] else 0
        print(f"{name:24} {row['launches']:8} {row['waves']:8}" + "".join(f" {row[c]:12}" for c in SHOWN)
              + f" {used:5.2f} {conflicts:9.2f} {in_flight(row):9.2f} {occupancy(row, options.target):10}"
              + "".join(f" {least_time(row, c, occupancy(row, options.target)):>18}" for c in cards))
    return 0


if __name__ == "__main__":
    sys.exit(main())
