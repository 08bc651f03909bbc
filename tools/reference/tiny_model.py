#!/usr/bin/env python3
"""Makes a tiny random model of another family out of one that is there.

usage: tiny_model.py FROM.gguf OUT.gguf ARCHITECTURE [--set KEY=VALUE]... [--drop NAME]... [--add NAME=DIM[,DIM]]...

Keys of FROM's architecture become keys of ARCHITECTURE; KEY is without that prefix, VALUE is true, false, a whole number
or one with a point. --drop takes a key or a tensor, --add a tensor of F32; {i} in a tensor's name stands for every layer.
Added tensors are random, so that each of them matters: norms near 1, biases small, others as large as keeps values alike.
"""
import argparse
import random
import struct

SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY, ALIGNMENT = 8, 9, 32


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, n):
        self.at += n
        return self.data[self.at - n:self.at]

    def number(self, form):
        return struct.unpack("<" + form, self.take(struct.calcsize("<" + form)))[0]

    def text(self):
        return self.take(self.number("Q"))

    def skip_value(self, kind):
        if kind == STRING:
            self.text()
        elif kind == ARRAY:
            inner, n = self.number("I"), self.number("Q")
            for _ in range(n):
                self.skip_value(inner)
        else:
            self.take(struct.calcsize("<" + SCALARS[kind]))

    def raw_value(self):
        start = self.at
        self.skip_value(self.number("I"))
        return self.data[start:self.at]


def string(text):
    return struct.pack("<Q", len(text)) + text


def value(text):
    if text in ("true", "false"):
        return struct.pack("<I?", 7, text == "true")
    try:
        return struct.pack("<Ii", 4, int(text))
    except ValueError:
        return struct.pack("<If", 6, float(text))


def padded(data):
    return data + bytes(-len(data) % ALIGNMENT)


def random_tensor(rng, name, dims):
    n = 1
    for d in dims:
        n *= d
    if name.endswith("norm.weight"):
        values = [rng.gauss(1, 0.1) for _ in range(n)]
    elif name.endswith(".bias"):
        values = [rng.gauss(0, 0.1) for _ in range(n)]
    else:
        values = [rng.gauss(0, 1.5 / dims[0] ** 0.5) for _ in range(n)]
    return struct.pack(f"<{n}f", *values)


def read(path):
    """The keys as raw values, and the tensors as (dims, type, bytes), in the file's order."""
    r = Reader(open(path, "rb").read())
    magic, _, n_tensors, n_keys = r.take(4), r.number("I"), r.number("Q"), r.number("Q")
    assert magic == b"GGUF"
    keys = {}
    for _ in range(n_keys):
        name = r.text().decode()
        keys[name] = r.raw_value()
    infos = []
    for _ in range(n_tensors):
        name = r.text().decode()
        dims = [r.number("Q") for _ in range(r.number("I"))]
        infos.append((name, dims, r.number("I"), r.number("Q")))
    start = r.at + -r.at % ALIGNMENT
    ends = sorted([o for *_, o in infos] + [len(r.data) - start])
    tensors = {}
    for name, dims, kind, offset in infos:
        end = ends[ends.index(offset) + 1]
        tensors[name] = (dims, kind, r.data[start + offset:start + end])
    return keys, tensors


def write(path, keys, tensors):
    header = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys))
    for name, raw in keys.items():
        header += string(name.encode()) + raw
    offset = 0
    for name, (dims, kind, data) in tensors.items():
        header += string(name.encode()) + struct.pack("<I", len(dims)) + struct.pack(f"<{len(dims)}Q", *dims)
        header += struct.pack("<IQ", kind, offset)
        offset += len(padded(data))
    with open(path, "wb") as f:
        f.write(padded(header))
        for _, _, data in tensors.values():
            f.write(padded(data))


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    for name in ("source", "out", "architecture"):
        parser.add_argument(name)
    for name in ("--set", "--drop", "--add"):
        parser.add_argument(name, action="append", default=[])
    args = parser.parse_args()
    keys, tensors = read(args.source)
    old = keys["general.architecture"][12:].decode()
    keys = {(args.architecture + k[len(old):] if k.startswith(old + ".") else k): v for k, v in keys.items()}
    keys["general.architecture"] = struct.pack("<I", STRING) + string(args.architecture.encode())
    n_layers = struct.unpack("<I", keys[f"{args.architecture}.block_count"][4:])[0]

    def each_layer(name):
        return [name.replace("{i}", str(i)) for i in range(n_layers)] if "{i}" in name else [name]

    for entry in args.set:
        name, _, text = entry.partition("=")
        keys[f"{args.architecture}.{name}"] = value(text)
    for entry in args.drop:
        for name in each_layer(entry):
            if not (keys.pop(f"{args.architecture}.{name}", None) or tensors.pop(name, None)):
                parser.error(f"there is no '{name}' to drop")
    rng = random.Random(args.architecture)
    for entry in args.add:
        name, _, dims = entry.partition("=")
        for one in each_layer(name):
            shape = [int(d) for d in dims.split(",")]
            tensors[one] = (shape, 0, random_tensor(rng, one, shape))
    write(args.out, keys, tensors)


if __name__ == "__main__":
    main()
