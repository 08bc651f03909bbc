#!/usr/bin/env python3
"""The commands that run a model, from outside. Usage: engine_cli_test.py BINARY [--sanitized]"""
import json
import math
import os
import pathlib
import re
import sys
import tempfile
import unittest

import cli_test
from cli_test import BAD_USAGE, FAILED, GOOD, CliTest, run

ROOT = pathlib.Path(__file__).resolve().parent.parent
STORY = ROOT / "models" / "story-q4_k_m.gguf"
TINY = ROOT / "tests" / "data" / "logits" / "llama@384-64-128-2-1-32-2.gguf"


class Run(CliTest):
    def test_writes_a_story_with_the_bundled_model(self):
        text = self.good("run", "-p", "Once upon a time", "-n", 40, "--temp", 0)
        self.assertGreater(len(text.split()), 10)
        self.assertEqual(text, self.good("run", STORY, "-p", "Once upon a time", "-n", 40, "--temp", 0))

    def test_lazy_and_eager_and_any_threads_write_the_same(self):
        texts = {self.good("run", "-n", 30, "--temp", 0, *flags)
                 for flags in ((), ("--load", "eager"), ("-t", 1), ("--load", "eager", "-t", 3), ("--seed", 9))}
        self.assertEqual(len(texts), 1)

    def test_with_too_little_memory_it_writes_the_same(self):
        flags = ("--device", "cpu", "-t", 2, "-c", 256)
        self.bad(FAILED, "plan", STORY, *flags, "--ram", "4M", says="needed even with every layer streamed")
        self.bad(BAD_USAGE, "run", STORY, "--ram", "much", says="--ram")
        # The program itself takes a part, so what is enough is found by trying. That part is not the same in every run:
        # half a megabyte was missing once.
        least = 2 + next(size for size in range(8, 4000, 2)
                         if run("plan", STORY, *flags, "--ram", f"{size}M").returncode == GOOD)
        report = [json.loads(self.good("run", STORY, *flags, "-n", 30, "--temp", 0, "--ignore-eos", "--json", *ram))
                  for ram in ((), ("--ram", f"{least}M"), ("--ram", f"{least}M", "--load", "eager"))]
        self.assertEqual({r["text"] for r in report}, {report[0]["text"]})
        self.assertGreater(report[1]["read_bytes"], 5 * report[0]["read_bytes"])

    def test_a_seed_repeats_and_another_differs(self):
        def say(seed):
            return self.good("run", "-n", 30, "--temp", 1.2, "--seed", seed)
        self.assertEqual(say(1), say(1))
        self.assertNotEqual(say(1), say(2))

    def test_without_a_seed_texts_differ_and_stats_name_the_seed(self):
        texts = {self.good("run", "-n", 30, "--temp", 1.5) for _ in range(4)}
        self.assertGreater(len(texts), 1)
        done = run("run", "-n", 30, "--temp", 1.5, "--stats")
        seed = re.search(rb"; seed (\d+)", done.stderr).group(1).decode()
        self.assertEqual(done.stdout.decode(), self.good("run", "-n", 30, "--temp", 1.5, "--seed", seed))

    def test_a_prompt_after_the_model_and_piped_text(self):
        flags = ("-n", 10, "--temp", 0)
        expected = self.good("run", "-p", "The old man", *flags)
        self.assertEqual(expected, self.good("run", STORY, "The old man", *flags))
        self.assertEqual(expected, self.good("run", *flags, input=b"The old man\n"))
        self.assertEqual(expected, self.good("run", "-p", "The old man", *flags, input=b"not read"))
        self.assertEqual(self.good("run", "-p", "The\nold man", *flags), self.good("run", STORY, "The", *flags, input=b"old man"))
        self.assertEqual(self.good("run", *flags), self.good("run", *flags, input=b""))

    def test_the_bundled_model_has_a_name(self):
        empty = {"ROCMFORGE_MODELS": str(self.path)}
        for name in ("story-q4_k_m", "story-q4_k_m.gguf"):
            self.good("run", name, "-n", 1, env=empty)
            self.good("tokenize", name, "text", env=empty)

    def test_json(self):
        report = json.loads(self.good("run", "-n", 12, "--temp", 0, "--ignore-eos", "--json"))
        self.assertEqual((len(report["tokens"]), report["finish_reason"]), (12, "length"))
        self.assertGreater(report["loaded_bytes"], 11_000_000)

    def test_a_stop_string_ends_the_text_before_it(self):
        whole = self.good("run", "-n", 40, "--temp", 0)
        stop = whole.split()[6]
        report = json.loads(self.good("run", "-n", 40, "--temp", 0, "--stop", stop, "--json"))
        self.assertEqual(report["finish_reason"], "stop")
        self.assertNotIn(stop, report["text"])
        self.assertTrue(whole.startswith(report["text"]))

    def test_a_prompt_from_a_file_or_a_pipe(self):
        (self.path / "p").write_text("The old man")
        expected = self.good("run", "-p", "The old man", "-n", 10, "--temp", 0)
        self.assertEqual(expected, self.good("run", "-f", self.path / "p", "-n", 10, "--temp", 0))
        self.assertEqual(expected, self.good("run", "-f", "-", "-n", 10, "--temp", 0, input=b"The old man"))

    def test_what_cannot_be_is_said(self):
        self.bad(FAILED, "run", "-p", "word " * 3000, says="does not fit the context of 1024")
        self.bad(FAILED, "run", "-c", 4096, says="trained for 1024")
        self.bad(FAILED, "run", "--device", "elephant", says="elephant")
        self.bad(FAILED, "run", "--temp", "nan", says="temperature")
        self.bad(FAILED, "run", "--top-p", 1.5, says="top_p")
        self.bad(BAD_USAGE, "run", "--load", "later", says="--load: 'later' is none of: eager, lazy")
        self.bad(BAD_USAGE, "run", "--kv", "q8_0", says="--kv: 'q8_0' is none of: f16, f32")
        self.bad(FAILED, "run", "--device", "banana", says="auto, cpu, gpu")

    def test_a_trace_shows_reads_waits_and_steps(self):
        path = self.path / "trace.json"
        self.good("run", "-n", 4, "--trace", path)
        spans = [e for e in json.loads(path.read_text()) if e["ph"] == "X"]
        reads = [s for s in spans if (s["cat"], s["name"]) == ("weights", "read")]
        self.assertEqual(sum(s["args"]["bytes"] for s in reads), sum(
            s["args"]["bytes"] for s in spans if (s["cat"], s["name"]) == ("weights", "land")))
        self.assertIn("blk.0.attn_q.weight", {s["args"]["tensor"] for s in reads})
        self.assertEqual(len([s for s in spans if s["name"] == "forward"]), 4)
        self.assertIn("RowsMatmul", {s["name"] for s in spans if s["cat"] == "step"})
        self.assertTrue(all(s["dur"] >= 0 and s["ts"] >= 0 for s in spans))
        self.bad(FAILED, "run", "-n", 1, "--trace", self.path / "no" / "folder", says="folder")

    def test_statistics_go_to_stderr(self):
        done = run("run", "-n", 5, "--stats")
        self.assertEqual(done.returncode, GOOD)
        self.assertIn(b"tok/s", done.stderr)


