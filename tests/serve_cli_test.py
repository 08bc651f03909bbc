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
import threading
import unittest
import urllib.error
import urllib.request

BINARY = sys.argv[1]
MODEL = pathlib.Path(__file__).parent.parent / "models" / "story-q4_k_m.gguf"
PATIENCE = 60


class Server:
    def __init__(self, *flags, model=MODEL, environment=None):
        self.process = subprocess.Popen([BINARY, "serve", *([str(model)] if model else []), "--port", "0", *flags], stderr=subprocess.PIPE, text=True,
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

    def hang_up(self, until):
        """Sends SIGHUP and reads the log until it says so."""
        self.process.send_signal(signal.SIGHUP)
        for line in self.process.stderr:
            self.said += line
            if until in line:
                break

    def end(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        rest = self.process.stderr.read()
        self.process.stderr.close()
        self.said += rest
        return self.process.wait(PATIENCE)


def refused(*flags, model=MODEL, environment=None):
    done = subprocess.run([BINARY, "serve", str(model), *flags], capture_output=True, text=True, timeout=PATIENCE,
                          env={**os.environ, **(environment or {})})
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

    def test_refuses_keys_that_are_none(self):
        for flag in ("--api-key", "--admin-key"):
            for key in ("", "short"):
                code, said = refused(flag, key)
                self.assertEqual(code, 1, said)
                self.assertIn(f"{flag}: server: a key has {len(key)} bytes", said)
        for variable in ("ROCMFORGE_API_KEY", "ROCMFORGE_ADMIN_KEY"):
            code, said = refused(environment={variable: ""})
            self.assertEqual(code, 1, said)
            self.assertIn(f"{variable}: server: a key has 0 bytes", said)
        with tempfile.TemporaryDirectory() as folder:
            keys = pathlib.Path(folder) / "keys"
            keys.write_text("# ours\nlong-enough\nsecret\n")
            code, said = refused("--api-key-file", str(keys))
            self.assertEqual(code, 1)
            self.assertIn("line 3: server: a key has 6 bytes", said)
            self.assertNotIn("secret", said)

    def test_metrics_have_a_port_of_their_own(self):
        server = Server("--api-key", "the-user-key", "--metrics-port", "0")
        port = int(re.search(r"metrics: http://127\.0\.0\.1:(\d+)/metrics", server.said).group(1))

        def status(path, data=None):
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", data, timeout=PATIENCE) as answer:
                    return answer.status, answer.read().decode()
            except urllib.error.HTTPError as refused:
                return refused.code, refused.read().decode()

        self.assertEqual(server.ask("/metrics")[0], 401)
        code, metrics = status("/metrics")
        self.assertEqual(code, 200)
        for line in ('rocmforge_kv_page_tokens{model="story-q4_k_m"} 64', 'vllm:num_requests_running{model_name="story-q4_k_m"} 0'):
            self.assertIn(line, metrics)
        values = (MODEL.parent.parent / "examples" / "kubernetes" / "values.yaml").read_text()
        for name in re.findall(r"Spec: (\w+)", values):  # what routers are told to read is there
            self.assertIn(f'\n{name}{{model="story-q4_k_m"}}', metrics)
        self.assertEqual(status("/ready")[0], 200)
        self.assertEqual(status("/health")[0], 200)
        self.assertEqual(status("/")[0], 404)
        self.assertEqual(status("/v1/models")[0], 404)
        self.assertEqual(status("/generate", b'{"prompt": "Once"}')[0], 404)
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE):  # one that stays does not hold up the end
            self.assertEqual(server.end(), 0)
        self.assertEqual(refused("--metrics-port", "65536")[0], 2)
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            code, said = refused("--metrics-port", str(taken.getsockname()[1]))
            self.assertEqual(code, 1)
            self.assertIn("cannot listen", said)

    def test_a_full_queue_has_the_status_that_was_chosen(self):
        for flags, expected in (((), 429), (("--overload-status", "503"), 503)):
            server = Server("--parallel", "1", "--queue", "1", *flags)
            found = []
            body = {"prompt": "Once", "max_tokens": 1000, "ignore_eos": True}
            threads = [threading.Thread(target=lambda: found.append(server.ask("/generate", body)[0])) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(set(found), {200, expected})
            self.assertEqual(server.end(), 0)
        self.assertEqual(refused("--overload-status", "500")[0], 2)

    def test_warns_of_key_files_that_others_may_change(self):
        with tempfile.TemporaryDirectory() as folder:
            keys = pathlib.Path(folder) / "keys"
            keys.write_text("long-enough\n")
            for mode, warning in ((0o600, None), (0o640, None), (0o644, "may read these keys"), (0o602, "so add keys")):
                keys.chmod(mode)
                server = Server("--api-key-file", str(keys))
                self.assertEqual(server.end(), 0)
                self.assertEqual("chmod 600" in server.said, warning is not None, server.said)
                self.assertIn(warning or "", server.said)

    def test_an_admin_loads_and_others_ask(self):
        server = Server("--admin-key", "the-admin-key", environment={"ROCMFORGE_API_KEY": "the-user-key"})
        user, admin = {"x-api-key": "the-user-key"}, {"x-api-key": "the-admin-key"}
        model = {"model": "story-q4_k_m"}
        self.assertEqual(server.ask("/v1/models", headers={"x-api-key": ""})[0], 401)
        self.assertEqual(server.ask("/v1/models", headers=user)[0], 200)
        self.assertEqual(server.ask("/v1/models/unload", model, headers=user)[1]["error"]["code"], "admin_key_required")
        self.assertEqual(server.ask("/v1/models/unload", model, headers=admin)[0], 200)
        self.assertNotIn("models", server.ask("/health")[1])
        self.assertIn("models", server.ask("/health", headers=user)[1])
        self.assertEqual(server.end(), 0)

    def test_a_hangup_reloads_keys_and_models_and_ends_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            keys = pathlib.Path(folder) / "keys"
            models = pathlib.Path(folder) / "models"
            models.mkdir()
            keys.write_text("the-first-key\n")
            keys.chmod(0o600)
            server = Server("--api-key-file", str(keys), model=None, environment={"ROCMFORGE_MODELS": str(models)})

            def names(key):
                status, answer = server.ask("/v1/models", headers={"x-api-key": key})
                return [model["id"] for model in answer["data"]] if status == 200 else status

            self.assertEqual(names("the-first-key"), ["story-q4_k_m"])
            keys.write_text("the-second-key\n")
            (models / "added.gguf").symlink_to(MODEL)
            server.hang_up("models added")
            self.assertEqual(names("the-first-key"), 401)
            self.assertEqual(names("the-second-key"), ["story-q4_k_m", "added"])
            keys.write_text("short\n")
            (models / "added.gguf").unlink()
            server.hang_up("1 dropped")
            self.assertIn("the keys stay as they were", server.said)
            self.assertEqual(names("the-second-key"), ["story-q4_k_m"])
            self.assertEqual(server.end(), 0)
            self.assertNotIn("-key ", server.said)

    def test_logs_what_happened(self):
        server = Server("--log-format", "json")
        self.assertEqual(server.ask("/generate", {"prompt": "Once", "max_tokens": 3}, headers={"x-request-id": "mine"})[0], 200)
        self.assertEqual(server.ask("/generate", {"prompt": 5}, headers={"x-request-id": "bad"})[0], 400)
        self.assertEqual(server.ask("/v1/models/unload", {"model": "story-q4_k_m"})[0], 200)
        self.assertEqual(server.end(), 0)
        lines = [json.loads(line) for line in server.said.splitlines()]
        for line in lines:
            self.assertRegex(line["time"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
            self.assertIn(line["level"], ("info", "warning"))
        of = {line.get("id", line["message"]): line for line in lines}
        self.assertEqual(of["mine"]["completion_tokens"], 3)
        self.assertEqual(of["mine"]["status"], 200)
        self.assertEqual(of["mine"]["model"], "story-q4_k_m")
        self.assertGreater(of["mine"]["total_seconds"], 0)
        self.assertEqual(of["bad"]["status"], 400)
        self.assertIn("prompt", of["bad"]["error"])
        self.assertEqual(of["model loaded"]["model"], "story-q4_k_m")
        self.assertEqual(of["model unloaded"]["reason"], "unload")
        said = " ".join(line["message"] for line in lines)
        self.assertIn("drain begins", said)
        self.assertIn("drain ends", said)

    def test_a_log_that_nobody_reads_stops_nothing(self):
        server = Server()  # its stderr is a pipe of 64 KiB, and from now on nobody reads it
        with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as client:
            for _ in range(30):
                client.sendall(b"GET /v1/models/none HTTP/1.1\r\nHost: localhost\r\n\r\n" * 100)
                received = b""
                while received.count(b"HTTP/1.1 404") < 100:
                    received += client.recv(1 << 16)
        self.assertEqual(server.ask("/health")[0], 200)
        self.assertEqual(server.end(), 0)

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
