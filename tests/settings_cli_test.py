#!/usr/bin/env python3
"""Flags from files and the environment; shell completion and man pages.  settings_cli_test.py BINARY"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

BINARY = sys.argv[1]
ROOT = pathlib.Path(__file__).resolve().parent.parent
STORY = ROOT / "models" / "story-q4_k_m.gguf"
GOOD, BAD_USAGE = 0, 2


class SettingsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name)

    def run_with(self, text, *words, **environment):
        """The program with a user's config.toml of this text."""
        config = self.path / "rocmforge"
        config.mkdir(exist_ok=True)
        (config / "config.toml").write_text(text)
        clean = {name: value for name, value in os.environ.items() if not name.startswith("ROCMFORGE_")}
        return subprocess.run([BINARY, *map(str, words)], capture_output=True, text=True, timeout=60,
                              stdin=subprocess.DEVNULL,
                              env=clean | {"XDG_CONFIG_HOME": str(self.path)} | environment)

    def tokens(self, text, *words, **environment):
        done = self.run_with(text, "run", STORY, "--json", *words, **environment)
        self.assertEqual(done.returncode, GOOD, done.stderr)
        return len(json.loads(done.stdout)["tokens"])

    def refused(self, text, says, *words, **environment):
        done = self.run_with(text, *(words or ("run", STORY, "-n", "1")), **environment)
        self.assertEqual(done.returncode, BAD_USAGE, done.stderr)
        self.assertIn(says, done.stderr)

    def test_a_file_gives_flags_that_were_not_given(self):
        story = self.run_with("temp = 0\n", "run", STORY, "-n", "20").stdout
        self.assertEqual(story, self.run_with("", "run", STORY, "-n", "20", "--temp", "0").stdout)
        self.assertEqual(story, self.run_with("[run]\ntemp = 0.0 # none\n", "run", STORY, "-n", "20").stdout)

    def test_flags_win_over_the_environment_and_that_over_the_file(self):
        text = "[run]\nstop = 'x'\nseed = 1\ntemp = 0.8\n"
        by_file = self.run_with(text, "run", STORY, "-n", "20").stdout
        by_environment = self.run_with(text, "run", STORY, "-n", "20", ROCMFORGE_SEED="2").stdout
        by_flag = self.run_with(text, "run", STORY, "-n", "20", "--seed", "1", ROCMFORGE_SEED="2").stdout
        self.assertNotEqual(by_file, by_environment)
        self.assertEqual(by_file, by_flag)

    def test_a_commands_own_table_wins_and_other_tables_do_not_count(self):
        text = "seed = 5\ntemp = 0.8\n[run]\nseed = 1\n[chat]\nseed = 7\n"
        one = self.run_with(text, "run", STORY, "-n", "20").stdout
        self.assertEqual(one, self.run_with("", "run", STORY, "-n", "20", "--seed", "1", "--temp", "0.8").stdout)

    def test_lists_and_booleans(self):
        text = '[run]\nstop = [\n  "zebra", # not said\n  ".",\n]\nignore-eos = true\ntemp = 0\n'
        self.assertNotIn(".", self.run_with(text, "run", STORY, "-n", "200").stdout)
        self.assertEqual(self.tokens("[run]\nignore-eos = false\ntemp = 0\n", "-n", "3"), 3)
        self.refused("[run]\nstats = 'maybe'\n", "neither true nor false")
        self.refused("", "neither true nor false", ROCMFORGE_STATS="maybe")

    def test_the_model_may_stand_in_the_file(self):
        done = self.run_with(f"[run]\nmodel = '{STORY}'\n", "run", "-n", "2", "--json")
        self.assertEqual(done.returncode, GOOD, done.stderr)
        done = self.run_with("[run]\nmodel = '/nowhere.gguf'\n", "run", "-n", "2")
        self.assertIn("/nowhere.gguf", done.stderr)
        self.assertEqual(self.tokens("[run]\nmodel = '/nowhere.gguf'\n", "-n", "2"), 2)

    def test_mistakes_are_named_with_their_line(self):
        for text, says in (("x = 1\n", "line 1: there is no flag '--x'"), ("\n[run]\nport = 1\n", "line 3: there is no"),
                           ("[walk]\nseed = 1\n", "line 2: 'walk' is no command"), ("seed\n", "'=' is missing"),
                           ("seed = \n", "a value is"), ("seed = 'a\n", "does not end"), ("seed = [1", "is missing"),
                           ("seed = 1 2\n", "something follows"), ("seed = 1\nseed = 2\n", "line 2: 'seed' stands"),
                           ('load = "\\q"\n', "escape"), ("[run\n", "']' is missing"), ("= 1\n", "name is missing")):
            with self.subTest(text):
                self.refused(text, says)

    def test_a_file_that_is_named_must_be_there(self):
        self.refused("", "cannot be read", "run", STORY, "--config", self.path / "none.toml")
        self.refused("", "cannot be read", "run", STORY, ROCMFORGE_CONFIG=str(self.path / "none.toml"))
        other = self.path / "other.toml"
        other.write_text("x = 1\n")
        self.refused("", "other.toml", "run", STORY, "--config", other)

    def test_the_packages_example_is_valid_with_every_line_set(self):
        example = ROOT / "packaging" / "config.toml"
        if not example.exists():
            self.skipTest("no packaging/config.toml")
        lines = [line[1:].lstrip() if line.startswith("#") and "=" in line and "`" not in line else line
                 for line in example.read_text().splitlines()]
        done = self.run_with("\n".join(lines), "run", STORY, "-n", "1")
        self.assertEqual(done.returncode, GOOD, done.stderr)


    def test_the_packages_example_names_every_flag_of_serve(self):
        example = ROOT / "packaging" / "config.toml"
        if not example.exists():
            self.skipTest("no packaging/config.toml")
        left_out = {"help", "config", "api-key", "admin-key", "fuse", "trace"}  # keys belong into files of their own
        done = subprocess.run([BINARY, "serve", "--help"], capture_output=True, text=True, timeout=60)
        flags = set(re.findall(r"^ +(?:-\w,)?--([a-z-]+)", done.stdout, re.M)) - left_out
        named = set(re.findall(r"^(?:# )?([a-z-]+) = ", example.read_text(), re.M))
        self.assertGreater(len(flags), 20)
        self.assertEqual(flags - named, set())
        self.assertEqual(named - flags, set())


