#!/usr/bin/env python3
"""Hostile model files against the real program: hostile_files_test.py BINARY [--sanitized] [--keep FOLDER] [NAME...]

Makes some 700 files, each a tiny good model with one thing wrong, and gives each to `run` and `chat`. Whatever the file
says, the program ends by itself with 0 or 1, within a bound of processor time and memory, and a failure is a short
message without control characters. --sanitized: one file in four, with ten times the time and
any memory.
"""
import argparse
import array
import math
import os
import pathlib
import random
import re
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import time

SECONDS = 2.5            # of processor time, for one file
TEMPLATE_SECONDS = 6.0   # where the file's chat template uses up what templates may take
WALL_SECONDS = 120       # the machine may be busy
MEMORY = 2 << 30         # of address space
U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)
FORMATS = {U8: "B", I8: "b", U16: "H", I16: "h", U32: "I", I32: "i", F32: "f", BOOL: "?", U64: "Q", I64: "q", F64: "d"}
WIDTH, FF, HEADS, KV_HEADS, HEAD, LAYERS = 32, 64, 2, 1, 16, 2
SLOW_LOOP = "{% for i in range(1000) %}{% for j in range(1000) %}{% set x = 'abc' * 100 %}{% endfor %}{% endfor %}"


def text(value):
    raw = value if isinstance(value, bytes) else value.encode()
    return struct.pack("<Q", len(raw)) + raw


def encoded(kind, value):
    """The value's bytes as they follow its type. An array is (type of its elements, values)."""
    if kind == STRING:
        return text(value)
    if kind == ARRAY:
        of, values = value
        body = b"".join(map(text, values)) if of == STRING else struct.pack(f"<{len(values)}{FORMATS[of]}", *values)
        return struct.pack("<IQ", of, len(values)) + body
    return struct.pack("<" + FORMATS[kind], value)


class File:
    """A good model; change keys, tensors and bytes before write()."""

    def __init__(self):
        tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)] + list("abcdefgh") + ["▁", "ab", "▁a"]
        self.keys = {
            "general.architecture": (STRING, "llama"),
            "llama.block_count": (U32, LAYERS),
            "llama.context_length": (U32, 128),
            "llama.embedding_length": (U32, WIDTH),
            "llama.feed_forward_length": (U32, FF),
            "llama.attention.head_count": (U32, HEADS),
            "llama.attention.head_count_kv": (U32, KV_HEADS),
            "llama.attention.key_length": (U32, HEAD),
            "llama.attention.value_length": (U32, HEAD),
            "llama.attention.layer_norm_rms_epsilon": (F32, 1e-5),
            "llama.rope.dimension_count": (U32, HEAD),
            "llama.rope.freq_base": (F32, 10000.0),
            "tokenizer.ggml.model": (STRING, "llama"),
            "tokenizer.ggml.tokens": (ARRAY, (STRING, tokens)),
            "tokenizer.ggml.token_type": (ARRAY, (I32, [2, 3, 3] + [6] * 256 + [1] * 11)),
            "tokenizer.ggml.scores": (ARRAY, (F32, [0.0] * 259 + [float(-i) for i in range(11)])),
            "tokenizer.ggml.bos_token_id": (U32, 1),
            "tokenizer.ggml.eos_token_id": (U32, 2),
        }
        self.tensors = {}  # name -> [dims, type, data or None: random]
        self.set_vocabulary(len(tokens))
        for i in range(LAYERS):
            layer = f"blk.{i}."
            for name, dims in (("attn_norm", [WIDTH]), ("attn_q", [WIDTH, HEADS * HEAD]),
                               ("attn_k", [WIDTH, KV_HEADS * HEAD]), ("attn_v", [WIDTH, KV_HEADS * HEAD]),
                               ("attn_output", [HEADS * HEAD, WIDTH]), ("ffn_norm", [WIDTH]), ("ffn_gate", [WIDTH, FF]),
                               ("ffn_up", [WIDTH, FF]), ("ffn_down", [FF, WIDTH])):
                self.tensors[layer + name + ".weight"] = [dims, 0, None]
        self.offsets = {}    # name -> what the file says in the place of the right offset
        self.counts = None   # (tensors, keys) that the file says it has
        self.change = None   # of the finished bytes

    def set_vocabulary(self, n):
        self.tensors |= {"token_embd.weight": [[WIDTH, n], 0, None], "output_norm.weight": [[WIDTH], 0, None],
                         "output.weight": [[WIDTH, n], 0, None]}

    def tokens(self, tokens, types=None, scores=None, model="llama", merges=None):
        self.keys["tokenizer.ggml.model"] = (STRING, model)
        self.keys["tokenizer.ggml.tokens"] = (ARRAY, (STRING, tokens))
        self.keys["tokenizer.ggml.token_type"] = (ARRAY, (I32, types if types is not None else [1] * len(tokens)))
        self.keys["tokenizer.ggml.scores"] = (ARRAY, (F32, scores if scores is not None else [0.0] * len(tokens)))
        if merges is not None:
            self.keys["tokenizer.ggml.merges"] = (ARRAY, (STRING, merges))
            self.keys.setdefault("tokenizer.ggml.pre", (STRING, "gpt-2"))
        self.set_vocabulary(max(1, len(tokens)))

    def write(self, path):
        rng = random.Random(1)
        n_tensors, n_keys = self.counts or (len(self.tensors), len(self.keys))
        head = [b"GGUF", struct.pack("<IQQ", 3, n_tensors, n_keys)]
        for key, (kind, value) in self.keys.items():
            head.append(text(key) + struct.pack("<I", kind) + encoded(kind, value))
        bodies, offset = [], 0
        for name, (dims, kind, data) in self.tensors.items():
            if data is None:
                n = min(math.prod(dims), 1 << 16)
                data = array.array("f", [rng.gauss(1 if len(dims) == 1 else 0, 0.2) for _ in range(n)]).tobytes()
            data += bytes(-len(data) % 32)
            head.append(text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind,
                                                 self.offsets.get(name, offset)))
            bodies.append(data)
            offset += len(data)
        whole = b"".join(head)
        whole += bytes(-len(whole) % 32) + b"".join(bodies)
        path.write_bytes(self.change(whole) if self.change else whole)


