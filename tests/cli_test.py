#!/usr/bin/env python3
"""The rocmforge command from outside: what it prints, where, and how it exits.

Usage: cli_test.py BINARY [--sanitized]   (sanitizers cost time and memory, so limits on those are not checked)
"""
import gzip
import hashlib
import json
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

BINARY = None
SANITIZED = False
GOOD, FAILED, BAD_USAGE, UNUSED_GPU = 0, 1, 2, 3


def run(*args, env=None, **kwargs):
    if "input" not in kwargs:
        kwargs["stdin"] = subprocess.DEVNULL
    return subprocess.run([BINARY, *map(str, args)], capture_output="stdout" not in kwargs, timeout=60,
                          env={**os.environ, **(env or {})}, **kwargs)


class CliTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name)

    def good(self, *args, **kwargs):
        done = run(*args, **kwargs)
        self.assertEqual((done.returncode, done.stderr), (GOOD, b""), args)
        return done.stdout.decode()

    def bad(self, code, *args, says="", **kwargs):
        """Exits with `code`, nothing on stdout, one line on stderr that contains `says`."""
        done = run(*args, **kwargs)
        text = done.stderr.decode()
        self.assertEqual((done.returncode, done.stdout), (code, b""), (args, text))
        self.assertRegex(text, r"\Arocmforge: [^\n]+\n\Z")
        self.assertIn(says, text)

    def synth(self, mix="Q4_K_M", shape="tiny", name="model.gguf"):
        self.good("synth", shape, mix, self.path / name, "--sparse", "--overwrite")
        return self.path / name


class Usage(CliTest):
    def test_help_and_version_go_to_stdout(self):
        text = self.good("--help")
        for command in ("inspect", "quantize", "synth", "tokenize", "detokenize", "render"):
            self.assertIn(command, text)
            self.assertIn("Usage:", self.good(command, "--help"))
        self.assertRegex(self.good("--version"), r"^rocmforge \d+\.\d+\.\d+(-dev|\+\d+)? \(([0-9a-f]{10,}|unknown)\)\n"
                                                 r"modules: (none|hip|cuda|hip, cuda)( \([^\n]+\))?\n$")
        for word in ("version", "-v"):
            self.assertEqual(self.good(word), self.good("--version"))
        self.assertEqual(self.good("help"), self.good("--help"))
        self.assertIn("ROCMFORGE_LOG", text)

    def test_help_tells_the_truth(self):
        types = self.good("quantize", "--help")
        self.assertIn("Q4_K_M", types)
        self.assertNotIn("IQ2_XXS", types)
        self.assertNotIn("the bundled one", self.good("detokenize", "--help"))
        self.bad(BAD_USAGE, "--hlep", says="did you mean --help?")
        self.bad(FAILED, "tokenize", "Once upon a time", says="a text comes after the model")

    def test_bad_usage_exits_2(self):
        self.bad(BAD_USAGE)
        self.bad(BAD_USAGE, "dance", says="'dance' is no command")
        self.bad(BAD_USAGE, "inspect", "--loudly", says="--loudly")
        self.bad(BAD_USAGE, "inspect", "a", "b", says="see rocmforge inspect --help")
        self.bad(BAD_USAGE, "synth", says="SHAPE")
        self.bad(BAD_USAGE, "synth", "tiny", "Q4_K_M", says="OUT")
        self.bad(BAD_USAGE, "synth", "huge", "Q4_K_M", self.path / "x", says="'huge' is no shape")
        self.bad(BAD_USAGE, "synth", "tiny", "Q9_Z", self.path / "x", says="'Q9_Z' is no type")
        self.bad(BAD_USAGE, "quantize", "a", "b", says="TYPE")
        self.bad(BAD_USAGE, "quantize", "a", "b", "Q9_Z", says="'Q9_Z' is no type")
        self.bad(BAD_USAGE, "quantize", "a", "b", "Q4_0", "-t", "0", says="--threads")
        self.bad(BAD_USAGE, "synth", "tiny", "Q4_0", self.path / "x", "--seed", "x", says="--seed")