class Check(CliTest):
    def test_logits_equal_the_reference(self):
        lines = (TINY.with_suffix(".txt")).read_text().splitlines()
        tokens = lines[0].split()[1:]
        reference = [line.split()[1:] for line in lines if line.startswith("logits")]
        positions = ",".join(row[0] for row in reference)
        report = json.loads(self.good("logits", TINY, "--tokens", ",".join(tokens), "--positions", positions,
                                      "--kv", "f32", "--json"))
        self.assertEqual([str(p["position"]) for p in report["positions"]], [row[0] for row in reference])
        for ours, row in zip(report["positions"], reference):
            theirs = [float(x) for x in row[1:]]
            error = sum((a - b) ** 2 for a, b in zip(ours["logits"], theirs)) / sum(b * b for b in theirs)
            self.assertLess(error, 1e-8)

    def test_logits_refuse_what_is_not_there(self):
        self.bad(FAILED, "logits", TINY, "--tokens", "1,384", says="token 384 is outside the vocabulary")
        self.bad(FAILED, "logits", TINY, "--tokens", "1,-1", says="token -1")
        self.bad(FAILED, "logits", TINY, "--tokens", "1", "--positions", 1, says="position 1")
        self.bad(BAD_USAGE, "logits", TINY, says="--tokens")

    def test_plan_shows_steps_and_memory(self):
        text = self.good("plan", STORY)
        for words in ("embed token_embd.weight", "layer 5", "attend q over cache 5", "memory: weights 11.8 MiB"):
            self.assertIn(words, text)

    def test_fused_plan_shows_what_the_cpu_does_at_once(self):
        flags = ("plan", STORY, "--device", "cpu", "--fused")
        text = self.good(*flags)
        for words in ("at once, rows as they are multiplied", "at once, head by head", "layer 5"):
            self.assertIn(words, text)
        self.assertNotIn("at once", self.good(*flags, "--fuse", "off"))
        self.assertNotIn("at once", self.good("plan", STORY, "--device", "cpu"))

        def steps(*more):
            stages = json.loads(self.good(*flags, "--json", *more))["stages"]
            return [step for stage in stages for step in stage["steps"]]
        fused, alone = steps(), steps("--fuse", "off")
        self.assertLess(len(fused), len(alone))
        self.assertEqual([line for s in fused for line in s["does"]], [line for s in alone for line in s["does"]])
        together = next(s for s in fused if s.get("fused") == "rows as they are multiplied")
        self.assertIn("x", together["reads"])
        self.assertIn("h", together["writes"])

    def test_fused_plan_shows_the_kernels_of_a_class_of_card(self):
        flags = ("plan", STORY, "--fused", "--device-class")
        text = self.good(*flags, "hopper")
        for words in ("NVIDIA H200, not opened", "132 multiprocessors", "1 row\n", "8 rows of 8 sequences",
                      "512 rows of 1 prompt", "layers 0-1, 3-4\n", "attend_hopper_64",
                      "Norm + Matmul q, k, v + Rope + StoreKv  stream_q4_k_1", "memory: weights 11.8 MiB"):
            self.assertIn(words, text)
        other = self.good(*flags, "rdna2")
        self.assertIn("matvec_q4_k_8", other)
        self.assertNotIn("stream_q4_k_1", other)
        for line in (text + other).splitlines():
            self.assertLessEqual(len(line), 100)
        portable = self.good(*flags, "hopper", env={"ROCMFORGE_GPU": "portable"})
        self.assertIn("; ROCMFORGE_GPU=portable", portable)
        self.assertNotIn("hopper_", portable)

    def test_passes_as_json_name_the_plans_steps_and_their_kernels(self):
        flags = ("plan", STORY, "--fused", "--json")
        report = json.loads(self.good(*flags, "--device-class", "cdna3"))
        self.assertEqual(report["device_class"]["card"], "AMD Instinct MI300X")
        self.assertEqual(report["target"], {"wave": 64, "hopper": False, "mma": False, "matrix_unit": True})
        self.assertEqual([(p["rows"], p["sequences"]) for p in report["passes"]],
                         [(1, 1), (8, 8), (32, 32), (128, 128), (512, 1)])
        n_steps = [len(stage["steps"]) for stage in report["stages"]]
        for each in report["passes"]:
            at = 0  # every step of the plan once, in order
            for step in each["steps"]:
                self.assertEqual(sum(n_steps[:step["stage"]]) + step["first"], at)
                self.assertTrue(step["kernels"])
                at += step["n"]
            self.assertEqual(at, sum(n_steps))
        some = json.loads(self.good("plan", *flags[2:], "--device-class", "cdna3", "--rows", "8,1", STORY))["passes"]
        self.assertEqual(some, [report["passes"][1], report["passes"][0]])
        alone = json.loads(self.good(*flags, "--device-class", "cdna3", "--fuse", "off"))["passes"]
        self.assertEqual({step["n"] for each in alone for step in each["steps"]}, {1})

    def test_passes_of_a_device_are_those_of_its_class(self):
        if not (pathlib.Path(cli_test.BINARY).parent / "librocmforge-emu.so").exists():
            self.skipTest("no emulation beside the program")
        flags = ("plan", STORY, "--fused", "--json")
        device = json.loads(self.good(*flags, "--device", "emu"))
        of_class = json.loads(self.good(*flags, "--device-class", "emulation"))
        self.assertEqual(device["passes"], of_class["passes"])
        self.assertNotIn("device_class", device)
        self.assertNotIn("passes", json.loads(self.good(*flags, "--device", "cpu")))

    def test_a_class_of_card_is_known_and_its_steps_are_fused(self):
        self.bad(BAD_USAGE, "plan", STORY, "--fused", "--device-class", "geforce",
                 says="'geforce' is no class; there are: hopper ampere ada cdna2 cdna3 rdna2 rdna3 rdna4 emulation")
        self.bad(BAD_USAGE, "plan", STORY, "--device-class", "hopper", says="requires --fused")
        self.bad(BAD_USAGE, "plan", STORY, "--rows", "8", says="requires --fused")
        for rows in ("0", "2049", "8,many"):
            self.bad(BAD_USAGE, "plan", STORY, "--fused", "--device-class", "hopper", "--rows", rows, says="--rows")
        self.bad(FAILED, "plan", self.path / "none.gguf", "--fused", "--device-class", "hopper", says="No such file")
        self.bad(FAILED, "plan", STORY, "--fused", "--device-class", "hopper", "-c", 9999, says="trained for 1024")

    def test_unfused_steps_give_the_same_logits(self):
        flags = ("logits", TINY, "--device", "cpu", "--tokens", "1,2,3,4,5", "--positions", "0,4")
        self.assertEqual(self.good(*flags), self.good(*flags, "--fuse", "off"))
        self.bad(BAD_USAGE, *flags, "--fuse", "maybe", says="'maybe' is none of: off, on")

    def test_a_70b_plan_reads_nothing(self):
        self.good("synth", "llama-70b", "Q4_K_M", self.path / "big.gguf", "--sparse")
        self.assertIn("layer 79", self.good("plan", self.path / "big.gguf"))

    def test_perplexity_of_the_bundled_model(self):
        held_out = ROOT / "tests" / "data" / "held-out.txt"
        value = float(self.good("perplexity", STORY, held_out, "--chunks", 2).strip())
        self.assertTrue(5 < value < 60, value)
        report = json.loads(self.good("perplexity", STORY, held_out, "--chunks", 2, "--json"))
        self.assertTrue(math.isclose(report["perplexity"], value, abs_tol=1e-3))
        self.assertEqual(report["n_predictions"], 2 * 255)
        (self.path / "short").write_text("Too short.")
        self.bad(FAILED, "perplexity", STORY, self.path / "short", says="less than one chunk")


