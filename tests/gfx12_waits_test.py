#!/usr/bin/env python3
"""tools/gfx12_waits.py puts s_wait_alu where a scalar register could be read before it is written, and nowhere else."""
import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
from gfx12_waits import Instruction, pairs_of, with_waits  # noqa: E402

WAIT = "s_wait_alu 0xfffe"


def waited(*lines):
    """The lines of a function with waits."""
    text = "\n".join(line if line.endswith(":") else "\t" + line for line in lines) + "\n.Lfunc_end0:\n"
    return [line.strip() for line in with_waits(text).split("\n")[:-2]]


READ, WRITE, USE, END = "v_add_nc_u32_e32 v1, s4, v1", "s_mov_b32 s5, 1", "s_add_co_i32 s6, s4, 1", "s_endpgm"
assert waited(READ, WRITE, USE, END) == [READ, WRITE, WAIT, USE, END]
OTHER_WAIT = "s_wait_alu 0xfffd"
assert waited(READ, WRITE, OTHER_WAIT, USE, END) == [READ, WRITE, OTHER_WAIT, WAIT, USE, END], "it waits for something else"
assert waited(READ, WRITE, "s_nop 0", READ, USE, END) == [READ, WRITE, "s_nop 0", WAIT, READ, USE, END], "one is enough"
for lines in ((WRITE, USE, READ, END),                       # nobody of the vector unit has read it
              (READ, WRITE, "s_mov_b32 s4, 2", END),         # nobody reads it
              (READ, "s_mov_b32 s6, 1", USE, END),           # another pair
              (READ, WRITE, WAIT, USE, END),                 # it is there
              (READ, "s_load_b32 s4, s[0:1], 0x0", USE, END),  # loads have waits of their own
              (READ, WRITE, "global_load_b32 v0, v1, s[4:5]", END)):  # neither of the two units
    assert waited(*lines) == list(lines), lines

# Registers that instructions name without a number, or twice.
assert waited("v_cndmask_b32_e32 v0, v1, v2, vcc_lo", "s_and_not1_b32 vcc_lo, exec_lo, s4", "v_div_fmas_f32 v0, v1, v2, v3",
              END)[2] == WAIT
assert waited(READ, WRITE, "v_dual_mov_b32 v0, 0 :: v_dual_mov_b32 v1, s4", END)[2] == WAIT
assert waited(READ, "s_addk_co_i32 s4, 1", "s_cmp_eq_u32 s4, 0", END)[2] == WAIT
assert waited("v_mov_b32_e32 v0, s8", "s_lshl_b64 s[8:9], s[8:9], 2", "v_mov_b32_e32 v1, s9 ; s3", END)[2] == WAIT
assert waited("v_cmpx_gt_u32_e64 s4, v0", WRITE, "v_cmpx_gt_u32_e64 s4, v0", END)[2] == WAIT, "it has no destination"
assert waited("v_mov_b32_e32 v0, s8", "s_cmp_eq_u32 s8, 0", "v_mov_b32_e32 v1, s8", END)[2] != WAIT, "it writes no register"
assert pairs_of("v4, 0x53, exec_lo, m0, null, src_scc") == 0
assert pairs_of("s[4:7], vcc, ttmp9") == 1 << 2 | 1 << 3 | 1 << 53 | 1 << 58

# Around a loop, and from one of two paths.
loop = waited(".LBB0_1:", USE, READ, WRITE, "s_cbranch_scc1 .LBB0_1", END)
assert loop == [".LBB0_1:", WAIT, USE, READ, WRITE, "s_cbranch_scc1 .LBB0_1", END], loop
paths = waited(READ, WRITE, "s_cbranch_scc1 .LBB0_1", USE, ".LBB0_1:", USE, END)
assert paths == [READ, WRITE, "s_cbranch_scc1 .LBB0_1", WAIT, USE, ".LBB0_1:", WAIT, USE, END], paths

# Distances from s_getpc_b64 grow by what stands between.
far = waited(READ, "s_getpc_b64 s[4:5]", "s_sext_i32_i16 s5, s5", "s_add_co_u32 s4, s4, table@rel32@lo+8",
             "s_add_co_ci_u32 s5, s5, table@rel32@hi+16", END)
assert [line for line in far if line != WAIT][3:5] == ["s_add_co_u32 s4, s4, table@rel32@lo+16",
                                                       "s_add_co_ci_u32 s5, s5, table@rel32@hi+28"], far


def may_be_old(lines, walk):
    """Whether a walk over the lines reads a pair that a scalar instruction wrote, after the vector unit read it."""
    read, written = 0, 0
    for line in walk:
        i = Instruction(*lines[line].split(" ", 1)) if " " in lines[line] else Instruction(lines[line], "")
        if i.reads & written:
            return True
        if i.waits:
            written = 0
        read |= i.reads if i.is_vector else 0
        written |= i.writes & read
    return False


def walks(lines, rng):
    places = {line[:-1]: n for n, line in enumerate(lines) if line.endswith(":")}
    for _ in range(30):
        walk, at = [], 0
        while len(walk) < 60 and lines[at] != END:
            line = lines[at]
            if not line.endswith(":"):
                walk.append(at)
            jumps = line.startswith("s_branch") or (line.startswith("s_cbranch") and rng.random() < 0.5)
            at = places[line.split()[1]] if jumps else at + 1
        yield walk


# No walk through a random program with waits reads an old value; without them some do. A second turn adds nothing.
rng = random.Random(12)
n_old = 0
for _ in range(400):
    labels = [f".LBB0_{k}" for k in range(rng.randint(1, 4))]
    body = [label + ":" for label in labels]
    for _ in range(rng.randint(4, 16)):
        a, b = rng.randrange(4, 10), rng.randrange(4, 10)
        body.append(rng.choice([f"v_mov_b32_e32 v0, s{a}", f"s_mov_b32 s{a}, s{b}", f"s_cmp_eq_u32 s{a}, s{b}", "s_nop 0",
                                f"s_cbranch_scc1 {rng.choice(labels)}"]))
    rng.shuffle(body)
    program = [*body, END]
    guarded = waited(*program)
    assert [line for line in guarded if line != WAIT] == program
    assert not any(may_be_old(guarded, walk) for walk in walks(guarded, rng)), guarded
    assert waited(*guarded) == guarded
    n_old += any(may_be_old(program, walk) for walk in walks(program, rng))
assert n_old > 50, n_old