def hyper_parameters():
    values = [(U32, v) for v in (0, 1, 3, 7, 255, 65536, 2**31 - 1, 2**32 - 1)]
    values += [(I32, -1), (U64, 2**63), (F32, math.nan), (F32, math.inf), (F32, -1.0), (F32, 1e-45), (STRING, "x"),
               (BOOL, True), (ARRAY, (U32, [1, 2, 3]))]
    names = ["block_count", "context_length", "embedding_length", "feed_forward_length", "attention.head_count",
             "attention.head_count_kv", "attention.key_length", "attention.value_length",
             "attention.layer_norm_rms_epsilon", "rope.dimension_count", "rope.freq_base", "vocab_size", "expert_count",
             "rope.scaling.factor", "attention.sliding_window"]
    for name in names:
        for i, value in enumerate(values):
            file = File()
            file.keys["llama." + name] = value
            yield f"{name}-{i}", file
    for name in list(File().keys):
        file = File()
        del file.keys[name]
        yield f"without-{name}", file
    for name in ("", "no such", "gpt2", "bert", "mamba", "clip", "\x1b]0;title\x07", "a" * 60000, "\n" * 60000):
        file = File()
        file.keys["general.architecture"] = (STRING, name)
        yield f"architecture-{name[:8]!r}", file
    for key in ("general.name", "llama.rope.scaling.type", "tokenizer.ggml.model", "tokenizer.ggml.pre",
                "tokenizer.chat_template", "general.alignment"):
        file = File()
        file.keys[key] = (STRING, "a\x1b" * 60000)
        yield f"long-{key}", file


def weights():
    for role in ("token_embd.weight", "blk.0.attn_norm.weight", "blk.1.attn_q.weight", "blk.0.ffn_down.weight",
                 "output_norm.weight", "output.weight"):
        for value in (math.nan, math.inf, -math.inf, 3e38, 1e-45, 0.0):
            file = File()
            n = math.prod(file.tensors[role][0])
            file.tensors[role][2] = array.array("f", [value] * n).tobytes()
            yield f"{role}-{value}", file
    for role in ("token_embd.weight", "blk.0.attn_norm.weight", "blk.0.ffn_up.weight"):
        for kind in range(45):
            file = File()
            dims = file.tensors[role][0]
            # 256 to a row, so that every format's blocks fit; random bits are its numbers, infinite ones among them.
            if kind >= 2 and len(dims) == 2:
                file.tensors[role][0] = [256, dims[1]]
            file.tensors[role][1] = kind
            file.tensors[role][2] = random.Random(kind).randbytes(math.prod(file.tensors[role][0]) * 4)
            yield f"{role}-type-{kind}", file