class TextsTest(unittest.TestCase):
    def written(self, *words):
        done = subprocess.run([BINARY, *words], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, GOOD, done.stderr)
        return done.stdout

    def test_bash_completes_commands_flags_and_files(self):
        script = self.written("completion", "bash")
        def offered(*words):
            line = " ".join(f"'{word}'" for word in words)
            test = f"{script}\nCOMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _rocmforge; printf '%s\\n' \"${{COMPREPLY[@]}}\""
            return subprocess.run(["bash", "-c", test], capture_output=True, text=True, cwd=ROOT).stdout.split()
        self.assertIn("serve", offered("rocmforge", "s"))
        self.assertNotIn("run", offered("rocmforge", "s"))
        self.assertIn("--drain-seconds", offered("rocmforge", "serve", "--d"))
        self.assertNotIn("--drain-seconds", offered("rocmforge", "run", "--d"))

    def test_scripts_are_valid_in_their_shells(self):
        for shell, check in (("bash", ["bash", "-n"]), ("zsh", ["zsh", "-n"]), ("fish", ["fish", "--no-execute"])):
            script = self.written("completion", shell)
            self.assertIn("drain", script)
            if shutil.which(shell):
                done = subprocess.run(check, input=script, capture_output=True, text=True)
                self.assertEqual((done.returncode, done.stderr), (0, ""), shell)

    def test_a_man_page_names_every_flag_of_its_command(self):
        for command in ("", "run", "serve", "bench"):
            page = self.written("manual", *filter(None, [command]))
            help_text = self.written(*filter(None, [command]), "--help")
            for word in help_text.replace(",", " ").split():
                if word.startswith("--"):
                    self.assertIn(word.replace("-", "\\-"), page, command)
            self.assertTrue(page.startswith(".TH "))
        if shutil.which("man"):
            done = subprocess.run(["man", "--warnings", "-l", "-"], input=self.written("manual", "serve"),
                                  capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_a_page_of_no_command_is_refused(self):
        done = subprocess.run([BINARY, "manual", "walk"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
