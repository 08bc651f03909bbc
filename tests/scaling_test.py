#!/usr/bin/env python3
"""Three servers behind HAProxy with the configuration of examples/haproxy: faults, prefix hits, added latency.

scaling_test.py BINARY. Needs haproxy. As root every server has a network namespace of its own, else a port of this one."""
import atexit
import concurrent.futures
import http.client
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import unittest

BINARY = os.path.abspath(sys.argv[1])
HUB = sys.argv[3] if sys.argv[2:3] == ["--hub"] else None  # the prefix of the namespaces, made by the parent process
ROOT = pathlib.Path(__file__).resolve().parent.parent
MODEL = ROOT / "models" / "story-q4_k_m.gguf"
CONFIG = ROOT / "examples" / "haproxy" / "haproxy.cfg"
HAPROXY = shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin")
N_SERVERS = 3
PATIENCE = 60
STORY = "Once upon a time there was a little rabbit who lived in a small house near the big wood. "


def free_ports(n):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(n)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


PORTS = [8080] * (1 + N_SERVERS) if HUB else free_ports(1 + N_SERVERS)
FRONT = ("127.0.0.1", PORTS[0])


def address(i):
    return (f"10.77.0.{i + 1}" if HUB else "127.0.0.1", PORTS[1 + i])


class Network:
    """A bridge in one namespace, and a namespace for every server on it."""

    def __init__(self):
        self.prefix = f"rf{os.getpid()}"
        self.names = [f"{self.prefix}hub"] + [f"{self.prefix}s{i}" for i in range(N_SERVERS)]

    def __enter__(self):
        for name in self.names:
            self.ip("netns", "add", name)
            self.ip("-n", name, "link", "set", "lo", "up")
        hub = self.names[0]
        self.ip("-n", hub, "link", "add", "br0", "type", "bridge")
        self.ip("-n", hub, "addr", "add", "10.77.0.254/24", "dev", "br0")
        self.ip("-n", hub, "link", "set", "br0", "up")
        for i, name in enumerate(self.names[1:]):
            self.ip("-n", hub, "link", "add", f"v{i}", "type", "veth", "peer", "name", "eth0", "netns", name)
            self.ip("-n", hub, "link", "set", f"v{i}", "master", "br0", "up")
            self.ip("-n", name, "addr", "add", f"10.77.0.{i + 1}/24", "dev", "eth0")
            self.ip("-n", name, "link", "set", "eth0", "up")
        return self

    def __exit__(self, *_):
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL, check=False)

    @staticmethod
    def ip(*words):
        subprocess.run(["ip", *words], check=True, capture_output=True)


class Server:
    def __init__(self, i, *flags):
        host, port = address(i)
        inside = ["ip", "netns", "exec", f"{HUB}s{i}"] if HUB else []
        self.process = subprocess.Popen([*inside, BINARY, "serve", str(MODEL), "--host", host, "--port", str(port), "-t", "1",
                                         "--overload-status", "503", "--drain-seconds", "20", *flags], stderr=subprocess.DEVNULL)
        atexit.register(self.process.kill)
        self.address = (host, port)
        wait_for(lambda: get(self.address, "/ready") == 200, "a server that is ready")

    def tell(self, number):
        self.process.send_signal(number)

    def end(self, number=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.send_signal(number)
        return self.process.wait(PATIENCE)


def wait_for(condition, what):
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"there was not {what} within {PATIENCE} s")
        time.sleep(0.02)


def get(where, path):
    connection = http.client.HTTPConnection(*where, timeout=2)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    except OSError:
        return 0
    finally:
        connection.close()


def chat(where, system, question, n_tokens=4, stream=False, on_start=None):
    """The usage of an answer, or its text when it is a stream that ended properly. Raises for anything else."""
    body = {"messages": [{"role": "system", "content": system}, {"role": "user", "content": question}], "max_tokens": n_tokens,
            "ignore_eos": True, "temperature": 0, "stream": stream}
    connection = http.client.HTTPConnection(*where, timeout=PATIENCE)
    try:
        connection.request("POST", "/v1/chat/completions", json.dumps(body))
        answer = connection.getresponse()
        if answer.status != 200:
            raise RuntimeError(f"status {answer.status}: {answer.read()[:200]}")
        if not stream:
            return json.loads(answer.read())["usage"]
        text = answer.readline().decode()
        if on_start:
            on_start()
        text += answer.read().decode()
        if "data: [DONE]" not in text or '"error"' in text:
            raise RuntimeError(f"the stream was cut: ...{text[-200:]!r}")
        return text
    finally:
        connection.close()