def vocabularies():
    def made(*args, **kw):
        file = File()
        file.tokens(*args, **kw)
        return file

    yield "no-tokens", made([])
    yield "one-token", made(["a"])
    yield "all-equal", made(["a"] * 5000)
    yield "all-empty", made([""] * 5000)
    yield "long-token", made(["a", "b" * (1 << 20)])
    yield "many", made([f"t{i}" for i in range(60000)])
    yield "prefixes", made(["a" * i for i in range(1, 3000)])
    yield "long-controls", made(["<" * 990 + str(i) for i in range(3000)], types=[3] * 3000)
    yield "not-utf8", made([b"\xff\xfe" + bytes([i]) for i in range(256)])
    yield "escapes", made(["\x1b[31m" + str(i) for i in range(300)])
    # What collides in the hash table that was in use here: the first eight bytes cancel its constant.
    yield "colliding", made([b"\x15\x7c\x4a\x7f\xb9\x79\x37\x9e" + struct.pack("<Q", i) for i in range(50000)])
    yield "scores-nan", made(["a", "b", "ab"], scores=[math.nan] * 3)
    yield "scores-infinite", made(["a", "b", "ab"], scores=[math.inf] * 3)
    yield "scores-short", made(["a", "b", "ab"], scores=[0.0])
    yield "types-short", made(["a", "b", "ab"], types=[1])
    yield "types-wrong", made(["a", "b", "ab"], types=[99, -1, 2**31 - 1])
    yield "all-control", made(["a", "b", "ab"], types=[3] * 3)
    for model in ("gpt2", "bert", "t5", "rwkv", "no such", ""):
        yield f"model-{model}", made([f"t{i}" for i in range(300)], model=model, merges=["t 1"])
    bpe = [chr(c) for c in range(33, 127)] + ["ab", "abc"]
    for name, merges in (("parts-missing", ["x yy", "zz q"]), ("no-space", ["ab"]), ("three", ["a b c"]),
                         ("empty", [""]), ("many", ["a b"] * 200000), ("self", ["a a"] * 10), ("spaces", ["  "] * 9)):
        yield f"merges-{name}", made(bpe, model="gpt2", merges=merges)
    for pre in ("", "no such", "llama-bpe", "\x1b[31m"):
        file = made(bpe, model="gpt2", merges=["a b"])
        file.keys["tokenizer.ggml.pre"] = (STRING, pre)
        yield f"pre-{pre!r}", file
    for name in ("bos", "eos", "unknown", "padding", "eot"):
        for value in ((U32, 2**32 - 1), (U32, 270), (I32, -1), (STRING, "x"), (F32, 0.5)):
            file = File()
            file.keys[f"tokenizer.ggml.{name}_token_id"] = value
            yield f"{name}-{value}", file


