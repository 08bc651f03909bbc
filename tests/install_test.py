#!/usr/bin/env python3
"""An installed ROCmForge runs, and other projects build against it.

usage: install_test.py BUILD_FOLDER SOURCE_FOLDER
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILD, SOURCE = (pathlib.Path(path).resolve() for path in sys.argv[1:3])
EXAMPLE = SOURCE / "examples" / "lazy_plan.cpp"


def run(*command, **options):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=600, **options)
    if done.returncode != 0:
        raise AssertionError(f"{command}: exit {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="rocmforge-install-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.prefix = cls.folder / "prefix"

        run("cmake", "--install", BUILD, "--prefix", cls.prefix)
        cls.model = cls.prefix / "share/rocmforge/models/story-q4_k_m.gguf"
        cls.environment = {**os.environ, "HOME": str(cls.folder)}

    def test_program_finds_the_installed_model(self):
        program = self.prefix / "bin/rocmforge"
        text = run(program, "run", "-p", "Once upon a time", "-n", "4", cwd=self.folder, env=self.environment)
        self.assertTrue(text.strip())

    def test_cmake_project_links_the_imported_target(self):
        project = self.folder / "consumer"
        project.mkdir()
        (project / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.25)\n"
            "project(consumer LANGUAGES CXX)\n"
            "find_package(rocmforge 0.1 REQUIRED)\n"
            f"add_executable(consumer {EXAMPLE})\n"
            "target_link_libraries(consumer PRIVATE rocmforge::rocmforge)\n")
        run("cmake", "-G", "Ninja", "-S", project, "-B", project / "build", f"-DCMAKE_PREFIX_PATH={self.prefix}")
        run("cmake", "--build", project / "build")
        self.assertIn("after clear:", run(project / "build/consumer", self.model))

    def test_pkg_config_gives_flags_that_link(self):
        flags = ["pkg-config", f"--define-variable=prefix={self.prefix}"]
        environment = {**os.environ, "PKG_CONFIG_PATH": str(next(self.prefix.glob("lib*/**/pkgconfig")))}
        includes = run(*flags, "--cflags", "rocmforge", env=environment).split()
        libraries = run(*flags, "--libs", "rocmforge", env=environment).split()
        source = self.folder / "pkg.cpp"
        source.write_text("#include <rocmforge/rocmforge.h>\n#include <cstdio>\n"
                          "int main(int, char** argv) {\n"
                          "  const auto model = rocmforge::Model::open(argv[1]);\n"
                          "  if (!model.ok()) return 1;\n"
                          "  std::printf(\"%u layers\\n\", (*model)->plan().spec().n_layers);\n}\n")
        run("g++", source, "-o", self.folder / "pkg", *includes, *libraries)
        self.assertRegex(run(self.folder / "pkg", self.model), r"^[0-9]+ layers")

    def test_subdirectory_of_another_project_configures_without_our_warnings(self):
        project = self.folder / "parent"
        project.mkdir()
        (project / "main.cpp").write_text("#include <rocmforge/rocmforge.h>\nint main() {}\n")
        (project / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.25)\n"
            "project(parent LANGUAGES CXX)\n"
            f"add_subdirectory({SOURCE} rocmforge)\n"
            "add_executable(parent main.cpp)\n"
            "target_link_libraries(parent PRIVATE rocmforge::rocmforge)\n")
        run("cmake", "-G", "Ninja", "-S", project, "-B", project / "build", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON")
        commands = json.loads((project / "build/compile_commands.json").read_text())
        ours = [row["command"] for row in commands if row["file"].startswith(str(SOURCE))]
        self.assertTrue(ours)
        self.assertFalse([command for command in ours if "-Werror" in command])
        main = next(row for row in commands if row["file"].endswith("/main.cpp") and "parent" in row["file"])
        run(*main["command"].split(), cwd=main["directory"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
