#!/usr/bin/env python3
"""The Debian package in a fresh Debian: install, run, serve, upgrade, purge.

usage: deb_test.py FOLDER_OF_PACKAGES

Makes the root with mmdebstrap, from the sources that this machine's own apt uses. Needs root and a network. Skips where
there is no mmdebstrap, no root, or no way to make the fresh root.
"""
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request

PACKAGES = pathlib.Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else None
UNIT = "usr/lib/systemd/system/rocmforge.service"
MODELS = "var/lib/rocmforge/models"
EXAMPLE = pathlib.Path(__file__).resolve().parent.parent / "examples/lazy_plan.cpp"


def run(*command, check=True, **options):
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=900, **options)
    if check and done.returncode != 0:
        raise AssertionError(f"{command}: exit {done.returncode}\n{done.stdout}")
    return done.stdout


def apt_sources():
    """Debian's lines of this machine's apt, and the suite of this machine's release."""
    suite = re.search(r"^VERSION_CODENAME=(\w+)", pathlib.Path("/etc/os-release").read_text(), re.M).group(1)
    rows = run("apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT) $(ORIGIN)",
               "Created-By: Packages").split("\n")
    lines = []
    for row in rows:
        uri, _, rest = row.partition(" ")
        parts = rest.split(" ")
        if len(parts) == 3 and parts[2] == "Debian" and parts[0].split("-")[0] == suite:
            lines.append(f"deb {uri} {parts[0]} {parts[1]}")
    return suite, lines


def why_not():
    if os.geteuid() != 0:
        return "needs root"
    if not shutil.which("mmdebstrap"):
        return "needs mmdebstrap: apt-get install mmdebstrap"
    if not apt_sources()[1]:
        return "this machine's apt knows no Debian archive; apt-get update helps where its lists are missing"
    return None


def package(name):
    found = sorted(PACKAGES.glob(f"{name}_*.deb"))
    assert len(found) == 1, f"{PACKAGES}: {len(found)} packages {name}"
    return found[0]


def with_version(source, version, folder):
    """A copy of a package under another version."""
    tree = folder / f"{source.stem}-{version}"
    run("dpkg-deb", "-R", source, tree)
    control = tree / "DEBIAN/control"
    control.write_text(re.sub(r"^Version: .*$", f"Version: {version}", control.read_text(), flags=re.M))
    out = folder / f"rocmforge_{version}.deb"
    run("dpkg-deb", "-Zgzip", "-z1", "-b", tree, out)
    return out


class Root:
    """A Debian under `folder`. Commands get a /proc of their own, gone when they end."""

    def __init__(self, folder):
        self.folder = folder
        suite, lines = apt_sources()
        run("mmdebstrap", "--mode=root", "--variant=minbase", "--skip=cleanup/apt", suite, folder, *lines)
        # No daemon may start in here.
        policy = folder / "usr/sbin/policy-rc.d"
        policy.write_text("#!/bin/sh\nexit 101\n")
        policy.chmod(0o755)

    def command(self, *parts, user="root:root"):
        inside = ["chroot", f"--userspec={user}", self.folder, "env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
                  "LC_ALL=C.UTF-8", "DEBIAN_FRONTEND=noninteractive", *parts]
        script = 'mount -t proc proc "$0/proc" && exec "$@"'
        return [str(part) for part in ["unshare", "--mount", "sh", "-c", script, self.folder, *inside]]

    def run(self, *parts, check=True, **options):
        return run(*self.command(*parts, **options), check=check)

    def install(self, deb):
        shutil.copy(deb, self.folder / "tmp")
        return self.run("apt-get", "install", "-y", "--no-install-recommends", "--allow-downgrades", "-o",
                        "APT::Sandbox::User=root", f"/tmp/{deb.name}")

    def exists(self, path):
        return os.path.lexists(self.folder / path)

    def has_user(self):
        return self.run("getent", "passwd", "rocmforge", check=False)

    def state(self):
        return self.run("dpkg-query", "-W", "-f", "${Status} ${Version}", "rocmforge", check=False)

    def traces(self):
        """Paths with our name outside of /tmp and /proc, sorted; dpkg's books are searched, too."""
        found = []
        for folder, folders, files in os.walk(self.folder):
            inside = os.path.relpath(folder, self.folder)
            if inside == ".":
                folders[:] = [name for name in folders if name not in ("tmp", "proc")]
            found += [os.path.join(inside, name) for name in folders + files if "rocmforge" in name]
        return sorted(found)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@unittest.skipIf(why_not(), why_not())