class Output(CliTest):
    def test_a_full_disk_is_an_error(self):
        with open("/dev/full", "wb") as full:
            done = run("inspect", self.synth(), stdout=full, stderr=subprocess.PIPE)
        self.assertEqual(done.returncode, FAILED)
        self.assertIn(b"No space left", done.stderr)

    def test_a_reader_that_leaves_ends_the_command_quietly(self):
        model = self.synth()
        read_end, write_end = os.pipe()
        os.close(read_end)
        with os.fdopen(write_end, "wb") as pipe:
            done = run("inspect", model, stdout=pipe, stderr=subprocess.PIPE)
        self.assertEqual((done.returncode, done.stderr), (FAILED, b""))

    def test_a_closed_stdout_is_an_error_and_no_other_file_takes_its_place(self):
        model, out = self.synth(), self.path / "out.gguf"
        for command in (f'"{BINARY}" inspect "{model}"', f'"{BINARY}" synth tiny Q4_0 "{out}"'):
            done = subprocess.run(["sh", "-c", command + " >&-"], capture_output=True, timeout=60)
            self.assertEqual(done.returncode, FAILED)
            self.assertIn(b"standard output", done.stderr)
        self.good("inspect", out)

    def test_all_streams_closed_does_no_harm(self):
        command = f'"{BINARY}" inspect "{self.synth()}" <&- >&- 2>&-'
        self.assertEqual(subprocess.run(["sh", "-c", command], timeout=60).returncode, FAILED)


