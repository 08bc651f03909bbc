#!/usr/bin/env python3
"""`chat`, `models` and `doctor` from outside: through pipes, and at a terminal of our own.
Usage: chat_cli_test.py BINARY [--sanitized]"""
import fcntl
import json
import os
import pathlib
import pty
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
import unittest

import cli_test
from cli_test import FAILED, GOOD, UNUSED_GPU, CliTest, run

ROOT = pathlib.Path(__file__).resolve().parent.parent
STORY = ROOT / "models" / "story-q4_k_m.gguf"
PATIENCE = 30


class Pipe(CliTest):
    def chat(self, text, *flags, code=GOOD):
        done = run("chat", STORY, "--temp", 0, *flags, input=text.encode())
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout.decode(), done.stderr.decode()

    def test_a_line_is_a_turn_and_only_answers_are_printed(self):
        out, err = self.chat("The fox ran.\n\nThe bear slept.\n", "-n", 8)
        self.assertEqual(err, "")
        first, _ = self.chat("The fox ran.\n", "-n", 8)
        self.assertTrue(out.startswith(first))
        self.assertGreater(len(out), len(first))
        self.assertNotIn("> ", out)

    def test_an_answer_knows_what_was_said(self):
        # The template of the bundled model joins the messages, so two turns are one text.
        first, _ = self.chat("The fox ran.\n", "-n", 8)
        path = self.path / "saved.json"
        both, _ = self.chat(f"The fox ran.\nThe bear slept.\n/save {path}\n", "-n", 8)
        messages = json.loads(path.read_text())["messages"]
        self.assertEqual([m["role"] for m in messages], ["user", "assistant"] * 2)
        self.assertEqual(messages[1]["content"] + "\n", first)
        text = "".join(m["content"] for m in messages[:3])
        alone = json.loads(self.good("run", STORY, "-p", text, "-n", 8, "--temp", 0, "--json"))
        self.assertEqual(messages[3]["content"], alone["text"])

    def test_commands(self):
        path = self.path / "saved.json"
        _, err = self.chat(f"/help\n/system Be kind.\nHello.\n/reset\n/save {path}\n/system\n/exit\nnever read\n", "-n", 2)
        self.assertIn("/system TEXT", err)
        self.assertEqual(json.loads(path.read_text())["messages"], [{"role": "system", "content": "Be kind."}])
        _, err = self.chat(f"/save {path}\n", "--system", "Be brief.", code=FAILED)
        self.assertIn("exists already; /save --overwrite", err)
        self.chat(f"/save --overwrite {path}\n", "--system", "Be brief.")
        self.assertEqual(json.loads(path.read_text())["messages"][0]["content"], "Be brief.")

    def test_what_fails_is_said_and_ends_a_pipe(self):
        for text, says in (("/elephant\n", "/elephant"), ("/save\n", "file name"), ("/save /nowhere/x\n", "/nowhere/x"),
                           ("word " * 200 + "\n", "context of 64")):
            _, err = self.chat(text, "-c", 64, code=FAILED)
            self.assertIn(says, err)

    def test_a_pipe_goes_on_after_a_mistake(self):
        out, err = self.chat("The fox ran.\n/nosuch\nThe bear slept.\n", "-n", 4, code=FAILED)
        self.assertIn("'/nosuch' is no command", err)
        first, _ = self.chat("The fox ran.\n", "-n", 4)
        self.assertTrue(out.startswith(first))
        self.assertGreater(len(out), len(first), "the line after the mistake was not answered")

    def test_an_answer_leaves_room_for_the_next_question(self):
        # The bundled model never ends by itself: its first answer filled the context, and no second one had room.
        out, err = self.chat("Once upon a time\nand then what happened?\nand then?\n")
        self.assertEqual(err.count("cut here to keep room"), 3, err)
        self.assertGreater(len(out), 1000)

    def test_three_quotes_hold_several_lines(self):
        path = self.path / "saved.json"
        self.chat(f'"""\nline one\n/reset\n\nline two\n"""\n"""a\nb"""\n/save {path}\n', "-n", 2)
        asked = [m["content"] for m in json.loads(path.read_text())["messages"] if m["role"] == "user"]
        self.assertEqual(asked, ["line one\n/reset\n\nline two", "a\nb"])

    def test_a_full_context_is_said(self):
        out, err = self.chat("The fox ran.\n", "-c", 32, "-n", 100)
        self.assertGreater(len(out), 20)
        self.assertIn("context is full", err)

    def test_sampling_flags(self):
        plain = self.good("run", STORY, "-n", 40, "--temp", 0)
        tokens = json.loads(self.good("run", STORY, "-n", 40, "--temp", 0, "--json"))["tokens"]
        self.assertNotEqual(plain, self.good("run", STORY, "-n", 40, "--temp", 0, "--repeat-penalty", 1.5))
        self.assertNotEqual(plain, self.good("run", STORY, "-n", 40, "--temp", 0, "--frequency-penalty", 2))
        self.assertNotEqual(plain, self.good("run", STORY, "-n", 40, "--temp", 0, "--presence-penalty", 2,
                                             "--repeat-last-n", -1))
        self.assertEqual(plain, self.good("run", STORY, "-n", 40, "--temp", 0, "--repeat-penalty", 1.5,
                                          "--repeat-last-n", 0))
        banned = json.loads(self.good("run", STORY, "-n", 40, "--temp", 0, "--json", "--logit-bias", f"{tokens[0]}=-100",
                                      "--logit-bias", f"{tokens[1]}=-100"))["tokens"]
        self.assertFalse({tokens[0], tokens[1]} & set(banned))
        for bad in ("x", "1", "1=", "=1", "1=x", "1=2x", "99999999999=1"):
            self.bad(cli_test.BAD_USAGE, "run", "--logit-bias", bad, says="ID=VALUE")
        self.bad(FAILED, "run", STORY, "--logit-bias", "1=101", says="logit_bias")
        self.bad(FAILED, "run", STORY, "--presence-penalty", 3, says="presence_penalty")


