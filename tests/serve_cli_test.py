#!/usr/bin/env python3
"""`rocmforge serve` from outside: how it starts, whom it lets in, how it ends.  serve_cli_test.py BINARY [--sanitized]"""
import atexit
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import unittest
import urllib.error
import urllib.request

BINARY = sys.argv[1]
MODEL = pathlib.Path(__file__).parent.parent / "models" / "story-q4_k_m.gguf"
PATIENCE = 60


class Server:
    def __init__(self, *flags, model=MODEL, environment=None):
        self.process = subprocess.Popen([BINARY, "serve", str(model), "--port", "0", *flags], stderr=subprocess.PIPE, text=True,
                                        env={**os.environ, **(environment or {})})
        atexit.register(self.process.kill)  # a test that fails leaves it behind
        self.said = ""
        self.port = None
        for line in self.process.stderr:
            self.said += line
            ready = re.search(r"ready: http://[^ ]*:(\d+) serves", line)
            if ready:
                self.port = int(ready.group(1))
                break

    def ask(self, path, body=None, headers=None, host="127.0.0.1"):
        request = urllib.request.Request(f"http://{host}:{self.port}{path}", headers=headers or {},
                                         data=None if body is None else json.dumps(body).encode())
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as refused:
            return refused.code, json.loads(refused.read())

    def end(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        rest = self.process.stderr.read()
        self.process.stderr.close()
        self.said += rest
        return self.process.wait(PATIENCE)


def refused(*flags, model=MODEL):
    done = subprocess.run([BINARY, "serve", str(model), *flags], capture_output=True, text=True, timeout=PATIENCE)
    return done.returncode, done.stdout + done.stderr


class ServeTest(unittest.TestCase):
    def test_answers_and_ends(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            server = Server()
            self.assertRegex(server.said, r"serves story-q4_k_m \(1024 tokens per request, \d+ in all\)")
            status, answer = server.ask("/generate", {"prompt": "Once upon a time", "max_tokens": 4, "temperature": 0})
            self.assertEqual(status, 200)
            self.assertEqual(len(answer["tokens"]), 4)
            self.assertEqual(server.ask("/v1/models")[1]["data"][0]["max_model_len"], 1024)
            self.assertEqual(server.end(number), 0)

    def test_asks_for_keys(self):
        with tempfile.TemporaryDirectory() as folder:
            keys = pathlib.Path(folder) / "keys"
            keys.write_text("# ours\n\nfirst-secret\nsecond-secret \r\n")
            server = Server("--api-key-file", str(keys), "--api-key", "third-secret")
            self.assertEqual(server.ask("/v1/models")[0], 401)
            self.assertEqual(server.ask("/v1/models", headers={"Authorization": "Bearer # ours"})[0], 401)
            self.assertEqual(server.ask("/health")[0], 200)
            for key in ("first-secret", "second-secret", "third-secret"):
                self.assertEqual(server.ask("/v1/models", headers={"Authorization": f"Bearer {key}"})[0], 200)
            self.assertEqual(server.end(), 0)
            self.assertNotIn("secret", server.said)
            keys.write_text("# nothing\n")
            code, said = refused("--api-key-file", str(keys))
            self.assertEqual(code, 1)
            self.assertIn("holds no API key", said)

    def test_does_not_start_where_it_cannot(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            code, said = refused("--port", str(taken.getsockname()[1]))
            self.assertEqual(code, 1)
            self.assertIn("cannot listen", said)
        self.assertEqual(refused("--host", "not an address")[0], 1)
        self.assertEqual(refused("--api-key-file", "/nonexistent")[0], 1)
        self.assertEqual(refused(model="/nonexistent.gguf")[0], 1)
        self.assertEqual(refused("--ping-seconds", "0")[0], 2)
        self.assertEqual(refused("--queue", "0")[0], 2)  # everyone waits for a step at first
        self.assertEqual(refused("--port", "65536")[0], 2)
        with tempfile.NamedTemporaryFile(suffix=".gguf") as broken:
            broken.write(b"GGUF nonsense")
            broken.flush()
            code, said = refused(model=broken.name)
            self.assertEqual(code, 1)
            self.assertNotIn("ready", said)

    def test_answers_where_it_says_it_does(self):
        for host in ("127.0.0.2", "localhost", "0.0.0.0"):
            server = Server("--host", host)
            self.assertEqual("anybody who can reach" in server.said, host == "0.0.0.0", server.said)
            where = re.search(r"http://(.*):\d+ serves", server.said).group(1)
            self.assertEqual(server.ask("/health", host=where)[0], 200)
            self.assertEqual(server.ask("/health", host=where, headers={"Host": "a.example"})[0], 200 if host == "0.0.0.0" else 403)
            self.assertEqual(server.end(), 0)

    def test_names_models_so_that_they_can_be_asked_for(self):
        with tempfile.TemporaryDirectory() as folder:
            odd = os.path.join(os.fsencode(folder), b'x\xff"q\\ z.gguf')
            os.symlink(MODEL, odd)
            server = Server(model=os.fsdecode(odd))
            name = server.ask("/v1/models")[1]["data"][0]["id"]
            self.assertEqual(server.ask("/generate", {"prompt": "Once", "max_tokens": 1, "model": name})[0], 200)
            self.assertEqual(server.end(), 0)

    def test_serves_several_models_by_name(self):
        with tempfile.TemporaryDirectory() as folder:
            other = pathlib.Path(folder) / "other.gguf"
            other.symlink_to(MODEL)
            server = Server(str(other))
            models = server.ask("/v1/models")[1]["data"]
            self.assertEqual([m["id"] for m in models], ["story-q4_k_m", "other"])
            self.assertEqual(models[1]["state"], "unloaded")
            body = {"prompt": "Once", "max_tokens": 3, "temperature": 0}
            first = server.ask("/generate", body)[1]["tokens"]
            self.assertEqual(server.ask("/generate", {**body, "model": "other"})[1]["tokens"], first)
            self.assertEqual(server.ask("/generate", {**body, "model": "none"})[0], 404)
            self.assertEqual(server.ask("/v1/models/other")[1]["state"], "ready")
            self.assertEqual(server.end(), 0)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