class Package(unittest.TestCase):
    """Every test starts from the installed package and the default configuration."""

    @classmethod
    def setUpClass(cls):
        cls.work = pathlib.Path(tempfile.mkdtemp(prefix="rocmforge-deb-"))
        cls.addClassCleanup(shutil.rmtree, cls.work)
        cls.work.chmod(0o755)
        cls.deb = package("rocmforge")
        cls.version = run("dpkg-deb", "-f", cls.deb, "Version").strip()
        try:
            cls.root = Root(cls.work / "root")
            cls.root.run("true")
        except AssertionError as error:
            raise unittest.SkipTest(f"no fresh root can be made here: {error}") from error
        cls.before = cls.root.traces()

    def setUp(self):
        if self.version not in self.root.state():
            self.root.install(self.deb)

    def unit(self, key):
        text = (self.root.folder / UNIT).read_text()
        return re.findall(rf"^{key}=(.*)$", text, re.M)

    def test_depends_on_no_other_package_of_ours(self):
        for field in ("Depends", "Recommends", "Pre-Depends"):
            self.assertNotIn("rocmforge", run("dpkg-deb", "-f", self.deb, field))

    def test_modules_belong_to_the_same_version_and_are_found(self):
        for name in ("rocmforge-hip", "rocmforge-cuda"):
            for deb in PACKAGES.glob(f"{name}_*.deb"):
                self.assertIn(f"rocmforge (= {self.version})", run("dpkg-deb", "-f", deb, "Depends"))
                self.assertRegex(run("dpkg-deb", "-c", deb), rf"\./usr/lib/rocmforge/lib{name}\.so\n")
                self.assertIn(f"no lib{name}.so", self.root.run("rocmforge", "devices"))
                self.root.install(deb)
                self.assertNotIn(f"no lib{name}.so", self.root.run("rocmforge", "devices"))
                self.root.run("apt-get", "purge", "-y", name)

    def test_library_builds_a_program_with_what_it_depends_on(self):
        before = self.root.run("dpkg-query", "-W", "-f", "${Package}\\n").split()
        self.root.install(package("librocmforge-dev"))
        self.root.run("apt-get", "install", "-y", "--no-install-recommends", "g++", "pkgconf")
        shutil.copy(EXAMPLE, self.root.folder / "tmp/example.cpp")
        self.root.run("sh", "-c", "g++ /tmp/example.cpp -o /tmp/example $(pkg-config --cflags --libs rocmforge)")
        self.assertIn("after clear:", self.root.run("/tmp/example", "/usr/share/rocmforge/models/story-q4_k_m.gguf"))
        added = set(self.root.run("dpkg-query", "-W", "-f", "${Package}\\n").split()) - set(before)
        self.root.run("apt-get", "purge", "-y", *sorted(added))

    def test_run_writes_a_story(self):
        text = self.root.run("rocmforge", "run", "-p", "Once upon a time", "-n", "16", user="nobody:nogroup")
        self.assertGreater(len(text.split()), 8, text)

    def test_units_command_answers_as_the_units_user(self):
        user, command = self.unit("User")[0], self.unit("ExecStart")[0].split()
        cache = self.root.folder / "var/cache" / self.unit("CacheDirectory")[0]
        cache.mkdir(exist_ok=True)
        uid, gid = self.root.run("getent", "passwd", user).split(":")[2:4]
        os.chown(cache, int(uid), int(gid))  # systemd does both for CacheDirectory=
        port = free_port()
        server = subprocess.Popen(
            self.root.command(*self.unit("Environment"), *command, "--port", port, user=f"{user}:{user}"),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            self.assertEqual(200, self.wait_for_health(server, f"http://127.0.0.1:{port}/health"))
            owner = os.stat(f"/proc/{server.pid}").st_uid
            self.assertEqual(int(uid), owner)
        finally:
            server.terminate()
            output = server.communicate(timeout=60)[0]
        self.assertEqual(0, server.returncode, output)

    def wait_for_health(self, server, address):
        for _ in range(300):
            if server.poll() is not None:
                self.fail(f"the server ended: {server.stdout.read()}")
            try:
                with urllib.request.urlopen(address, timeout=5) as answer:
                    return answer.status
            except (urllib.error.URLError, OSError):
                time.sleep(0.1)
        return None

    def test_upgrade_keeps_a_changed_configuration(self):
        self.root.run("apt-get", "purge", "-y", "rocmforge")
        self.root.install(with_version(self.deb, "0.0.1", self.work))
        self.assertIn("0.0.1", self.root.state())
        config = self.root.folder / "etc/rocmforge/config.toml"
        config.write_text(config.read_text() + "port = 8081\n")
        self.root.install(self.deb)
        self.assertEqual(f"install ok installed {self.version}", self.root.state())
        self.assertIn("port = 8081", config.read_text())
        self.assertTrue(self.root.has_user())
        self.root.run("apt-get", "purge", "-y", "rocmforge")

    def test_remove_keeps_and_purge_removes_the_configuration(self):
        self.root.run("apt-get", "remove", "-y", "rocmforge")
        self.assertTrue(self.root.exists("etc/rocmforge/config.toml"))
        self.assertFalse(self.root.exists("usr/bin/rocmforge"))
        self.root.run("apt-get", "purge", "-y", "rocmforge")
        self.assertFalse(self.root.exists("etc/rocmforge"))

    def test_purge_leaves_nothing_but_the_models(self):
        self.assertTrue(self.root.has_user())
        self.assertIn("usr/bin/rocmforge", self.root.traces())
        model = self.root.folder / MODELS / "mine.gguf"
        model.write_bytes(b"GGUF")
        (self.root.folder / "var/lib/rocmforge/.cache").mkdir(exist_ok=True)
        (self.root.folder / "var/cache/rocmforge").mkdir(exist_ok=True)
        self.root.run("apt-get", "purge", "-y", "rocmforge")
        self.assertEqual(b"GGUF", model.read_bytes())
        self.assertEqual(self.before + ["var/lib/rocmforge"], self.root.traces())
        self.assertEqual(["models"], os.listdir(self.root.folder / "var/lib/rocmforge"))
        self.assertFalse(self.root.has_user())

        model.unlink()
        self.root.install(self.deb)
        self.root.run("apt-get", "purge", "-y", "rocmforge")
        self.assertEqual(self.before, self.root.traces())

    def test_systemd_sysusers_makes_the_same_user(self):
        without = self.root.has_user()
        self.assertIn(":/var/lib/rocmforge:/usr/sbin/nologin", without)
        self.root.run("apt-get", "purge", "-y", "rocmforge")
        self.root.run("apt-get", "install", "-y", "--no-install-recommends", "systemd-standalone-sysusers")
        self.root.install(self.deb)
        self.assertIn(":/var/lib/rocmforge:/usr/sbin/nologin", self.root.has_user())
        self.root.run("apt-get", "purge", "-y", "rocmforge", "systemd-standalone-sysusers")

    @unittest.skipUnless(shutil.which("systemd-analyze"), "needs systemd-analyze")
    def test_unit_is_valid_and_confined(self):
        unit = self.work / "rocmforge.service"
        # The program lies in the root, not on this machine.
        unit.write_text((self.root.folder / UNIT).read_text().replace("/usr/bin/rocmforge", "/bin/true"))
        self.assertEqual("", run("systemd-analyze", "verify", unit))
        run("systemd-analyze", "security", "--offline=true", "--threshold=20", unit)


if __name__ == "__main__":
    if PACKAGES is None:
        sys.exit(__doc__)
    unittest.main(argv=sys.argv[:1], verbosity=2)