class Load:
    """Clients that ask one after the other until they are stopped. Every request that fails is kept."""

    def __init__(self, n_clients=4, n_tokens=16, where=None):
        self.where = where or FRONT
        self.failed, self.n_done, self.slowest = [], 0, 0.0
        self.is_over = threading.Event()
        self.lock = threading.Lock()
        self.threads = [threading.Thread(target=self.run, args=(i, n_tokens)) for i in range(n_clients)]

    def run(self, client, n_tokens):
        i = 0
        while not self.is_over.is_set():
            began = time.monotonic()
            try:
                chat(self.where, f"{client} {i} " + STORY, "Go on.", n_tokens)
                error = None
            except Exception as e:  # what a client sees, whatever it is
                error = repr(e)
            with self.lock:
                self.n_done += 1
                self.slowest = max(self.slowest, time.monotonic() - began)
                if error:
                    self.failed.append(error)
            if error:
                time.sleep(0.05)
            i += 1

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.is_over.set()
        for thread in self.threads:
            thread.join()

    def go_on(self, n):
        """Waits for so many further requests."""
        goal = self.n_done + n
        wait_for(lambda: self.n_done >= goal, f"{n} further requests")


class ScalingTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.servers = [Server(i) for i in range(N_SERVERS)]
        text = CONFIG.read_text()
        subprocess.run([HAPROXY, "-c", "-q", "-f", str(CONFIG)], check=True)  # as it is in the example
        text, n = re.subn(r"bind :8080", f"bind {FRONT[0]}:{FRONT[1]}", text)
        assert n == 1
        for i in range(N_SERVERS):
            text, n = re.subn(rf"(server s{i + 1}) \S+", rf"\1 {address(i)[0]}:{address(i)[1]}", text)
            assert n == 1
        text += "  http-response set-header X-Server %s\n"
        cls.config = tempfile.NamedTemporaryFile("w", suffix=".cfg")
        cls.config.write(text)
        cls.config.flush()
        cls.proxy = subprocess.Popen([HAPROXY, "-db", "-q", "-f", cls.config.name])
        atexit.register(cls.proxy.kill)
        wait_for(lambda: get(FRONT, "/ready") == 200, "a proxy that answers")

    @classmethod
    def tearDownClass(cls):
        cls.proxy.terminate()
        cls.proxy.wait(PATIENCE)
        cls.config.close()
        for server in cls.servers:
            assert server.end() == 0

    def restart(self, i, *flags):
        self.servers[i].end(signal.SIGKILL)
        self.servers[i] = Server(i, *flags)
        time.sleep(1.5)  # until the proxy has seen it

    def streams(self, pool, n):
        """So many streams that have begun, each with a prompt of its own."""
        begun = threading.Semaphore(0)
        out = [pool.submit(chat, FRONT, f"{i}. " + STORY, "Go on.", 500, True, begun.release) for i in range(n)]
        for _ in out:
            self.assertTrue(begun.acquire(timeout=PATIENCE))
        return out

    def report(self, what, load):
        print(f"{what}: {load.n_done} requests, {len(load.failed)} failed, slowest {load.slowest:.2f} s", flush=True)
        self.assertEqual(load.failed, [])

    def test_a_killed_server_loses_no_request_that_had_not_begun(self):
        with concurrent.futures.ThreadPoolExecutor(12) as pool, Load() as load:
            streams = self.streams(pool, 12)
            self.servers[0].tell(signal.SIGKILL)
            load.go_on(40)
            n_cut = sum(stream.exception(PATIENCE) is not None for stream in streams)
        self.report(f"kill -9 ({n_cut} of 12 streams cut)", load)
        self.assertLess(n_cut, 12)  # those of the others go on
        self.restart(0)

    def test_a_server_that_is_told_to_end_ends_its_streams(self):
        with concurrent.futures.ThreadPoolExecutor(12) as pool, Load() as load:
            streams = self.streams(pool, 12)
            self.servers[1].tell(signal.SIGTERM)
            load.go_on(40)
            for stream in streams:
                self.assertIsNone(stream.exception(PATIENCE))
            self.assertEqual(self.servers[1].process.wait(PATIENCE), 0)
        self.report("SIGTERM (0 of 12 streams cut)", load)
        self.restart(1)

    def test_a_server_that_hangs_loses_no_request_that_had_not_begun(self):
        with Load() as load:
            load.go_on(8)
            self.servers[2].tell(signal.SIGSTOP)
            load.go_on(80)
        self.report("SIGSTOP", load)
        self.servers[2].tell(signal.SIGCONT)
        self.restart(2)

    def test_a_full_queue_sends_requests_elsewhere(self):
        self.restart(0, "--parallel", "1", "--queue", "1")
        full = Load(where=self.servers[0].address, n_tokens=400)
        with full, Load() as load:
            load.go_on(40)
        n_refused = sum("status 503" in error and "queue_full" in error for error in full.failed)
        self.report(f"full queue ({n_refused} refused by the server itself)", load)
        self.assertGreater(n_refused, 0)
        self.restart(0)

    def test_a_rolling_restart_loses_nothing(self):
        with Load() as load:
            for i in range(N_SERVERS):
                load.go_on(8)
                self.assertEqual(self.servers[i].end(), 0)
                self.restart(i)
            load.go_on(8)
        self.report("rolling restart", load)

    def test_prefixes_are_found_as_on_one_server(self):
        def hits(where, name):
            prompts = [f"{name} {i}. " + STORY * 6 for i in range(8)]
            order = [(prompt, f"Question {j}?", 1) for j in range(16) for prompt in prompts]
            random.Random(1).shuffle(order)
            with concurrent.futures.ThreadPoolExecutor(12) as pool:
                usages = list(pool.map(lambda one: chat(where, *one), order))
            cached = sum(usage["prompt_tokens_details"]["cached_tokens"] for usage in usages)
            return cached / sum(usage["prompt_tokens"] for usage in usages)

        one, three = hits(self.servers[0].address, "Alone"), hits(FRONT, "Among")
        print(f"prefix hits: {one:.3f} of the prompt tokens on one server, {three:.3f} on three behind the proxy", flush=True)
        self.assertGreater(one, 0.5)
        self.assertGreaterEqual(three, 0.9 * one)

    def test_equal_beginnings_reach_one_server(self):
        text = [{"type": "text", "text": STORY}]
        rest = {"role": "user", "content": "more " * 40000}  # more than the proxy's buffer, and than the context
        forms = {"messages": lambda i: {"messages": [{"role": "system", "content": STORY}, {"role": "user", "content": f"{i}"}]},
                 "parts": lambda i: {"messages": [{"role": "user", "content": text}, {"role": "user", "content": f"{i}"}]},
                 "prompt": lambda i: {"prompt": STORY, "seed": i},
                 "large": lambda i: {"messages": [{"role": "system", "content": STORY}, {**rest, "name": f"{i}"}]}}
        for name, form in forms.items():
            found = set()
            for i in range(6):
                time.sleep(0.05)  # the bound is one request now: until the proxy has forgotten the last one
                connection = http.client.HTTPConnection(*FRONT, timeout=PATIENCE)
                path = "/v1/completions" if name == "prompt" else "/v1/chat/completions"
                connection.request("POST", path, json.dumps({**form(i), "max_tokens": 1}))
                answer = connection.getresponse()
                self.assertEqual(answer.status, 400 if name == "large" else 200, answer.read()[:300])
                found.add(answer.getheader("X-Server"))
                connection.close()
            self.assertEqual(len(found), 1, name)

    def test_the_proxy_adds_less_than_half_a_millisecond(self):
        body = json.dumps({"messages": [{"role": "user", "content": STORY}]})  # no step of the model, which would add noise
        target = [http.client.HTTPConnection(*where, timeout=PATIENCE) for where in (self.servers[0].address, FRONT)]

        def seconds(connection):
            began = time.perf_counter()
            connection.request("POST", "/apply-template", body)
            answer = connection.getresponse()
            answer.read()
            self.assertEqual(answer.status, 200)
            return time.perf_counter() - began

        for connection in target * 20:
            seconds(connection)
        pairs = [[seconds(connection) for connection in target] for _ in range(500)]
        for connection in target:
            connection.close()
        direct, proxied = (statistics.median(times) * 1e3 for times in zip(*pairs))
        added = statistics.median(b - a for a, b in pairs) * 1e3
        print(f"latency: {direct:.2f} ms direct, {proxied:.2f} ms through the proxy, {added:.2f} ms added (median of {len(pairs)} pairs)", flush=True)
        self.assertLessEqual(added, 0.5)


def main():
    if HAPROXY is None:
        print("skipped: haproxy is missing (apt install haproxy)")
        return 0
    if HUB is None and os.geteuid() == 0 and shutil.which("ip"):
        try:
            with Network() as network:
                here = [sys.executable, __file__, BINARY, "--hub", network.prefix]
                return subprocess.run(["ip", "netns", "exec", network.names[0], *here], check=False).returncode
        except subprocess.CalledProcessError as e:
            print(f"no network namespaces here ({e.stderr.decode().strip()}): the servers share this one")
    return 0 if unittest.main(argv=[sys.argv[0], "-v"], exit=False).result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
