#!/usr/bin/env python3
"""Every command in the documents is executed, in a scratch folder, with the program that was built.

Usage: docs_test.py PROGRAM SOURCE_FOLDER

A block that cannot be executed here says so on the line before it, where a reader of the text finds the reason:

    <!-- not run: a network -->                   needs what a test has not; listed at the end
    <!-- not run but for rocmforge: a network -->   the lines that begin with this word are executed
    <!-- run by tests/install_test.py -->         another test executes it

`make TARGET` is executed as a dry run: the targets must be there. `rocmforge serve` is started, asked whether it is
ready, and ended; `curl` asks a server that this test runs. Both get a free port. Commands that could change the machine
(apt, install, sudo, ...) are never executed: without a mark they fail the test.
"""
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

PROGRAM, SOURCE = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
DOCUMENTS = ["README.md", "CONTRIBUTING.md", "SECURITY.md", "models/README.md", "docs/*.md", "examples/**/*.md"]
STARTS = re.compile(r"(?:\w+=\S+ )*\(?(rocmforge|build/release/\S+|curl|make|cmake|ninja|podman|docker|sudo|apt|systemctl|"
                    r"systemd-\w+|haproxy|install|openssl|umask|echo|git|npm|python3|tools/\S+|bench/\S+)( |$)")
MARK = re.compile(r"<!-- (not run(?: but for (?P<except>\S+))?: .+|run by (?P<by>\S+)) -->\s*$")
# Safe in a scratch folder. cmake --install goes below DESTDIR.
SAFE = re.compile(r"(rocmforge|build/release/rocmforge|curl|make|haproxy -c|cmake --install|python3|tools/reference/\S+)( |$)")
SHELLS = ("sh", "bash", "console")  # blocks of these languages are commands, whatever they begin with
TIME_LIMIT = 40  # of one command
# What a reader replaces by something of their own.
OURS = [("http://127.0.0.1:8080", "http://127.0.0.1:{port}"), ("--host 10.0.0.1", "--host 127.0.0.1"),
        ("--metrics-port 9090", "--metrics-port 0")]
# Made-up ids: that nobody knows them is the right answer.
UNKNOWN_IDS = ("/status/gen-", "/cancel/gen-")