TEMPLATES = {
    "loops": SLOW_LOOP,
    "range": "{% for i in range(10**9) %}x{% endfor %}",
    "grow": "{% set ns = namespace(x='ab') %}{% for i in range(64) %}{% set ns.x = ns.x * 2 %}{% endfor %}{{ ns.x }}",
    "multiply": "{{ 'a' * 1000000000 }}",
    "list": "{{ [0] * 1000000000 }}",
    "macro": "{% macro f(n) %}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}",
    "macro-twice": "{% macro f(n) %}{{ f(n + 1) }}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}",
    "parentheses": "{{ " + "(" * 100000 + "1" + ")" * 100000 + " }}",
    "brackets": "{{ " + "[" * 100000 + "]" * 100000 + " }}",
    "nots": "{{ " + "not " * 100000 + "1 }}",
    "ifs": "{% if 1 %}" * 50000 + "{% endif %}" * 50000,
    "open": "{% for m in messages %}" * 1000,
    "self": "{% set d = {} %}{% set _ = d.update({'d': d}) %}{{ d }}{{ d | tojson }}",
    "join": "{{ range(1000000) | join('x') }}",
    "replace": "{{ ('a' * 10000).replace('a', 'a' * 10000) }}",
    "format": "{{ '%999999999d' | format(1) }}",
    "slice": "{{ messages[-9223372036854775808:9223372036854775807:-1] }}",
    "divide": "{{ 1 // 0 }}{{ -9223372036854775808 // -1 }}{{ 1 % 0 }}",
    "power": "{{ 9 ** 9 ** 9 ** 9 }}",
    "split": "{{ ('a ' * 100000).split(' ') | length }}",
    "sort": "{{ range(100000) | sort | list }}",
    "exception": "{{ raise_exception('\x1b]0;PWNED\x07') }}",
    "escapes": "\x1b[2J{{ messages[0].content }}\x9b31m",
    "unknown": "{% include '/etc/passwd' %}",
    "attribute": "{{ ''.__class__.__mro__ }}",
    "broken": "{% for %}",
    "never-closed": "{{ messages",
    "comment": "{# " + "x" * 1000000,
    "empty": "",
    "nul": "a\0b{{ messages[0].content }}",
    "text": "x" * 4_000_000,
    "only-long-name": "{{ " + "a" * 1_000_000 + " }}",
    "string-loop": "{% for c in 'x' * 1000000 %}{% for d in 'y' * 1000000 %}{% endfor %}{% endfor %}",
    "call-block": "{% call f() %}" * 3000 + "{% endcall %}" * 3000,
    "filters": "{{ 'x'" + " | upper" * 100000 + " }}",
    "dots": "{{ a" + ".a" * 100000 + " }}",
    "pluses": "{{ 1" + " + 1" * 100000 + " }}",
    "tildes": "{{ 'x'" + " ~ 'x'" * 100000 + " }}",
    "raw": "{% raw %}" + "{{" * 500000,
}


def templates():
    for name, template in TEMPLATES.items():
        file = File()
        file.keys["tokenizer.chat_template"] = (STRING, template)
        yield name, file
    for n in (20, 1000):
        file = File()
        file.keys["tokenizer.chat_template"] = (STRING, "{{ messages[0].content }}")
        for i in range(n):
            file.keys[f"tokenizer.chat_template.n{i}"] = (STRING, SLOW_LOOP)
        yield f"named-{n}", file
    file = File()
    file.keys["tokenizer.chat_template.\x1b[31mx"] = (STRING, "{% for %}")
    file.keys["tokenizer.chat_template.tool_use"] = (STRING, SLOW_LOOP)
    yield "named-escapes", file


def shapes():
    for role in ("token_embd.weight", "blk.0.attn_norm.weight", "blk.0.attn_q.weight", "blk.1.ffn_down.weight",
                 "output.weight"):
        good = File().tensors[role][0]
        for i, dims in enumerate(([], [0], good[::-1] + [1], [1] + good, [d + 1 for d in good], [d * 2 for d in good],
                                  good[:-1] + [2**31], good[:-1] + [2**62], [2**32, 2**32], good + [1, 1, 1])):
            file = File()
            file.tensors[role][0] = dims
            file.tensors[role][2] = bytes(1 << 14)
            yield f"{role}-{i}", file
        file = File()
        del file.tensors[role]
        yield f"{role}-missing", file
        for offset in (1, 2**40, 2**63, 2**64 - 32, 0):
            file = File()
            file.offsets[role] = offset
            yield f"{role}-offset-{offset}", file


def extras():
    file = File()
    file.tensors |= {f"blk.0.extra.{i}": [[1], 0, bytes(4)] for i in range(60000)}
    yield "tensors", file
    file = File()
    file.tensors["blk.7.attn_q.weight"] = [[WIDTH, WIDTH], 0, None]
    yield "layer", file
    file = File()
    file.keys |= {f"k.{i}": (U32, i) for i in range(60000)}
    yield "keys", file
    file = File()
    file.keys["k"] = (ARRAY, (STRING, ["x"] * 1_000_000))
    yield "strings", file
    file = File()
    file.keys["k" * 65535] = (U32, 1)
    yield "long-key", file
    for counts in ((0, 0), (2**32, 3), (2**63, 2**63), (3, 2**40), (2**64 - 1, 2**64 - 1)):
        file = File()
        file.counts = counts
        yield f"counts-{counts}", file


