#!/usr/bin/env python3
"""tools/amd_gates.py sees barriers that do not wait for shared memory, and counts trips to memory."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import amd_gates  # noqa: E402

STORE, BARRIER = "ds_store_b128 v0, v[1:4]", "s_barrier"
barriers = amd_gates.unwaited_barriers
assert barriers([STORE, BARRIER]) == 1
assert barriers([STORE, "s_waitcnt lgkmcnt(0)", BARRIER]) == 0
assert barriers([STORE, "s_waitcnt vmcnt(0) lgkmcnt(0)", BARRIER]) == 0
assert barriers([STORE, "s_waitcnt vmcnt(0)", BARRIER]) == 1
assert barriers([STORE, "s_waitcnt lgkmcnt(1)", BARRIER]) == 1
assert barriers([STORE, "s_wait_dscnt 0x0", "s_barrier_signal -1"]) == 0
assert barriers([STORE, "s_wait_loadcnt_dscnt 0x0", "s_barrier_signal -1"]) == 0
assert barriers([STORE, "s_wait_storecnt_dscnt 0x0", "s_barrier_signal -1"]) == 0
assert barriers([STORE, "s_wait_dscnt 0x1", "s_barrier_signal -1"]) == 1
assert barriers(["ds_bpermute_b32 v0, v1, v2", BARRIER]) == 0, "no access to shared memory"
assert barriers([BARRIER, BARRIER]) == 0

# As clang 19 wrote it for attend_any_f32_512 on gfx942, and with the wait that belongs there.
WRITE_BACK, ATOMIC = "buffer_wbl2 sc1", "global_atomic_add v3, v3, v4, s[2:3] sc0"
write_backs = amd_gates.unwaited_write_backs
assert write_backs(["s_waitcnt vmcnt(0)", WRITE_BACK, ATOMIC]) == 1
assert write_backs([WRITE_BACK, "s_waitcnt lgkmcnt(0)", ATOMIC]) == 1
assert write_backs([WRITE_BACK, "s_waitcnt vmcnt(0)", ATOMIC]) == 0
assert write_backs([WRITE_BACK, "s_waitcnt vmcnt(0) lgkmcnt(0)", ATOMIC]) == 0
assert write_backs([ATOMIC, WRITE_BACK]) == 0
assert write_backs(["global_wb scope:SCOPE_DEV", "s_wait_storecnt 0x0", ATOMIC]) == 0
bare = {"VGPRs Spill": 0, "ScratchSize": 0}
assert list(amd_gates.defects_of("attend_any_f32_512", "gfx942", [WRITE_BACK, ATOMIC], bare))

LOAD = "global_load_b128 v[0:3], v[2:3], off slc dlc"
waits = amd_gates.waits_in_sequence
assert waits([LOAD, LOAD, "s_waitcnt vmcnt(0)"]) == 1
assert waits([LOAD, "s_waitcnt vmcnt(0)", LOAD, "s_waitcnt vmcnt(0)"]) == 2
assert waits([LOAD, LOAD, "s_waitcnt vmcnt(1)", "s_waitcnt vmcnt(0)"]) == 2
assert waits([LOAD, "s_waitcnt lgkmcnt(0)", "s_waitcnt vmcnt(1)"]) == 0

# The figures may fall and not rise.
row = {"vgprs": 100, "vector": 192, "other": 18, "waits": 9, "per_512": "24"}
table = {("matvec_q4_k_1", "gfx1100"): {key: str(value) for key, value in row.items()}}
above = lambda **change: list(amd_gates.above_table({("matvec_q4_k_1", "gfx1100"): {**row, **change}}, table))
assert above() == [] and above(vector=190) == [] and above(vgprs=120) == []
assert len(above(vector=193)) == 1 and len(above(waits=10, other=19)) == 2
assert len(list(amd_gates.above_table({("matvec_q9_1", "gfx1100"): row}, table))) == 1, "not in the table"
in_table = {target for _, target in amd_gates.read_table()}
assert in_table == set(amd_gates.ONE_OF_EACH), in_table

spilled = {"VGPRs Spill": 4, "ScratchSize": 16}
assert list(amd_gates.defects_of("matvec_q4_k_1", "gfx1100", [], spilled))
assert not list(amd_gates.defects_of("attend_tiles_128", "gfx1030", [], spilled)), "known, and said why"
whole = {"VGPRs Spill": 0, "ScratchSize": 0}
assert list(amd_gates.defects_of("matmul_bf16", "gfx1100", ["ds_store_b16 v0, v1"], whole))
assert not list(amd_gates.defects_of("matmul_bf16", "gfx1100", ["ds_store_b128 v0, v[1:4]"], whole))