class Embed(CliTest):
    def embeddings(self, *args, **more):
        return [json.loads(line)["embedding"] for line in self.good("embed", *args, "--json", **more).splitlines()]

    def test_texts_come_from_arguments_files_and_standard_input(self):
        texts = ["The old man", "a dog"]
        expected = self.embeddings(STORY, *texts)
        self.assertEqual([len(e) for e in expected], [512, 512])
        (self.path / "texts").write_bytes(b"The old man\r\na dog\n")
        self.assertEqual(self.embeddings(STORY, "--file", self.path / "texts"), expected)
        self.assertEqual(self.embeddings(STORY, input=b"The old man\na dog"), expected)
        self.assertEqual(self.embeddings(STORY, "-f", "-", input=b"The old man\na dog\n"), expected)
        ids = self.good("tokenize", STORY, "a dog", "--bos").split()
        self.assertEqual(self.embeddings(STORY, "--tokens", ",".join(ids)), expected[1:])
        plain = self.good("embed", STORY, *texts).splitlines()
        self.assertEqual([[float(x) for x in line.split()] for line in plain], expected)

    def test_lengths_and_dimensions(self):
        length = lambda values: math.sqrt(sum(x * x for x in values))
        whole, raw = (self.embeddings(STORY, "a dog", *flags)[0] for flags in ((), ("--raw",)))
        self.assertAlmostEqual(length(whole), 1, places=5)
        self.assertNotAlmostEqual(length(raw), 1, places=2)
        short = self.embeddings(STORY, "a dog", "--dimensions", 100)[0]
        self.assertEqual(len(short), 100)
        self.assertAlmostEqual(length(short), 1, places=5)
        for a, b in zip(self.embeddings(STORY, "a dog", "--raw", "--dimensions", 3)[0], raw):
            self.assertEqual(a, b)

    def test_pooling(self):
        found = {p: tuple(self.embeddings(STORY, "a dog", "--pooling", p)[0]) for p in ("mean", "cls", "last")}
        self.assertEqual(len(set(found.values())), 3)
        self.assertEqual(tuple(self.embeddings(STORY, "a dog")[0]), found["mean"])
        self.bad(FAILED, "embed", STORY, "a dog", "--pooling", "rank", says="no classifier")
        self.bad(BAD_USAGE, "embed", STORY, "a dog", "--pooling", "max", says="--pooling")

    def test_what_cannot_be_embedded_is_refused(self):
        self.bad(FAILED, "embed", STORY, "", says="text 1 is empty")
        self.bad(FAILED, "embed", STORY, "--tokens", "5,99999", says="token 99999 is outside the vocabulary")
        self.bad(FAILED, "embed", STORY, "-c", 4, "the old man and the dog went home", says="exceed the context of 4")
        self.bad(BAD_USAGE, "embed", STORY, "a", "--tokens", "1", says="excludes")
        self.assertEqual(self.good("embed", STORY, input=b""), "")