def damaged():
    path = pathlib.Path(tempfile.mkstemp()[1])
    File().write(path)
    size = path.stat().st_size
    path.unlink()
    for i in range(20):
        file = File()
        file.change = lambda whole, i=i: whole[:size * i // 20]
        yield f"cut-{i}", file
    for seed in range(40):  # of the header: the data has no wrong bits
        def flip(whole, rng=random.Random(seed)):
            whole = bytearray(whole)
            for _ in range(rng.choice((1, 1, 1, 8))):
                whole[rng.randrange(8000)] ^= 1 << rng.randrange(8)
            return bytes(whole)
        file = File()
        file.change = flip
        yield f"flip-{seed}", file


KINDS = (hyper_parameters, weights, vocabularies, templates, shapes, extras, damaged)


class Trial:
    def __init__(self, binary, factor):
        self.binary, self.factor = binary, factor
        self.rows = []  # (seconds, name, command, status)
        self.wrong = []

    def run(self, name, path, bound):
        for command, more, given in (("run", ["-p", "ab"], b""), ("chat", [], b"ab\ncd\n")):
            limits = None
            if self.factor == 1:
                limits = lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            child = subprocess.Popen([self.binary, command, path, *more, "-n", "4", "-t", "1", "--seed", "1", "--device",
                                      "cpu"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                     preexec_fn=limits)
            try:
                out, err = child.communicate(given, timeout=WALL_SECONDS * self.factor)
            except subprocess.TimeoutExpired:
                child.send_signal(signal.SIGKILL)
                out, err = child.communicate()
            yield command, child.returncode, out, err

    def judge(self, name, path, bound):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        for command, status, out, err in self.run(name, path, bound):
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            took = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            before = after
            self.rows.append((took, name, command, status))
            message = err.decode(errors="replace")
            why = None
            if status not in (0, 1):
                why = f"ended with {status}"
            elif took > bound * self.factor:
                why = f"took {took:.1f} s of processor time, {bound * self.factor:.1f} are allowed"
            elif status == 1 and not message.strip():
                why = "failed without a message"
            elif re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", message):
                why = "put control characters into a message"
            elif len(message) > 4000:
                why = f"said {len(message)} characters"
            if why:
                self.wrong.append(f"{name}: {command} {why}: {message[-300:]!r}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("--sanitized", action="store_true")
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("names", nargs="*")
    asked = parser.parse_args()
    trial, begun, n_files, n_kinds = Trial(asked.binary, 10 if asked.sanitized else 1), time.monotonic(), 0, {}
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "hostile.gguf"
        File().write(path)
        trial.judge("good", path, SECONDS)
        if [row[3] for row in trial.rows] != [0, 0]:
            sys.exit(f"the good file was refused: {trial.wrong}")
        for kind in KINDS:
            for rest, file in kind():
                name = f"{kind.__name__}/{rest}"
                if asked.names and not any(part in name for part in asked.names):
                    continue
                n_files += 1
                if asked.sanitized and n_files % 4 != 0:
                    continue
                file.write(path)
                if asked.keep:
                    asked.keep.mkdir(exist_ok=True)
                    (asked.keep / (re.sub(r"[^\w.-]+", "_", name)[:100] + ".gguf")).write_bytes(path.read_bytes())
                trial.judge(name, path, TEMPLATE_SECONDS if kind is templates else SECONDS)
                n_kinds[kind.__name__] = n_kinds.get(kind.__name__, 0) + 1
    refused = sum(row[3] == 1 for row in trial.rows)
    print(f"{sum(n_kinds.values())} files ({', '.join(f'{n} {kind}' for kind, n in n_kinds.items())}), "
          f"{len(trial.rows)} runs, {refused} refused, {time.monotonic() - begun:.0f} s; the slowest:")
    for took, name, command, status in sorted(trial.rows, reverse=True)[:8]:
        print(f"  {took:5.2f} s  {command} {name}: {status}")
    for line in trial.wrong:
        print("FAILED", line)
    sys.exit(1 if trial.wrong else 0)


main()
