#!/usr/bin/env python3
"""The object files of one instruction set define nothing that the linker could take for the rest of the program.

A function that is inline and not static is emitted as a weak symbol in every file that uses it, and any one of them may
end up in the program: one compiled for AVX2 would stop a machine that lacks it.

usage: check_isa_leaks.py NM ARCHIVE PREFIX...    (prefixes of the object files' names: avx2 avx512)
"""
import subprocess
import sys


def weak_symbols(nm_output, prefixes):
    member = ""
    for line in nm_output.split("\n"):
        if line.endswith(".o:"):
            member = line
        elif member.startswith(prefixes):
            fields = line.split(maxsplit=2)
            if len(fields) == 3 and fields[1] in "WwVvuC":
                yield f"{member} {fields[2]}"


def main():
    nm, archive, *prefixes = sys.argv[1:]
    output = subprocess.run([nm, "-C", "--defined-only", archive], capture_output=True, text=True, check=True).stdout
    for prefix in prefixes:
        if f"\n{prefix}" not in output:
            print(f"no object file of {archive} begins with '{prefix}'")
            return 1
    leaks = list(weak_symbols(output, tuple(prefixes)))
    for leak in leaks:
        print(leak)
    return 1 if leaks else 0


if __name__ == "__main__":
    sys.exit(main())
