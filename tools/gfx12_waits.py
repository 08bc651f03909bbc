#!/usr/bin/env python3
"""Adds the waits that gfx1200 and gfx1201 need and clang 19 does not write, to its assembly.

  tools/gfx12_waits.py < before.s > after.s

When a vector instruction has read a scalar register, a scalar instruction writes it, and then an instruction of either
kind reads it, the last one may get the old value, unless s_wait_alu with sa_sdst = 0 stands before it. Registers count in
aligned pairs. LLVM writes these waits from version 20 on (VALUReadSGPRHazard). Here a write is dangerous until a wait,
however far that is, so there are a few waits more than LLVM's.
"""
import re
import sys

WAIT = "\ts_wait_alu 0xfffe"
WAIT_BYTES = 4

REGISTERS = re.compile(r"\b(s|ttmp)(?:(\d+)|\[(\d+):(\d+)\])(?!\w)|\b(vcc)(?:_lo|_hi)?\b")
LABEL = re.compile(r"^([.\w$]+):")
FUNCTION_END = re.compile(r"^\.Lfunc_end\d+:")
INSTRUCTION = re.compile(r"^\s+([sv]_\w+|\w+_\w+)\s*([^;]*)")
# Distances that the assembler does not count by itself.
DISTANCE = re.compile(r"(@rel32@(?:lo|hi)\+)(\d+)")

# Of scalar instructions: those that compute nothing, and those that do and whose first operand is read.
NO_UNIT = re.compile(r"^s_(?:load|buffer_load|store|dcache|icache|prefetch|wait|nop|sleep|branch|cbranch|endpgm|barrier|clause|"
                     r"delay_alu|sendmsg|code_end|set_inst|setprio|trap|sethalt|icache_inv|version|round_mode|denorm_mode|"
                     r"ttrace|incperf|decperf|singleuse)")
READS_FIRST = re.compile(r"^s_(?:cmp|bitcmp|setreg|addk|mulk|bitset|fmac|cmovk?_|setpc|swappc|set_gpr)")
WRITES_NOTHING = re.compile(r"^s_(?:cmp|bitcmp|setreg|setpc)")
# Of s_wait_alu: an even number, or the field by its name.
WAITS_FOR_SCALARS = re.compile(r"sa_sdst\(0\)|0x[0-9a-f]*[02468ace]\b")
LEAVES = re.compile(r"^s_(?:setpc|swappc|call)_b64")


def pairs_of(text):
    """A bit for each aligned pair of scalar registers that a text names."""
    bits = 0
    for kind, single, first, last, vcc in REGISTERS.findall(text):
        base = 106 if vcc else 108 if kind == "ttmp" else 0
        low = base + int(single or first or 0)
        high = base + int(single or last or 0)
        for pair in range(low // 2, high // 2 + 1):
            bits |= 1 << pair
    return bits


class Instruction:
    def __init__(self, name, operands):
        self.name = name
        parts = re.split(r",(?![^\[]*\])", operands)
        self.is_vector = name.startswith("v_")
        self.is_scalar = name.startswith("s_") and not NO_UNIT.match(name)
        self.leaves = bool(LEAVES.match(name))
        self.waits = name == "s_wait_alu" and bool(WAITS_FOR_SCALARS.search(operands))
        self.reads = self.writes = 0
        if self.is_scalar:
            sources = operands if READS_FIRST.match(name) else ",".join(parts[1:])
            self.reads = pairs_of(sources)
            self.writes = 0 if WRITES_NOTHING.match(name) else pairs_of(parts[0])
        elif self.is_vector:
            # Of a dual instruction the second half's destination is a vector register: it has no pair.
            self.reads = pairs_of(operands if name.startswith("v_cmpx") else ",".join(parts[1:]))
            if name.startswith("v_div_fmas"):
                self.reads |= pairs_of("vcc")

    def needs_wait(self, written):
        return bool(written if self.leaves else self.reads & written)


class Function:
    """The instructions of one function, by line, and what follows what."""

    def __init__(self, lines, first, end):
        self.lines = range(first, end)
        self.instructions, labels, previous = {}, {}, []
        for n in self.lines:
            if label := LABEL.match(lines[n]):
                labels[label.group(1)] = n
            elif (found := INSTRUCTION.match(lines[n])) and not lines[n].lstrip().startswith("."):
                self.instructions[n] = Instruction(found.group(1), found.group(2))
                previous.append(n)
        self.following = {n: [] for n in previous}
        order = sorted(previous)
        first_at = {label: next((n for n in order if n > at), None) for label, at in labels.items()}
        for n, after in zip(order, order[1:] + [None]):
            name = self.instructions[n].name
            if name.startswith(("s_branch", "s_cbranch")):
                label = INSTRUCTION.match(lines[n]).group(2).strip()
                self.following[n].append(first_at[label])
            if not name.startswith(("s_branch", "s_endpgm", "s_setpc")):
                self.following[n].append(after)

    def lines_that_wait(self):
        """Before which a wait belongs. The two sets of a line only grow, so the loop ends."""
        read = {n: 0 for n in self.instructions}  # by vector instructions, on any path to it
        written = {n: 0 for n in self.instructions}  # after that by scalar ones, without a wait since
        todo = sorted(self.instructions, reverse=True)
        while todo:
            n = todo.pop()
            i = self.instructions[n]
            read_after = read[n] | (i.reads if i.is_vector else 0)
            is_waited = i.waits or i.needs_wait(written[n])
            written_after = (0 if is_waited else written[n]) | (i.writes & read_after)
            for m in self.following[n]:
                if m is not None and (read_after & ~read[m] or written_after & ~written[m]):
                    read[m] |= read_after
                    written[m] |= written_after
                    todo.append(m)
        return {n for n, i in self.instructions.items() if i.needs_wait(written[n])}


def functions_of(lines):
    first = 0
    for n, line in enumerate(lines):
        if FUNCTION_END.match(line):
            yield Function(lines, first, n)
            first = n + 1


def with_waits(text):
    lines = text.split("\n")
    waits, instructions = set(), {}
    for function in functions_of(lines):
        waits |= function.lines_that_wait()
        instructions.update(function.instructions)
    out, n_bytes = [], 0  # of waits since the last s_getpc_b64, from where distances count
    for n, line in enumerate(lines):
        if n in waits:
            out.append(WAIT)
            n_bytes += WAIT_BYTES
        if n in instructions and instructions[n].name == "s_getpc_b64":
            n_bytes = 0
        out.append(DISTANCE.sub(lambda found: found.group(1) + str(int(found.group(2)) + n_bytes), line))
    return "\n".join(out)


if __name__ == "__main__":
    sys.stdout.write(with_waits(sys.stdin.read()))
