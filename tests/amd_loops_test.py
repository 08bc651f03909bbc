#!/usr/bin/env python3
"""tools/amd_loops.py finds the loop that streams, and counts what is in it."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import amd_loops  # noqa: E402

# An outer loop around one that streams and one that does not; the one that streams is turned round: it is entered at its
# middle, and the branch back goes to the block ahead of that.
ASSEMBLY = """
other:
\tglobal_load_b128 v[0:3], v[4:5], off slc dlc
.Lfunc_end0:
hot:                                    ; @hot
; %bb.0:
\ts_load_b64 s[0:1], s[2:3], 0x0
.LBB1_1:                                ; =>This Loop Header: Depth=1
\ts_branch .LBB1_3
.LBB1_2:                                ;   in Loop: Header=BB1_3 Depth=2
\ts_waitcnt vmcnt(0)
\tv_dot4_i32_iu8 v9, v6, v7, v9 neg_lo:[1,1,0]
\ts_cbranch_execz .LBB1_4
.LBB1_3:                                ;   Parent Loop BB1_1 Depth=1
                                        ; =>  This Inner Loop Header: Depth=2
\tglobal_load_b128 v[0:3], v[10:11], off slc dlc
\tglobal_load_b128 v[4:7], v[10:11], off offset:16 slc dlc
\tglobal_load_b32 v8, v[10:11], off
\ts_delay_alu instid0(VALU_DEP_1)
\ts_waitcnt vmcnt(2)
\tv_wmma_f32_16x16x16_f16 v[0:7], v[8:15], v[16:23], v[0:7]
\tglobal_load_b128 v[0:3], v[10:11], off offset:32 slc dlc
\tds_load_b128 v[0:3], v0
\tv_add_nc_u32_e32 v1, v2, v3
\ts_branch .LBB1_2
.LBB1_4:
\tv_mov_b32_e32 v1, v2
\ts_cbranch_scc1 .LBB1_4
; %bb.5:
\ts_cbranch_scc1 .LBB1_1
\ts_endpgm
.Lfunc_end1:
"""
got = amd_loops.analyse(ASSEMBLY, "hot")
assert got == {"streamed": 3, "in_flight": 2, "vector": 2, "matrix": 1, "memory": 4, "shared": 1, "scalar": 2}, got

for name, text in {"gfx9": "global_load_dwordx4 v[0:3], v[2:3], off offset:16 glc slc", "gfx942": "global_load_dwordx4 v[0:3], v[2:3], off nt",
                   "gfx12": "global_load_b128 v[0:3], v[2:3], off th:TH_LOAD_NT"}.items():
    assert amd_loops.is_streamed(text), name
assert not amd_loops.is_streamed("global_load_b128 v[0:3], v[2:3], off")
assert not amd_loops.is_streamed("global_store_b128 v[2:3], v[0:3], off th:TH_STORE_NT")

# Waits of both spellings: three loads, one of them waited for, then another.
load, wait = "global_load_b128 v[0:3], v[2:3], off th:TH_LOAD_NT", "s_wait_loadcnt 0x2"
assert amd_loops.most_in_flight([load, load, load, wait, load, "s_wait_loadcnt 0x0"]) == 3
assert amd_loops.most_in_flight([load, load, "s_waitcnt vmcnt(0) lgkmcnt(0)"]) == 2

# A card of one compute unit that issues 1e9 instructions a second and reads 1 GB/s.
card = amd_loops.Card("toy", 1, 1, 1.0, 1, 32, 1, 16)
got = amd_loops.against(card, {"streamed": 2, "in_flight": 1, "vector": 512}, 16, 4)
assert got["per_byte"] == 0.5 and got["issue"] == 0.5 and got["in_flight"] == 512, got
assert abs(got["flight"] - 4 * 512 / (1e9 * amd_loops.LATENCY)) < 1e-9, got

# Kernels of matrix instructions are weighed against the matrix unit.
amd_loops.CARDS["toy"] = card
got = amd_loops.figures_of("hot", "toy", ASSEMBLY, {"hot": {"VGPRs": 9, "VGPRs Spill": 0, "Occupancy": 4}})
assert got["balance"] == "0.1" and got["issue"] == "-" and got["waves per SIMD"] == 4, got
assert amd_loops.side_by_side([3, 3]) == "3" and amd_loops.side_by_side([3, 4]) == "3, 4"
print("10 passed, 0 failed")
