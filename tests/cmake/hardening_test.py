"""The binaries are hardened: checked in their ELF headers and in the compile commands of our own objects.

    hardening_test.py BUILD_DIRECTORY
"""
import json
import os
import struct
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "lint"))
import rooms  # noqa: E402

BUILD = os.environ.get("MUSTER_BUILD", "build")
BINARIES = ("jobctl", "muster-coordinator", "muster-worker", "muster-shim", "muster-rendezvous", "muster-unwind")
STATIC = ("muster-shim",)
ET_DYN = 3
PT_DYNAMIC, PT_INTERP, PT_GNU_STACK, PT_GNU_RELRO = 2, 3, 0x6474E551, 0x6474E552
PF_X, PF_W = 1, 2
PT_LOAD = 1
DT_NULL, DT_BIND_NOW, DT_FLAGS, DT_FLAGS_1, DT_TEXTREL = 0, 24, 30, 0x6FFFFFFB, 22
DF_BIND_NOW, DF_1_NOW, DF_1_PIE = 8, 1, 0x08000000
SHT_SYMTAB, SHT_DYNSYM, SHT_NOTE = 2, 11, 7
NT_GNU_PROPERTY_TYPE_0, X86_FEATURE_1_AND, IBT_AND_SHSTK = 5, 0xC0000002, 3
# All code compiled into them.
FOLDERS = (*rooms.PRODUCT_AREAS, "page", "proto")
FLAGS = ("-fstack-protector-strong", "-fstack-clash-protection", "-D_FORTIFY_SOURCE=2")


class Elf:
    """A minimal reader for 64-bit little-endian ELF."""

    def __init__(self, path):
        with open(path, "rb") as file:
            self.data = file.read()
        if self.data[:6] != b"\x7fELF\x02\x01":
            raise AssertionError(f"{path} is no 64-bit little-endian ELF file")
        (self.type, self.machine, _, _, phoff, shoff, _, _, phentsize, phnum, shentsize, shnum, _) = struct.unpack_from(
            "<HHIQQQIHHHHHH", self.data, 16)
        # (type, flags, offset, file size)
        self.segments = []
        for i in range(phnum):
            kind, flags, offset, _, _, size, _, _ = struct.unpack_from("<IIQQQQQQ", self.data, phoff + i * phentsize)
            self.segments.append((kind, flags, offset, size))
        # (type, offset, size, link, entry size)
        self.sections = []
        for i in range(shnum):
            _, kind, _, _, offset, size, link, _, _, each = struct.unpack_from(
                "<IIQQQQIIQQ", self.data, shoff + i * shentsize)
            self.sections.append((kind, offset, size, link, each))

    def dynamic(self):
        for kind, _, offset, size in self.segments:
            if kind == PT_DYNAMIC:
                return dict(struct.unpack_from("<QQ", self.data, at) for at in range(offset, offset + size, 16))
        return {}

    def symbols(self, table):
        for kind, offset, size, link, each in self.sections:
            if kind == table:
                names = self.sections[link][1]
                for at in range(offset, offset + size, each):
                    start = names + struct.unpack_from("<I", self.data, at)[0]
                    yield self.data[start:self.data.index(b"\0", start)].decode(errors="replace")

    def x86_features(self):
        """Bits of GNU_PROPERTY_X86_FEATURE_1_AND; 0 without the note."""
        for kind, offset, size, _, _ in self.sections:
            if kind != SHT_NOTE or size < 32:
                continue
            name_size, desc_size, note = struct.unpack_from("<III", self.data, offset)
            if note != NT_GNU_PROPERTY_TYPE_0 or self.data[offset + 12:offset + 12 + name_size] != b"GNU\0":
                continue
            at, end = offset + 16, offset + 16 + desc_size
            while at + 12 <= end:
                what, length, value = struct.unpack_from("<III", self.data, at)
                if what == X86_FEATURE_1_AND:
                    return value
                at += 8 + (length + 7) // 8 * 8
        return 0