def blocks(path):
    """(line, mark or None, commands): blocks of commands, indented or fenced."""
    out, lines, mark, fence, i = [], path.read_text().split("\n"), None, None, 0
    current, start = [], 0

    def end():
        nonlocal current, mark
        if current and (STARTS.match(current[0]) or fence in SHELLS):
            out.append((start, mark, current))
            mark = None
        elif current:
            mark = None
        current = []

    for i, line in enumerate(lines, 1):
        if line.startswith("```"):
            end()
            fence = None if fence is not None else line[3:].strip()
            continue
        is_code = fence in ("", *SHELLS) if fence is not None else line.startswith("    ")
        if is_code and (current or fence is not None or lines[i - 2].strip() == "" or MARK.match(lines[i - 2])):
            if not current:
                start = i
            text = line if fence is not None else line[4:]
            if current and current[-1].endswith("\\"):
                current[-1] = current[-1][:-1] + text.strip()
            elif text.strip():
                current.append(text)
            continue
        if line.strip():
            end()
            found = MARK.match(line)
            mark = found
        else:
            end()
    end()
    return out


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Scratch:
    """A folder that looks like the source tree, with what the documents' placeholders stand for."""

    def __init__(self, folder):
        self.folder = folder
        for entry in SOURCE.iterdir():
            if entry.name not in ("build", "models", "tests", ".git"):
                (folder / entry.name).symlink_to(entry)
        for name in ("models", "tests/data/logits"):  # commands write there
            shutil.copytree(SOURCE / name, folder / name)
        (folder / "build").mkdir()
        (folder / "build" / "release").symlink_to(PROGRAM.parent)
        (folder / "bin").mkdir()
        (folder / "bin" / "rocmforge").symlink_to(PROGRAM)
        story = folder / "models" / "story-q4_k_m.gguf"
        for name in ("MODEL", "MODEL.gguf", "llama.gguf", "qwen.gguf"):
            shutil.copy(story, folder / name)
        subprocess.run([PROGRAM, "synth", "tiny", "Q4_K_M", folder / "TINY"], check=True, stdout=subprocess.DEVNULL)
        (folder / "FILE").write_text("{% for m in messages %}{{ m.content }}{% endfor %}")
        (folder / "FILE.json").write_text('{"messages": [{"role": "user", "content": "Hello"}]}')
        (folder / "person.json").write_text('{"type": "object", "properties": {"name": {"type": "string"}}}')
        (folder / "texts.jsonl").write_text(json.dumps('{"name": "Ada"}') + "\n" + json.dumps('{"name": 1}') + "\n")
        (folder / "grammar.gbnf").write_text('root ::= ("yes" | "no") "!"*')
        (folder / "tools.json").write_text('[{"type": "function", "function": {"name": "now", "parameters": {}}}]')
        (folder / "text").write_text('<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>')
        (folder / "keys").write_text("0123456789abcdef0123456789abcdef\n")
        (folder / "keys").chmod(0o600)
        self.port, self.server = free_port(), None
        self.env = {**os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "HOME": str(folder / "home"),
                    "DESTDIR": str(folder / "installed"), "ROCMFORGE_PORT": str(self.port),
                    "XDG_CACHE_HOME": str(folder / "cache")}
        for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "ROCMFORGE_MODELS"):
            self.env.pop(name, None)

    def bash(self, command):
        return subprocess.run(["bash", "-c", command], cwd=self.folder, env=self.env, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=TIME_LIMIT)

    def start(self, command):
        """The server, once it is ready; it leaves the port to the next one when it has ended."""
        server = subprocess.Popen(["bash", "-c", "exec " + command], cwd=self.folder, env=self.env,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + TIME_LIMIT
        while time.monotonic() < deadline and server.poll() is None:
            with socket.socket() as s:
                if s.connect_ex(("127.0.0.1", self.port)) == 0:
                    s.sendall(b"GET /ready HTTP/1.0\r\n\r\n")
                    if b" 200 " in s.recv(64):
                        return server
            time.sleep(0.05)
        server.kill()
        raise AssertionError(f"was not ready: {server.communicate()[1]}")

    def end(self, server):
        server.send_signal(signal.SIGTERM)
        errors = server.communicate(timeout=TIME_LIMIT)[1]
        assert server.returncode == 0, (server.returncode, errors)

    def run(self, command):
        for theirs, ours in OURS:
            command = command.replace(theirs, ours.format(port=self.port))
        words = command.split()
        if words[1:2] == ["bench"]:
            # As many seconds as the model has layers; fewer tokens for a busy machine.
            command = command.replace(" MODEL", " TINY").replace("-p 512 -n 128", "-p 64 -n 16")
        if words[0] == "make":
            command = "make -n " + " ".join(words[1:])
        if words[0].endswith("rocmforge") and words[1:2] == ["serve"]:
            if self.server:
                self.end(self.server)
                self.server = None
            self.end(self.start(command))
            return
        if words[0] == "curl":
            if self.server is None:
                self.server = self.start("rocmforge serve")
            if not any(u in command for u in UNKNOWN_IDS):
                command = command.replace("curl ", "curl --fail-with-body -sS ", 1)
        done = self.bash(command)
        good = (0, 3) if words[1:2] == ["doctor"] else (0,)  # 3: a GPU is here and cannot be used
        assert done.returncode in good, f"exit code {done.returncode}\n{done.stdout[-1000:]}{done.stderr[-2000:]}"
        if words[0] == "rocmforge" and words[1] == "quantize":
            assert (self.folder / words[3]).stat().st_size > 0


def prepare(scratch, command):
    """What a reader has at hand when they come to this command."""
    if "story-f16.gguf" in command:  # the trained model: here, what is left of it
        (scratch.folder / "models" / "story-q4_k_m.gguf").unlink()
        done = scratch.bash("rocmforge quantize MODEL story-f16.gguf F16 --allow-requantize")
        assert done.returncode == 0, done.stderr


def main():
    failures, left_out, n_run = [], [], 0
    with tempfile.TemporaryDirectory() as folder:
        scratch = Scratch(pathlib.Path(folder))
        for pattern in DOCUMENTS:
            for path in sorted(SOURCE.glob(pattern)):
                for line, mark, commands in blocks(path):
                    where = f"{path.relative_to(SOURCE)}:{line}"
                    if mark and mark["by"] and not (SOURCE / mark["by"]).exists():
                        failures.append(f"{where}: {mark['by']} is not there")
                    for command in commands:
                        tool = STARTS.match(command)
                        if mark and not (mark["except"] and tool and tool[1] == mark["except"]):
                            left_out.append(f"{where}: {command.split('  #')[0].strip()}  ({mark[1]})")
                            continue
                        began = time.monotonic()
                        if tool is None:
                            failures.append(f"{where}: not known as a command: {command}")
                            continue
                        if not SAFE.match(command):
                            failures.append(f"{where}: may change the machine, and has no mark: {command}")
                            continue
                        if tool[1] in ("curl", "haproxy") and shutil.which(tool[1]) is None:
                            left_out.append(f"{where}: {command}  ({tool[1]} is not installed here)")
                            continue
                        try:
                            prepare(scratch, command)
                            scratch.run(command)
                            n_run += 1
                            print(f"{time.monotonic() - began:5.1f} s  {where}: {command}")
                        except (AssertionError, subprocess.TimeoutExpired, OSError) as e:
                            failures.append(f"{where}: {command}\n{e}")
        if scratch.server:
            scratch.end(scratch.server)
    print("\nnot run here:\n  " + "\n  ".join(left_out))
    if n_run < 30:
        failures.append(f"only {n_run} commands were found")
    for failure in failures:
        print(f"\nFAILED {failure}")
    print(f"\n{n_run} commands run, {len(left_out)} not, {len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
