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
import time
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
            ready = re.search(r"ready: https?://[^ ]*:(\d+) serves", line)
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
    def test_speaks_https_and_reads_the_certificate_again(self):
        with tempfile.TemporaryDirectory() as folder:
            certificate, key = pathlib.Path(folder) / "llm.pem", pathlib.Path(folder) / "llm.key"

            def make(name):
                subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days",
                                "1", "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate],
                               check=True, capture_output=True)

            def curl(path, *more, scheme="https"):
                return subprocess.run(["curl", "-sS", "--max-time", "20", "--cacert", certificate, f"{scheme}://127.0.0.1:{server.port}{path}",
                                       *more], capture_output=True, text=True)

            make("first")
            server = Server("--tls-cert", str(certificate), "--tls-key", str(key))
            self.assertIn("ready: https://127.0.0.1:", server.said)
            done = curl("/v1/completions", "-d", json.dumps({"prompt": "Once upon a time", "max_tokens": 4, "temperature": 0}))
            self.assertEqual(json.loads(done.stdout)["usage"]["completion_tokens"], 4, done.stderr)
            done = curl("/v1/completions", "-N", "-d", json.dumps({"prompt": "Once", "max_tokens": 8, "stream": True}))
            self.assertTrue(done.stdout.endswith("data: [DONE]\n\n"), done.stdout + done.stderr)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("speaks HTTPS", curl("/health", scheme="http").stdout)

            old = certificate.read_text()
            make("second")
            self.assertNotEqual(old, certificate.read_text())
            self.assertNotEqual(curl("/health").returncode, 0, "the old certificate is shown still")
            server.hang_up("models added")
            self.assertIn("reload: new connections get the certificate", server.said)
            self.assertEqual(curl("/health").returncode, 0)
            key.write_text("noise")
            server.hang_up("models added")
            self.assertIn("reload: the certificate stays as it was: ", server.said)
            self.assertEqual(curl("/health").returncode, 0)
            self.assertEqual(server.end(), 0)

            code, said = refused("--port", "0", "--tls-cert", str(certificate), "--tls-key", str(key))
            self.assertEqual(code, 1)
            self.assertIn(f"'{key}' holds no usable key", said)
            self.assertEqual(refused("--port", "0", "--tls-cert", str(certificate))[0], 2, "one without the other")

    def test_the_next_turn_finds_the_last_one_computed(self):
        """Of a second turn everything up to the end of the first answer is found, in whole pages of 64 tokens."""
        server = Server("-c", "1024")
        question = "Once upon a time there was a little girl who lived by the sea. " * 6
        rest = {"model": "story-q4_k_m", "temperature": 0, "ignore_eos": True}

        def chat(messages):
            answer = server.ask("/v1/chat/completions", {"messages": messages, "max_tokens": 70, **rest})[1]
            usage = answer["usage"]
            return (answer["choices"][0]["message"]["content"], usage["prompt_tokens"] + usage["completion_tokens"],
                    usage["prompt_tokens_details"]["cached_tokens"])

        def responses(messages):
            answer = server.ask("/v1/responses", {"input": messages, "max_output_tokens": 70, **rest})[1]
            usage = answer["usage"]
            return answer["output"][-1]["content"][0]["text"], usage["total_tokens"], usage["input_tokens_details"]["cached_tokens"]

        def anthropic(messages):
            answer = server.ask("/v1/messages", {"messages": messages, "max_tokens": 70, **rest})[1]
            usage = answer["usage"]
            cached = usage["cache_read_input_tokens"]
            return answer["content"][-1]["text"], usage["input_tokens"] + cached + usage["output_tokens"], cached

        def hits():
            with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics", timeout=PATIENCE) as metrics:
                return int(float(re.search(r"rocmforge_prefix_cache_hits_total{[^}]*} (\S+)", metrics.read().decode()).group(1)))

        def ollama(messages):  # tells no cached tokens: the metrics do
            before = hits()
            body = {"model": "story-q4_k_m", "messages": messages, "stream": False, "options": {"temperature": 0, "num_predict": 70}}
            answer = server.ask("/api/chat", body)[1]
            return answer["message"]["content"], answer["prompt_eval_count"] + answer["eval_count"], hits() - before

        for turn, ask in enumerate((chat, responses, anthropic, ollama)):
            messages = [{"role": "user", "content": f"{turn}. {question}"}]
            text, n_tokens, cached = ask(messages)
            self.assertEqual(cached, 0, ask.__name__)
            messages += [{"role": "assistant", "content": text}, {"role": "user", "content": "And then?"}]
            _, _, cached = ask(messages)
            self.assertGreaterEqual(cached, (n_tokens - 2) // 64 * 64, ask.__name__)
        self.assertEqual(server.end(), 0)

    def test_the_next_turn_finds_calls_as_they_were_written(self):
        """The template renders calls over several lines, and the model writes them at random: the cache has its tokens."""
        with tempfile.TemporaryDirectory() as folder:
            template = pathlib.Path(folder) / "t.jinja"
            template.write_text(
                "{% if tools %}<s>[system]{% for t in tools %}{{ t | tojson }}{% endfor %}</s>\n{% endif %}"
                "{% for m in messages %}<s>[{{ m.role }}]{{ m.content or '' }}{% for c in m.tool_calls or [] %}<tool_call>\n"
                "{{ c.function | tojson(indent=3) }}\n</tool_call>{% endfor %}</s>\n{% endfor %}"
                "{% if add_generation_prompt %}<s>[assistant]{% endif %}")
            server = Server("-c", "1024", "--chat-template-file", str(template))
            parameters = {"type": "object", "additionalProperties": False, "required": ["text"],
                          "properties": {"text": {"type": "string", "minLength": 120, "maxLength": 160}}}
            about = {"name": "say", "description": "Says it.", "parameters": parameters}
            sampling = {"temperature": 1.5, "top_k": 0, "top_p": 1, "min_p": 0}
            question = "Once upon a time there was a little girl who lived by the sea. " * 3

            def chat(n):
                body = {"messages": [{"role": "user", "content": f"{n} {question}"}], "tools": [{"type": "function", "function": about}],
                        "max_tokens": 400, **sampling}
                first = server.ask("/v1/chat/completions", {**body, "tool_choice": "required", "parallel_tool_calls": False})[1]
                message = first["choices"][0]["message"]
                body["messages"] += [message, {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "Said."}]
                again = server.ask("/v1/chat/completions", {**body, "max_tokens": 1})[1]["usage"]
                return first["usage"]["total_tokens"], again["prompt_tokens_details"]["cached_tokens"]

            def responses(n):
                body = {"input": f"{n} {question}", "tools": [{"type": "function", **about}], "max_output_tokens": 400, **sampling}
                first = server.ask("/v1/responses", {**body, "tool_choice": "required", "parallel_tool_calls": False})[1]
                result = {"type": "function_call_output", "call_id": first["output"][-1]["call_id"], "output": "Said."}
                body.update(previous_response_id=first["id"], input=[result], max_output_tokens=1)
                again = server.ask("/v1/responses", body)[1]["usage"]
                return first["usage"]["total_tokens"], again["input_tokens_details"]["cached_tokens"]

            def anthropic(n):
                tool = {"name": "say", "description": "Says it.", "input_schema": parameters}
                body = {"messages": [{"role": "user", "content": f"{n} {question}"}], "tools": [tool], "max_tokens": 400, **sampling}
                choice = {"type": "any", "disable_parallel_tool_use": True}
                first = server.ask("/v1/messages", {**body, "tool_choice": choice})[1]
                result = {"type": "tool_result", "tool_use_id": first["content"][-1]["id"], "content": "Said."}
                body["messages"] += [{"role": "assistant", "content": first["content"]}, {"role": "user", "content": [result]}]
                again = server.ask("/v1/messages", {**body, "max_tokens": 1})[1]["usage"]
                usage = first["usage"]
                return usage["input_tokens"] + usage["cache_read_input_tokens"] + usage["output_tokens"], again["cache_read_input_tokens"]

            n_forced = 24  # at most: tokens at the end of a call that its grammar forces, so no step computed them
            for n, ask in enumerate((chat, responses, anthropic)):
                n_first, cached = ask(n)
                self.assertGreaterEqual(cached, (n_first - 2 - n_forced) // 64 * 64, ask.__name__)
            self.assertEqual(server.end(), 0)

    def test_names_and_templates_of_models_may_be_given(self):
        with tempfile.TemporaryDirectory() as folder:
            template = pathlib.Path(folder) / "t.jinja"
            template.write_text("{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}")
            server = Server("--alias", "claude-local", "--chat-template-file", str(template), "--temp", "0")
            listed = [model["id"] for model in server.ask("/v1/models")[1]["data"]]
            self.assertEqual(listed, ["story-q4_k_m", "claude-local"])
            body = {"model": "claude-local", "messages": [{"role": "user", "content": "Hi"}]}
            self.assertEqual(server.ask("/apply-template", body)[1]["prompt"], "[user]Hi")
            props = server.ask("/props")[1]
            self.assertEqual(props["chat_template"], template.read_text())
            self.assertEqual(props["default_generation_settings"]["params"]["temperature"], 0)
            answers = {server.ask("/v1/completions", {"prompt": "Once", "max_tokens": 5})[1]["choices"][0]["text"] for _ in range(3)}
            self.assertEqual(len(answers), 1, "the temperature of the flag is the default")
            self.assertEqual(server.end(), 0)
        self.assertIn("there is no model 'nothing'", refused("--port", "0", "--alias", "a=nothing")[1])
        self.assertIn("there is a model 'story-q4_k_m' already", refused("--port", "0", "--alias", "story-q4_k_m")[1])

    def test_keys_of_the_file_may_be_overridden(self):
        server = Server("--override-kv", ".context_length=int:2048", "-c", "2048", "--rope-scaling", "linear", "--rope-scale", "2")
        self.assertIn("2048 tokens per request", server.said)
        self.assertEqual(server.end(), 0)
        code, said = refused("--port", "0", "-c", "2048")
        self.assertEqual(code, 1)
        self.assertIn("--override-kv .context_length=int:2048", said)
        for flag in (["--override-kv", "a"], ["--rope-scale", "wide"], ["--rope-scaling", "magic"], ["--rope-freq-scale", "0"]):
            self.assertEqual(refused("--port", "0", *flag)[0], 2, flag)

    def test_answers_and_ends(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            server = Server()
            self.assertRegex(server.said, r"serves story-q4_k_m \(1024 tokens per request, \d+ in all\)")
            status, answer = server.ask("/generate", {"prompt": "Once upon a time", "max_tokens": 4, "temperature": 0})
            self.assertEqual(status, 200)
            self.assertEqual(len(answer["tokens"]), 4)
            self.assertEqual(server.ask("/v1/models")[1]["data"][0]["max_model_len"], 1024)
            self.assertEqual(server.end(number), 0)

    def test_a_second_signal_ends_at_once(self):
        server = Server("--drain-seconds", "40")
        with socket.create_connection(("127.0.0.1", server.port)) as client:
            body = json.dumps({"prompt": "Once", "max_tokens": 1000, "ignore_eos": True, "stream": True, "n": 8})
            client.sendall(f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
            client.recv(100)
            server.process.send_signal(signal.SIGTERM)
            for line in server.process.stderr:
                if "drain begins" in line:
                    break
            self.assertEqual(server.end(), 1)

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
            server = Server("--api-key-file", str(keys), "--rescan-seconds", "0", model=None, environment={"ROCMFORGE_MODELS": str(models)})

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

    def test_models_that_come_and_go_are_noticed(self):
        with tempfile.TemporaryDirectory() as folder:
            models = pathlib.Path(folder)
            server = Server("--rescan-seconds", "1", model=None, environment={"ROCMFORGE_MODELS": str(models)})

            def wait_for(expected):
                deadline = time.monotonic() + PATIENCE
                while time.monotonic() < deadline:
                    found = [model["id"] for model in server.ask("/v1/models")[1]["data"]]
                    if found == expected:
                        break
                    time.sleep(0.1)
                self.assertEqual(found, expected)

            wait_for(["story-q4_k_m"])
            (models / "added.gguf").symlink_to(MODEL)
            (models / "noise.gguf").write_bytes(b"GGUF")  # no model: the others come nevertheless
            wait_for(["story-q4_k_m", "added"])
            answer = server.ask("/v1/completions", {"model": "added", "prompt": "Once", "max_tokens": 2})
            self.assertEqual(answer[0], 200, answer)
            (models / "added.gguf").unlink()
            wait_for(["story-q4_k_m"])
            self.assertEqual(server.end(), 0)
            self.assertIn("reload: 1 models added, 0 changed, 0 dropped", server.said)

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