class Files(CliTest):
    def test_what_is_no_model_file_is_refused(self):
        empty, pipe, text = self.path / "empty.gguf", self.path / "pipe.gguf", self.path / "text.gguf"
        empty.touch()
        os.mkfifo(pipe)
        text.write_text("Once upon a time there was a file that was no model.\n" * 10)
        self.bad(FAILED, "inspect", self.path / "missing.gguf", says="missing.gguf")
        self.bad(FAILED, "inspect", empty, says="is empty")
        self.bad(FAILED, "inspect", self.path, says="is a directory")
        self.bad(FAILED, "inspect", pipe, says="is a named pipe")
        self.bad(FAILED, "inspect", "/dev/zero", says="is a device")
        self.bad(FAILED, "inspect", text, says="magic")

    def test_a_truncated_model_is_refused(self):
        model = self.synth()
        os.truncate(model, 1000)
        self.bad(FAILED, "inspect", model)
        model = self.synth()
        os.truncate(model, model.stat().st_size // 2)
        self.bad(FAILED, "inspect", model, says="incomplete download")

    def test_a_mixture_of_experts_says_what_a_token_uses(self):
        model = self.synth(shape="qwen3-30b-a3b")
        report = json.loads(self.good("inspect", model, "--json"))
        self.assertEqual(round(report["n_parameters"] / 1e9, 1), 30.5)
        self.assertEqual(round(report["n_active_parameters"] / 1e9, 1), 3.4)
        self.assertRegex(self.good("inspect", model), r"parameters +30\.5 B, 3\.3\d B for a token")
        report = json.loads(self.good("inspect", self.synth(), "--json"))
        self.assertEqual(report["n_parameters"], report["n_active_parameters"])

    def test_control_characters_in_a_file_do_not_reach_messages(self):
        model = self.synth()
        model.write_bytes(model.read_bytes().replace(b"\x05\0\0\0\0\0\0\0llama", b"\x05\0\0\0\0\0\0\0\x1b]0;x", 1))
        done = run("run", model, "-n", "1")
        self.assertEqual(done.returncode, FAILED)
        self.assertNotIn(b"\x1b", done.stderr)
        self.assertIn(rb"\x1b]0;x", done.stderr)

    def test_models_are_found_by_name(self):
        models = self.path / "models"
        models.mkdir()
        self.synth(name="models/story.gguf")
        env = {"ROCMFORGE_MODELS": str(models)}
        for name in ("story", "story.gguf"):
            self.assertIn("synth-tiny", self.good("inspect", name, env=env, cwd=self.path))
        self.bad(FAILED, "inspect", "saga", env=env, cwd=self.path, says="no model of that name in '%s'" % models)
        homeless = {"HOME": "", "ROCMFORGE_MODELS": ""}
        hint = "there is no models directory: set ROCMFORGE_MODELS or HOME"
        self.bad(FAILED, "inspect", "saga", env=homeless, cwd=self.path, says=hint)
        done = run("models", env=homeless, cwd=self.path)
        self.assertEqual(done.returncode, 0)
        self.assertIn(hint, done.stderr.decode())
        self.assertIn("is no directory", run("doctor", env={"ROCMFORGE_MODELS": str(self.path / "none")}).stdout.decode())
        home = {"HOME": str(self.path), "ROCMFORGE_MODELS": ""}
        self.synth(name="here.gguf")
        (self.path / ".local/share/rocmforge").mkdir(parents=True)
        models.rename(self.path / ".local/share/rocmforge/models")
        self.assertIn("synth-tiny", self.good("inspect", "story", env=home, cwd=self.path))
        self.assertIn("synth-tiny", self.good("inspect", "here.gguf", env=home, cwd=self.path))


class BundledModel(CliTest):
    def test_is_found_around_the_binary(self):
        model = self.synth()
        binary = self.path / "usr/build/release/rocmforge"
        binary.parent.mkdir(parents=True)
        shutil.copy(BINARY, binary)
        command = [binary, "inspect"]
        missing = subprocess.run(command, capture_output=True, timeout=60)
        self.assertEqual(missing.returncode, FAILED)
        self.assertIn(b"no model was given", missing.stderr)
        for place in ("usr/build/release/models", "usr/models", "usr/build/share/rocmforge/models"):
            folder = self.path / place
            folder.mkdir(parents=True)
            bundled = shutil.copy(model, folder / "story-q4_k_m.gguf")
            done = subprocess.run(command, capture_output=True, timeout=60, text=True)
            self.assertEqual(done.returncode, GOOD, done.stderr)
            self.assertTrue(done.stdout.startswith(str(bundled) + "\n"), done.stdout)
            shutil.rmtree(folder)

    def test_is_what_its_card_says(self):
        models = pathlib.Path(__file__).resolve().parent.parent / "models"
        story = models / "story-q4_k_m.gguf"
        self.assertIn(hashlib.sha256(story.read_bytes()).hexdigest(), (models / "README.md").read_text())
        report = json.loads(self.good("inspect", story, "--json"))
        self.assertEqual((report["quantization"], report["context_length"]), ("Q4_K_M", 1024))
        self.assertEqual(round(report["n_parameters"] / 1e6, 1), 20.2)

    def test_is_what_quantize_makes_of_the_trained_weights(self):
        root = pathlib.Path(__file__).resolve().parent.parent
        packed = root.parent / "shared/demo/story-f16.gguf.gz"
        if not packed.exists():
            self.skipTest("the trained weights are not beside the checkout")
        source, out = self.path / "f16.gguf", self.path / "out.gguf"
        source.write_bytes(gzip.decompress(packed.read_bytes()))
        self.good("quantize", source, out, "Q4_K_M")
        self.assertTrue(out.read_bytes() == (root / "models/story-q4_k_m.gguf").read_bytes())


class Inspect(CliTest):
    def test_text(self):
        text = self.good("inspect", self.synth())
        for fact in ("architecture  llama", "quantization  Q4_K_M", "context       2048 tokens", "bits per weight",
                     "llama.block_count", "… 2048 in all"):
            self.assertIn(fact, text)
        self.assertNotIn("blk.3.ffn_down.weight", text)
        self.assertRegex(self.good("inspect", self.synth(), "--tensors"),
                         r"blk\.3\.ffn_down\.weight +q6_k +768 x 256 +\d+ KiB")

    def test_json(self):
        model = self.synth()
        report = json.loads(self.good("inspect", model, "--json"))
        self.assertEqual(report["path"], str(model))
        self.assertEqual(report["architecture"], "llama")
        self.assertEqual(report["context_length"], 2048)
        self.assertEqual(report["file_bytes"], model.stat().st_size)
        self.assertEqual(report["metadata"]["llama.attention.head_count"], 8)
        self.assertEqual(report["metadata"]["tokenizer.ggml.tokens"]["n"], 2048)
        tensors = {t["name"]: t for t in report["tensors"]}
        self.assertEqual(tensors["token_embd.weight"]["type"], "q6_k")
        self.assertEqual(tensors["token_embd.weight"]["dims"], [256, 2048])
        self.assertEqual(report["weight_bytes"], sum(t["n_bytes"] for t in report["tensors"]))
        self.assertEqual(report["n_parameters"], sum(t["n_parameters"] for t in report["types"].values()))
        self.assertAlmostEqual(report["bits_per_weight"], 8 * report["weight_bytes"] / report["n_parameters"])

    def test_control_characters_in_a_file_do_not_reach_the_terminal(self):
        model = self.synth()
        data = model.read_bytes()
        model.write_bytes(data.replace(b"synth-tiny", b"\x1b]0;ha\x07\nXY", 1))
        text = self.good("inspect", model)
        self.assertNotIn("\x1b", text)
        self.assertIn(r"\x1b]0;ha\x07\nXY", text)
        self.assertEqual(json.loads(self.good("inspect", model, "--json"))["name"], "\x1b]0;ha\x07\nXY")


class Opening(CliTest):
    @staticmethod
    def write_sparse_model(path, n_tensors, rows):
        """n_tensors of rows x 8192 in Q4_K; returns the file's size."""
        def text(t):
            return struct.pack("<Q", len(t)) + t.encode()
        tensor_bytes = rows * 8192 // 256 * 144
        header = b"GGUF" + struct.pack("<IQQ", 3, n_tensors, 1)
        header += text("general.architecture") + struct.pack("<I", 8) + text("llama")
        for i in range(n_tensors):
            header += text(f"blk.{i}.ffn_up.weight") + struct.pack("<IQQIQ", 2, 8192, rows, 12, i * tensor_bytes)
        header += bytes(-len(header) % 32)
        path.write_bytes(header)
        os.truncate(path, len(header) + n_tensors * tensor_bytes)
        return path.stat().st_size

    def test_a_model_of_40_gb_opens_in_milliseconds_and_megabytes(self):
        model = self.path / "large.gguf"
        self.assertGreater(self.write_sparse_model(model, 1000, 8704), 40e9)
        # Asked of a small process: a child's peak begins with that of the one it was forked from.
        measure = ("import os, subprocess, sys; p = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL); "
                   "_, status, u = os.wait4(p.pid, 0); print(status, u.ru_maxrss, u.ru_utime + u.ru_stime)")
        done = subprocess.run([sys.executable, "-c", measure, BINARY, "inspect", model], capture_output=True, timeout=60)
        status, peak_kib, cpu_seconds = map(float, done.stdout.split())
        self.assertEqual(status, GOOD)
        if not SANITIZED:
            self.assertLess(peak_kib, 50e6 / 1024)
            self.assertLess(cpu_seconds, 0.05)  # its own time: waiting for a core is not its fault


class Synth(CliTest):
    def test_reports_and_writes(self):
        out = self.path / "m.gguf"
        self.assertIn("tiny in Q8_0", self.good("synth", "tiny", "q8_0", out))
        report = json.loads(self.good("synth", "tiny", "Q4_0", out, "--json", "--pure", "--seed", "7", "--overwrite"))
        self.assertEqual(report["file_bytes"], out.stat().st_size)
        self.assertEqual(set(json.loads(self.good("inspect", out, "--json"))["types"]), {"f32", "q4_0"})

    def test_writes_to_a_device(self):
        self.good("synth", "llama-1b", "Q4_K_M", "/dev/null")

    def test_an_output_that_cannot_be_written_fails(self):
        self.bad(FAILED, "synth", "tiny", "Q4_0", self.path / "missing" / "m.gguf", says="missing/m.gguf")
        self.bad(FAILED, "synth", "tiny", "Q4_0", "/dev/full", says="No space left")
        self.bad(FAILED, "synth", "tiny", "Q4_0", self.path, says="is a directory")
        self.assertEqual(list(self.path.iterdir()), [])


class Quantize(CliTest):
    def test_writes_the_mix(self):
        source, out = self.path / "f16.gguf", self.path / "out.gguf"
        self.good("synth", "tiny", "F16", source)
        self.assertIn("29 of 38 tensors converted", self.good("quantize", source, out, "q4_k_m"))
        types = json.loads(self.good("inspect", out, "--json"))["types"]
        self.assertEqual(set(types), {"f32", "q4_k", "q6_k"})
        report = json.loads(self.good("quantize", source, out, "Q4_K", "--pure", "--json", "-t", "2", "--overwrite"))
        self.assertEqual(report["n_converted"], 29)
        self.assertLess(report["relative_error"], 0.1)
        inspected = json.loads(self.good("inspect", out, "--json"))
        self.assertEqual(set(inspected["types"]), {"f32", "q4_k"})
        self.assertEqual(inspected["weight_bytes"], report["bytes_after"])

    def test_the_input_is_never_the_output(self):
        source = self.synth("F16")
        link, hard = self.path / "link.gguf", self.path / "hard.gguf"
        link.symlink_to(source)
        os.link(source, hard)
        before = source.read_bytes()
        for out in (source, link, hard):
            for flags in ((), ("--overwrite",)):
                self.bad(FAILED, "quantize", source, out, "Q4_0", *flags, says="is the input")
        self.assertEqual(source.read_bytes(), before)

    def test_an_existing_file_is_replaced_only_when_asked(self):
        source, out = self.synth("F16"), self.path / "out.gguf"
        out.write_text("precious")
        self.bad(FAILED, "quantize", source, out, "Q4_0", says="exists already; --overwrite replaces it")
        self.bad(FAILED, "synth", "tiny", "Q4_0", out, says="exists already; --overwrite replaces it")
        self.assertEqual(out.read_text(), "precious")
        self.good("quantize", source, out, "Q4_0", "--overwrite")
        self.good("inspect", out)

    def test_a_signal_leaves_nothing_behind(self):
        source = self.synth("F16", shape="llama-1b")
        out = self.path / "out.gguf"
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL):
            out.write_text("before")
            process = subprocess.Popen([BINARY, "quantize", str(source), str(out), "Q4_K_M", "--overwrite"],
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                       preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
            while process.poll() is None and not self.is_writing(process):
                time.sleep(0.01)
            process.send_signal(number)
            self.assertEqual(process.wait(60), -number)
            self.assertEqual(out.read_text(), "before")
            left = set(self.path.iterdir()) - {source, out}
            if number == signal.SIGKILL:  # a file system without O_TMPFILE keeps what a killed process wrote
                left = {file for file in left if file.suffix != ".part"}
            self.assertEqual(left, set())

    def is_writing(self, process):
        names = []
        for fd in pathlib.Path(f"/proc/{process.pid}/fd").iterdir():
            try:
                names.append(os.readlink(fd))
            except OSError:  # closed meanwhile
                pass
        return any(name.startswith(str(self.path)) and name.endswith(("(deleted)", ".part")) for name in names)

    def test_quantized_weights_only_when_allowed(self):
        source, out = self.synth("Q8_0"), self.path / "out.gguf"
        self.bad(FAILED, "quantize", source, out, "Q4_0", says="--allow-requantize")
        self.assertFalse(out.exists())
        self.good("quantize", source, out, "Q4_0", "--allow-requantize")

    def test_failures_leave_nothing_behind(self):
        source = self.synth("F16")
        self.bad(FAILED, "quantize", self.path / "missing.gguf", self.path / "out.gguf", "Q4_0", says="missing.gguf")
        self.bad(FAILED, "quantize", source, self.path / "no" / "out.gguf", "Q4_0", says="no/out.gguf")
        self.bad(FAILED, "quantize", source, "/dev/full", "Q4_0", says="No space left")
        self.bad(FAILED, "quantize", source, self.path / "out.gguf", "IQ1_S", says="no encoder")
        self.assertEqual(list(self.path.iterdir()), [source])


class Tokens(CliTest):
    TEXT = "Once upon a time, \u00e9\u4e16\U0001f600 <s> <|im_end|>!\n\n  the end\n"

    def models(self):
        return [self.synth(name="spm.gguf"), self.synth(shape="qwen2-0.5b", name="bpe.gguf")]

    def test_text_survives_the_way_there_and_back(self):
        file = self.path / "text.txt"
        file.write_text(self.TEXT, encoding="utf-8")
        for model in self.models():
            ids = self.good("tokenize", model, self.TEXT)
            self.assertRegex(ids, r"^\d+( \d+)*\n$")
            self.assertEqual(self.good("detokenize", model, *ids.split()), self.TEXT)
            self.assertEqual(self.good("detokenize", model, ids.strip().replace(" ", ",")), self.TEXT)
            # By line: each with its newline, so the lines together are the text again.
            lines = self.good("tokenize", model, "--file", file)
            self.assertEqual(lines.count("\n"), self.TEXT.count("\n"))
            self.assertEqual(run("detokenize", model, input=lines.encode()).stdout.decode(), self.TEXT)
            piped = run("tokenize", model, input=self.TEXT.encode())
            self.assertEqual(piped.stdout.decode(), ids)

    def test_control_tokens_and_bos_only_when_asked(self):
        spm, bpe = self.models()
        self.assertNotIn("1", self.good("tokenize", spm, "a<s>").split())
        self.assertIn("1", self.good("tokenize", spm, "a<s>", "--special").split())
        self.assertEqual(self.good("tokenize", spm, "a", "--bos"), "1 " + self.good("tokenize", spm, "a"))
        self.assertNotIn("151645", self.good("tokenize", bpe, "a<|im_end|>").split())
        ids = self.good("tokenize", bpe, "a<|im_end|>", "--special").split()
        self.assertEqual(ids[-1], "151645")
        self.assertEqual(self.good("detokenize", bpe, *ids), "a")
        self.assertEqual(self.good("detokenize", bpe, *ids, "--special"), "a<|im_end|>")

    def test_json(self):
        report = json.loads(self.good("tokenize", self.synth(), "in a b", "--json", "--bos"))
        self.assertEqual(report["ids"][0], 1)
        self.assertEqual(len(report["ids"]), len(report["pieces"]))
        self.assertEqual("".join(report["pieces"][1:]), " in a b")

    def test_empty_input_is_no_line(self):
        model, file = self.synth(), self.path / "empty.txt"
        file.write_bytes(b"")
        self.assertEqual(self.good("tokenize", model, "--file", file), "")
        self.assertEqual(self.good("tokenize", model, ""), "\n")
        self.assertEqual(self.good("tokenize", model, "--file", "-"), "")
        self.assertEqual(self.good("detokenize", model), "")

    def test_bad_ids_and_missing_files(self):
        model = self.synth()
        self.bad(BAD_USAGE, "detokenize", model, "1", "x", says="IDS")
        self.bad(BAD_USAGE, "tokenize", model, "text", "--file", "also", says="--file")
        self.bad(FAILED, "detokenize", model, "2048", says="2048")
        self.bad(FAILED, "detokenize", model, "--", "-1")
        self.bad(FAILED, "detokenize", model, input=b"5 x 6\n", says="'x' is no token id")
        self.bad(FAILED, "tokenize", model, "--file", self.path / "missing", says="missing")
        self.bad(FAILED, "tokenize", self.path / "missing.gguf", "text", says="missing.gguf")


class Render(CliTest):
    def render(self, template, context):
        (self.path / "t.jinja").write_text(template, encoding="utf-8")
        (self.path / "c.json").write_text(context, encoding="utf-8")
        return "render", "--template", self.path / "t.jinja", "--context", self.path / "c.json"

    def test_prints_exactly_what_the_template_gives(self):
        args = self.render("{{ bos }}{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}",
                           '{"bos": "<s>", "messages": [{"role": "user", "content": "h\u00e9"}]}')
        self.assertEqual(self.good(*args), "<s>[user] h\u00e9\n")
        self.assertEqual(self.good(*self.render("", "{}")), "")
        args = self.render("{{ strftime_now('%d %b %Y') }}", "{}")
        self.assertEqual(self.good(*args, "--now", "2026-01-02 03:04:05"), "02 Jan 2026")

    def test_errors_say_line_and_column(self):
        self.bad(FAILED, *self.render("a\n{{ raise_exception('no system role') }}", "{}"), says="line 2, column")
        self.bad(FAILED, *self.render("a\nb {{ }", "{}"), says="line 2, column")
        self.bad(FAILED, *self.render("x", "{"), says="c.json")
        self.bad(FAILED, *self.render("x", "[1]"), says="a context is a JSON object")
        self.bad(FAILED, *self.render("x", "{}"), "--now", "today", says="today")
        self.bad(FAILED, "render", "--template", self.path / "none", "--context", self.path / "c.json", says="none")
        self.bad(FAILED, "render", "--template", self.path / "t.jinja", "--context", self.path / "none", says="none")
        self.bad(BAD_USAGE, "render", "model", says="--context")
        self.bad(BAD_USAGE, *self.render("x", "{}"), "model", says="--template")

    def test_a_models_own_template(self):
        story = pathlib.Path(__file__).resolve().parent.parent / "models" / "story-q4_k_m.gguf"
        context = self.path / "c.json"
        context.write_text('{"messages": [{"role": "user", "content": "Once"}, {"role": "user", "content": " upon"}]}')
        # The newline of this template stands right after a block tag, and such newlines are trimmed.
        self.assertEqual(self.good("render", story, "--context", context), "Once upon")

    def test_a_model_without_a_template_gets_one_that_fits_and_says_so(self):
        context = self.path / "c.json"
        context.write_text('{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}')
        chatml = "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n"
        for shape, expected in (("tiny", "a\n\nb"), ("qwen2-0.5b", chatml)):
            done = run("render", self.synth(shape=shape), "--context", context)
            self.assertEqual((done.returncode, done.stdout.decode()), (GOOD, expected))
            self.assertIn(b"template", done.stderr)


if __name__ == "__main__":
    BINARY = os.path.abspath(sys.argv.pop(1))
    if "--sanitized" in sys.argv:
        sys.argv.remove("--sanitized")
        SANITIZED = True
    unittest.main()