class Rerank(CliTest):
    def setUp(self):
        super().setUp()
        self.model = pathlib.Path(cli_test.BINARY).parent / "golden-models" / "variants" / "bert-rank.gguf"
        if not self.model.exists():
            self.skipTest("the reference model 'bert-rank' was not made")

    def test_orders_documents(self):
        documents = ["a dog", "the old man", "rain"]
        results = json.loads(self.good("rerank", self.model, "who?", *documents, "--json"))["results"]
        self.assertEqual(sorted(r["index"] for r in results), [0, 1, 2])
        scores = [r["relevance_score"] for r in results]
        self.assertEqual(scores, sorted(scores, reverse=True))
        self.assertTrue(all(0 < s < 1 for s in scores))
        raw = json.loads(self.good("rerank", self.model, "who?", *documents, "--raw", "--json"))["results"]
        self.assertEqual([r["index"] for r in raw], [r["index"] for r in results])
        for a, b in zip(raw, results):
            self.assertAlmostEqual(1 / (1 + math.exp(-a["relevance_score"])), b["relevance_score"], places=5)
        best = self.good("rerank", self.model, "who?", "--top-n", 1, input="\n".join(documents).encode())
        self.assertEqual(best.split(" ", 1)[1], documents[results[0]["index"]] + "\n")

    def test_asks_for_the_right_kind_of_model(self):
        self.bad(FAILED, "rerank", STORY, "who?", "a dog", says="no classifier")
        self.bad(FAILED, "run", self.model, "-p", "a dog", says="bert models make embeddings and no text")
        self.bad(FAILED, "logits", self.model, "--tokens", "1,2", says="bert models make embeddings and no text")
        self.bad(FAILED, "bench", self.model, says="bert models make embeddings and no text")
        self.assertIn("of the whole text", self.good("plan", self.model))


