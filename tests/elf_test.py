#!/usr/bin/env python3
"""How the program and its modules are linked, read from their ELF files.  elf_test.py PROGRAM MODULE..."""
import pathlib
import platform
import struct
import subprocess
import sys
import tempfile
import unittest

PROGRAM, MODULES = sys.argv[1], sys.argv[2:]
ET_DYN = 3
PT_LOAD, PT_DYNAMIC, PT_INTERP, PT_GNU_STACK, PT_GNU_RELRO = 1, 2, 3, 0x6474E551, 0x6474E552
PF_X, PF_W = 1, 2
DT_NULL, DT_RPATH, DT_TEXTREL, DT_RUNPATH, DT_FLAGS, DT_FLAGS_1 = 0, 15, 22, 29, 30, 0x6FFFFFFB
DF_BIND_NOW, DF_1_NOW, DF_1_PIE = 0x8, 0x1, 0x08000000


SHT_NOTE, NT_GNU_PROPERTY, X86_FEATURE_1_AND, IBT_AND_SHSTK = 7, 5, 0xC0000002, 3


def control_flow_marks(path):
    """The bits of indirect branch tracking and shadow stacks that a file of x86-64 says it was built for."""
    with open(path, "rb") as file:
        data = file.read()
    at, = struct.unpack_from("<Q", data, 40)
    size, n = struct.unpack_from("<HH", data, 58)
    for i in range(n):
        _, kind, _, _, offset, n_bytes = struct.unpack_from("<IIQQQQ", data, at + i * size)
        end = offset + n_bytes
        while kind == SHT_NOTE and offset + 12 <= end:
            name_size, text_size, note = struct.unpack_from("<III", data, offset)
            body = offset + 12 + (name_size + 3) // 4 * 4
            offset = body + (text_size + 7) // 8 * 8
            while note == NT_GNU_PROPERTY and body + 8 <= offset:
                key, length = struct.unpack_from("<II", data, body)
                if key == X86_FEATURE_1_AND:
                    return struct.unpack_from("<I", data, body + 8)[0] & IBT_AND_SHSTK
                body += 8 + (length + 7) // 8 * 8
    return 0


class Elf:
    def __init__(self, path):
        with open(path, "rb") as file:
            data = file.read()
        assert data[:6] == b"\x7fELF\x02\x01", f"{path}: not a little-endian 64-bit ELF file"
        self.type = struct.unpack_from("<H", data, 16)[0]
        at, = struct.unpack_from("<Q", data, 32)
        size, n = struct.unpack_from("<HH", data, 54)
        self.segments = [struct.unpack_from("<IIQQQQQQ", data, at + i * size) for i in range(n)]
        self.dynamic = {}
        for kind, _, offset, _, _, n_bytes, _, _ in self.segments:
            if kind != PT_DYNAMIC:
                continue
            for entry in range(offset, offset + n_bytes, 16):
                tag, value = struct.unpack_from("<QQ", data, entry)
                if tag == DT_NULL:
                    break
                self.dynamic[tag] = value

    def of_kind(self, kind):
        return [segment for segment in self.segments if segment[0] == kind]


class ElfTest(unittest.TestCase):
    def test_the_program_is_position_independent(self):
        elf = Elf(PROGRAM)
        self.assertEqual(elf.type, ET_DYN)
        self.assertTrue(elf.dynamic.get(DT_FLAGS_1, 0) & DF_1_PIE)

    def test_symbols_are_bound_before_main_and_their_table_is_then_read_only(self):
        for path in (PROGRAM, *MODULES):
            elf = Elf(path)
            is_now = elf.dynamic.get(DT_FLAGS, 0) & DF_BIND_NOW or elf.dynamic.get(DT_FLAGS_1, 0) & DF_1_NOW
            self.assertTrue(is_now, f"{path}: no BIND_NOW")
            self.assertTrue(elf.of_kind(PT_GNU_RELRO), f"{path}: no RELRO")

    def test_nothing_is_writable_and_executable(self):
        for path in (PROGRAM, *MODULES):
            elf = Elf(path)
            stack = elf.of_kind(PT_GNU_STACK)
            self.assertTrue(stack, f"{path}: no GNU_STACK")
            for segment in stack + elf.of_kind(PT_LOAD):
                self.assertNotEqual(segment[1] & (PF_W | PF_X), PF_W | PF_X, path)
            self.assertFalse(stack[0][1] & PF_X, f"{path}: an executable stack")
            self.assertNotIn(DT_TEXTREL, elf.dynamic, path)

    @unittest.skipUnless(platform.machine() == "x86_64", "CET is x86-64's")
    def test_control_flow_is_enforced_where_the_c_library_is_built_for_it(self):
        with tempfile.TemporaryDirectory() as folder:
            source, ours = f"{folder}/f.c", f"{folder}/f.o"
            pathlib.Path(source).write_text("int main(void) { return 0; }\n")
            subprocess.run(["cc", "-fcf-protection=full", "-c", source, "-o", ours], check=True)
            self.assertEqual(control_flow_marks(ours), IBT_AND_SHSTK)  # the marks are found where they are
            plain = f"{folder}/f"
            subprocess.run(["cc", "-fcf-protection=full", source, "-o", plain], check=True)
            self.assertEqual(control_flow_marks(PROGRAM), control_flow_marks(plain))

    def test_no_folder_is_built_in_for_libraries(self):
        for path in (PROGRAM, *MODULES):
            elf = Elf(path)
            self.assertNotIn(DT_RPATH, elf.dynamic, path)
            self.assertNotIn(DT_RUNPATH, elf.dynamic, path)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