def compiled():
    """(folder of the target, command, object) of everything that ends up in the binaries."""
    with open(os.path.join(BUILD, "compile_commands.json")) as file:
        entries = json.load(file)
    for entry in entries:
        words = entry["command"].split()
        output = words[words.index("-o") + 1]  # below the build directory
        folder = output.split("/")[0]
        if folder in FOLDERS and not output.endswith(".gch"):  # a precompiled header is not an object
            yield folder, words, os.path.join(entry["directory"], output)


class Hardening(unittest.TestCase):
    def for_each(self, judge):
        for name in BINARIES:
            with self.subTest(binary=name):
                judge(name, Elf(os.path.join(BUILD, "bin", name)))

    def test_position_independent(self):
        def judge(name, elf):
            self.assertEqual(elf.type, ET_DYN, "PIE")
            self.assertTrue(elf.dynamic().get(DT_FLAGS_1, 0) & DF_1_PIE, "PIE")
            self.assertNotIn(DT_TEXTREL, elf.dynamic(), "code is not relocated")
            self.assertEqual(any(kind == PT_INTERP for kind, _, _, _ in elf.segments), name not in STATIC)
        self.for_each(judge)

    def test_relocations_are_done_at_the_start_and_read_only(self):
        def judge(_, elf):
            self.assertIn(PT_GNU_RELRO, [kind for kind, _, _, _ in elf.segments])
            dynamic = elf.dynamic()
            now = dynamic.get(DT_FLAGS, 0) & DF_BIND_NOW or dynamic.get(DT_FLAGS_1, 0) & DF_1_NOW
            self.assertTrue(now or DT_BIND_NOW in dynamic, "BIND_NOW")
        self.for_each(judge)

    def test_nothing_is_writable_and_executable(self):
        def judge(_, elf):
            stack = [flags for kind, flags, _, _ in elf.segments if kind == PT_GNU_STACK]
            self.assertEqual(len(stack), 1)
            self.assertFalse(stack[0] & PF_X, "the stack")
            for kind, flags, _, _ in elf.segments:
                self.assertFalse(kind == PT_LOAD and flags & PF_X and flags & PF_W)
        self.for_each(judge)

    def test_overflows_are_noticed(self):
        def judge(name, elf):
            symbols = set(elf.symbols(SHT_SYMTAB if name in STATIC else SHT_DYNSYM))
            self.assertIn("__stack_chk_fail", symbols)
            fortified = [symbol for symbol in symbols if symbol.startswith("__") and symbol.endswith("_chk")]
            self.assertTrue(fortified, "FORTIFY")
        self.for_each(judge)

    def test_they_do_not_name_the_folder_they_were_built_in(self):
        def judge(_, elf):
            for folder in FOLDERS:
                self.assertNotIn(f"{ROOT}/{folder}/".encode(), elf.data)  # else two builds of one tree differ
        self.for_each(judge)

    def test_every_object_of_ours_is_compiled_with_the_flags(self):
        release = any("-O2" in words for _, words, _ in compiled())
        folders = set()
        for folder, words, path in compiled():
            for flag in FLAGS:
                if flag.startswith("-D_FORTIFY") and not release:
                    continue
                self.assertIn(flag, words, path)
            folders.add(folder)
        self.assertEqual(folders, set(FOLDERS))

    def test_objects_of_ours_carry_the_notes_of_control_flow_protection(self):
        looked_at = 0
        for _, _, path in compiled():
            if not os.path.exists(path):
                continue  # from a target that was not built
            elf = Elf(path)
            if elf.machine != 62:
                self.skipTest("x86-64 only")
            self.assertEqual(elf.x86_features() & IBT_AND_SHSTK, IBT_AND_SHSTK, path)
            looked_at += 1
        self.assertGreater(looked_at, 20)


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        BUILD = sys.argv.pop(1)
    unittest.main()