class Measure(CliTest):
    def test_bench(self):
        report = json.loads(self.good("bench", TINY, "-p", 16, "-n", 8, "-b", "1,2", "-r", 1, "--json"))
        self.assertEqual([r["n_tokens"] for r in report["prefill"]], [16])
        self.assertGreater(report["decode"][0]["tokens_per_second"], 0)
        self.assertEqual(report["batched"][0]["n_sequences"], 2)

    def test_bench_load(self):
        report = json.loads(self.good("bench", "load", STORY, "-r", 1, "--json"))
        for kind in ("warm", "cold"):
            start = report[kind]
            self.assertTrue(0 < start["open_seconds"] < start["plan_seconds"] < start["first_token_seconds"], start)
            self.assertGreater(start["read_bytes"], 11_000_000)
            self.assertTrue(0 < start["peak_anonymous_bytes"] <= start["peak_bytes"], start)
            self.assertGreaterEqual(start["pinned_bytes"], 0)

    @unittest.skipIf("--sanitized" in sys.argv, "the emulation is slow")
    def test_a_self_test_is_remembered_in_the_users_cache(self):
        with tempfile.TemporaryDirectory() as cache:
            remembered = pathlib.Path(cache) / "rocmforge" / "gpu_self_tests.json"
            ask = ("logits", TINY, "--tokens", "1,2,3", "--positions", "2", "--device", "emu", "--json")
            env = {"XDG_CACHE_HOME": cache}
            usual = self.good(*ask, env=env)
            self.assertFalse(remembered.exists())
            self.assertEqual(self.good(*ask, env={**env, "ROCMFORGE_SELF_TEST": "always"}), usual)
            results = json.loads(remembered.read_text())["results"]
            self.assertEqual([(r["device"], r["module"].split(",")[0]) for r in results], [("emu", "emu")])
            self.assertEqual({family["fault"] for family in results[0]["families"]}, {""})

    def test_devices(self):
        self.assertIn("cpu", self.good("devices"))
        self.assertEqual(json.loads(self.good("devices", "--json"))["devices"][0]["id"], "cpu")


if __name__ == "__main__":
    cli_test.BINARY = os.path.abspath(sys.argv.pop(1))
    if "--sanitized" in sys.argv:
        sys.argv.remove("--sanitized")
        cli_test.SANITIZED = True
    unittest.main()