class Terminal(CliTest):
    """A person: types, waits for what comes, presses keys."""

    def setUp(self):
        super().setUp()
        self.process = None

    def tearDown(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        super().tearDown()

    def start(self, *flags, model=STORY, **environment):
        ours, theirs = pty.openpty()
        environment = dict(os.environ, TERM="xterm", XDG_STATE_HOME=str(self.path / "state"), HOME=str(self.path),
                           **environment)
        self.process = subprocess.Popen(
            [cli_test.BINARY, "chat", str(model), "--temp", "0", *map(str, flags)], stdin=theirs, stdout=theirs,
            stderr=theirs, env=environment, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(theirs)
        self.terminal = ours
        self.addCleanup(os.close, ours)
        self.seen = ""
        self.wait_for("> ")

    def wait_for(self, text):
        """Everything up to and with `text`, which must come after what was seen before."""
        end = time.monotonic() + PATIENCE
        while text not in self.seen:
            self.assertGreater(end, time.monotonic(), f"no {text!r} in {self.seen!r}")
            if select.select([self.terminal], [], [], 1)[0]:
                try:
                    piece = os.read(self.terminal, 65536)
                except OSError:  # the other side has closed
                    piece = b""
                self.assertTrue(piece or text in self.seen, f"no {text!r} before the end: {self.seen!r}")
                self.seen += piece.decode(errors="replace")
        before, _, self.seen = self.seen.partition(text)
        return before

    def type(self, text):
        os.write(self.terminal, text.encode())

    def leave(self):
        self.type("\x04")
        self.assertEqual(self.process.wait(PATIENCE), GOOD)

    def test_a_conversation(self):
        self.start("-n", 8)
        self.type("The fox ran.\r")
        self.wait_for("The fox ran.")
        self.wait_for("\n")
        answer = self.wait_for("\n> ")
        self.assertGreater(len(answer.split()), 3)
        self.type("/help\r")
        self.wait_for("\n> ")
        self.leave()

    def test_ctrl_c_stops_the_answer_and_not_the_program(self):
        self.start("-n", 900, "--load", "eager")  # no progress is shown, so what comes is the answer
        self.type("The fox ran.\r")
        self.wait_for("The fox ran.\r\n")
        while len(self.seen) < 10:
            self.seen += os.read(self.terminal, 100).decode(errors="replace")
        self.type("\x03")
        self.wait_for("(stopped)")
        self.wait_for("> ")
        self.type("\x03")
        self.wait_for("ctrl-D or /exit leaves")
        self.wait_for("> ")
        self.type("half a line")
        self.wait_for("half a line")
        self.type("\x03")
        self.wait_for("^C")
        before = self.wait_for("> ")
        self.assertNotIn("leaves", before)
        path = self.path / "saved.json"
        self.type(f"/save {path}\r")
        self.wait_for("2 messages")
        self.assertLess(len(json.loads(path.read_text())["messages"][1]["content"]), 2500)
        self.wait_for("> ")
        self.leave()

    def ask_at_length(self, **environment):
        """Asks a question that takes long to read and returns as soon as the line is taken."""
        self.start("-n", 900, **environment)
        self.type("word " * 600 + "\r")
        end = time.monotonic() + PATIENCE
        while not termios.tcgetattr(self.terminal)[3] & termios.ICANON:  # the editor still reads keys
            self.assertGreater(end, time.monotonic(), "the line was not taken")
            if select.select([self.terminal], [], [], 0)[0]:
                os.read(self.terminal, 65536)

    def test_ctrl_c_right_after_a_line_stops_its_answer(self):
        self.ask_at_length()
        self.type("\x03")
        self.wait_for("(stopping; ctrl-C again leaves)")
        self.wait_for("(stopped)")
        self.wait_for("> ")
        self.leave()

    def test_a_second_ctrl_c_leaves(self):
        # The answer may have stopped before the second one comes; two that come too soon after one another are one.
        for attempt in range(40):
            self.ask_at_length(ROCMFORGE_CPU="scalar")  # a chunk of the prompt takes long
            self.type("\x03")
            time.sleep(0.0005 * 2 ** (attempt % 6))
            self.type("\x03")
            try:
                self.assertEqual(self.process.wait(1), -signal.SIGINT)
                return
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.fail("the second ctrl-C never ended the program")

    def test_a_paste_of_several_lines_is_one_question(self):
        path = self.path / "saved.json"
        self.start("-n", 2)
        self.type("\x1b[200~line one\r/reset\rline two\x1b[201~\r")
        self.wait_for("line two")
        self.wait_for("\n> ")
        self.type(f"/save {path}\r")
        self.wait_for("written to")
        self.assertEqual(json.loads(path.read_text())["messages"][0]["content"], "line one\n/reset\nline two")
        self.wait_for("> ")
        self.leave()

    def test_control_characters_of_an_answer_are_shown(self):
        # A model whose tokens are escape sequences.
        model = self.path / "evil.gguf"
        data = STORY.read_bytes()
        self.assertIn(b"\xe2\x96\x81the", data)
        model.write_bytes(data.replace(b"\xe2\x96\x81the", b"\x1b]0;x\x07"[:6]))
        piped = subprocess.run([cli_test.BINARY, "run", str(model), "--temp", "0", "-n", "60", "-p", "Once upon a time"],
                               capture_output=True, timeout=60, stdin=subprocess.DEVNULL)
        self.assertEqual(piped.returncode, GOOD, piped.stderr)
        self.assertIn(b"\x1b]0;x", piped.stdout)
        self.start("-n", 60, model=model)
        self.type("Once upon a time\r")
        self.wait_for("\n")
        answer = self.wait_for("\n> ")
        self.assertIn(r"\x1b]0;x", answer)
        self.assertNotIn("\x1b]0;x", answer)
        self.leave()

    def test_lines_can_be_edited_and_come_back(self):
        path = self.path / "é.json"
        self.start("-n", 2)
        self.type("/sXsystem kind\x01\x1b[C\x1b[C\x1b[3~\x1b[3~\x05 ü\x7fü\r")  # home, right, delete, end, backspace
        self.wait_for("The instruction holds")
        self.wait_for("> ")
        self.type(f"/save {path}\r")
        self.wait_for("written to")
        self.assertEqual(json.loads(path.read_text())["messages"], [{"role": "system", "content": "kind ü"}])
        self.wait_for("> ")
        self.leave()
        history = self.path / "state" / "rocmforge" / "chat_history"
        self.assertEqual(history.stat().st_mode & 0o777, 0o600)
        path.unlink()
        self.start("-n", 2)
        self.type("\x1b[A\r")
        self.wait_for("written to")
        self.assertTrue(path.exists())
        self.wait_for("> ")
        self.leave()


class Models(CliTest):
    def environment(self):
        return dict(os.environ, ROCMFORGE_MODELS=str(self.path / "models"), XDG_CACHE_HOME=str(self.path / "cache"))

    def list(self, *flags):
        done = subprocess.run([cli_test.BINARY, "models", *flags], env=self.environment(), capture_output=True)
        self.assertEqual((done.returncode, done.stderr), (GOOD, b""))
        return done.stdout.decode()

    def test_lists_what_is_there_and_what_is_broken(self):
        folder = self.path / "models"
        self.list()  # no folder yet
        folder.mkdir()
        shutil.copy(STORY, folder / "tale.gguf")
        (folder / "broken.gguf").write_bytes(b"GGUF but not really")
        text = self.list()
        self.assertRegex(text, r"tale +llama +\S+ M +Q4_K_M +\S+ MiB +1024")
        self.assertIn("broken: ", text)
        report = json.loads(self.list("--json"))
        by_name = {m["name"]: m for m in report["models"]}
        self.assertEqual(report["directory"], str(folder))
        self.assertEqual(by_name["tale"]["architecture"], "llama")
        self.assertIn("gguf", by_name["broken"]["error"])
        self.assertTrue((self.path / "cache" / "rocmforge" / "models.json").exists())
        done = subprocess.run([cli_test.BINARY, "run", "tale", "-n", "2"], env=self.environment(), capture_output=True)
        self.assertEqual(done.returncode, GOOD, done.stderr)


# A machine that this one is not, for one command: files under /sys of our own, in a mount namespace.
PRETEND = """set -e
mount -t tmpfs none /sys/bus/pci/devices
mkdir /sys/bus/pci/devices/0000:03:00.0
echo 0x030000 > /sys/bus/pci/devices/0000:03:00.0/class
echo 0x1002 > /sys/bus/pci/devices/0000:03:00.0/vendor
exec "$@"
"""


class Progress(CliTest):
    def test_a_line_that_is_rewritten_never_wraps(self):
        for n_columns in (12, 30):
            ours, theirs = pty.openpty()
            self.addCleanup(os.close, ours)
            fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", 10, n_columns, 0, 0))
            process = subprocess.Popen(
                [cli_test.BINARY, "quantize", "--allow-requantize", "--overwrite", STORY, self.path / "out.gguf", "Q8_0"],
                stdout=subprocess.DEVNULL, stderr=theirs, env=dict(os.environ, TERM="xterm"))
            os.close(theirs)
            seen = b""
            try:
                while piece := os.read(ours, 65536):
                    seen += piece
            except OSError:  # the other side has closed
                pass
            self.assertEqual(process.wait(PATIENCE), GOOD)
            lines = seen.decode().split("\r\x1b[K")
            self.assertTrue(any("%" in line for line in lines), seen)
            self.assertLess(max(map(len, lines)), n_columns)
            self.assertNotIn("\n", "".join(lines))


class Doctor(CliTest):
    def report(self):
        done = run("doctor", "--json")
        self.assertIn(done.returncode, (GOOD, UNUSED_GPU), done.stderr)
        return json.loads(done.stdout)

    def test_says_how_things_are(self):
        self.assertRegex(run("doctor").stdout.decode(), r"(?m)^ok +cpu +cpu \(")
        topics = {f["topic"]: f["health"] for f in self.report()["findings"]}
        self.assertEqual(topics["cpu"], "ok")
        self.assertLessEqual({"memory", "hip", "cuda", "models", "bundled"}, topics.keys())

    def pretend(self, *args):
        within = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", PRETEND, "sh"]
        if os.path.exists("/dev/kfd") or os.path.exists("/dev/nvidiactl"):
            self.skipTest("a GPU is here")
        if shutil.which("unshare") is None or subprocess.run(within + ["true"], capture_output=True).returncode != 0:
            self.skipTest("no mount namespace can be made here")
        return subprocess.run([*within, cli_test.BINARY, *args], capture_output=True, stdin=subprocess.DEVNULL)

    def test_a_gpu_that_cannot_be_used_is_exit_code_3(self):
        self.assertEqual(self.report()["findings"][2]["fact"], "no AMD GPU in this machine")
        done = self.pretend("doctor")
        self.assertEqual(done.returncode, UNUSED_GPU, done.stdout)
        self.assertIn(b"sudo modprobe amdgpu", done.stdout)
        self.assertEqual(done.stderr, b"rocmforge: a GPU is in this machine and cannot be used\n")

    def test_run_says_in_one_line_why_not_on_the_gpu(self):
        done = self.pretend("run", "-n", "1")
        self.assertEqual(done.returncode, GOOD)
        self.assertRegex(done.stderr.decode(), r"\Arocmforge: runs on cpu \([^\n]+; not on a GPU: [^\n]+\n\Z")
        done = self.pretend("run", "-n", "1", "--device", "cpu")
        self.assertEqual((done.returncode, done.stderr), (GOOD, b""))
        done = self.pretend("run", "-n", "1", "--device", "gpu")  # never another device instead
        self.assertEqual((done.returncode, done.stdout), (FAILED, b""))

    def test_a_library_of_rocm_can_be_chosen(self):
        env = {"ROCMFORGE_HIP_LIBRARY": "/nowhere/libamdhip64.so.6"}
        absent = json.loads(run("devices", "--json", env=env).stdout)["absent"]
        hip = [a for a in absent if a.startswith("hip:")]
        if any("no librocmforge-hip.so" in a for a in hip):
            self.skipTest("the HIP module is not built")
        self.assertEqual(len(hip), 1, absent)
        self.assertIn("/nowhere/libamdhip64.so.6", hip[0])


if __name__ == "__main__":
    cli_test.BINARY = os.path.abspath(sys.argv.pop(1))
    if "--sanitized" in sys.argv:
        sys.argv.remove("--sanitized")
        cli_test.SANITIZED = True
    unittest.main()
