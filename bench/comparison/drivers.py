"""Builds kolo, and the drivers: one program a library, of that library's shim and the loop that all have in common."""

import os
import pathlib
import shutil

from comparison import processes

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parents[1]
BUILT = ("bin/kolorun", "bin/kolo-perf", "bin/kolo-info", "lib/libkolo.so", "lib/libkolo_driver.so")


def relative(path):
    """A path as a report shows it: within the source tree, without the way there."""
    path = pathlib.Path(path)
    return path.relative_to(SOURCE) if path.is_relative_to(SOURCE) else path


class BuildError(Exception):
    """Something could not be built; carries the end of what the compiler said."""


def run(command, log, environment=None, timeout_s=1800):
    """Runs a step of a build."""
    status, error = processes.run_logged(command, log, environment or {}, timeout_s)
    if error:
        raise BuildError(f"{command[0]}: {error}")
    if status != 0:
        tail = pathlib.Path(log).read_text(encoding="utf-8", errors="replace").splitlines()[-12:]
        raise BuildError("\n  ".join([f"{' '.join(map(str, command[:3]))} ... failed ({relative(log)} has all of it):",
                                      *tail]))


class Drivers:
    """What is built lies in the cache folder. `kolo_build` is a build of kolo to use instead of an own one."""

    def __init__(self, cache, kolo_build=None):
        self.cache = pathlib.Path(cache)
        self.kolo_build = pathlib.Path(kolo_build) if kolo_build else self.cache / "kolo"
        self.is_own_build = kolo_build is None
        self.folder = self.cache / "drivers"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.log = self.cache / "build.log"
        self.log.write_text("", encoding="utf-8")

    def build_kolo(self):
        if self.is_own_build:
            generator = ["-G", "Ninja"] if shutil.which("ninja") else []
            run(["cmake", "-S", SOURCE, "-B", self.kolo_build, *generator, "-DCMAKE_BUILD_TYPE=Release",
                 "-DKOLO_TESTS=OFF"], self.log)
            run(["cmake", "--build", self.kolo_build, "--parallel", str(len(os.sched_getaffinity(0)))], self.log)
        for name in BUILT:
            if not (self.kolo_build / name).is_file():
                raise BuildError(f"{self.kolo_build} has no {name}; build kolo there with its tools and its bench")

    def kolo_program(self, name):
        return self.kolo_build / "bin" / name

    def driver_library(self):
        """What all drivers have in common, for a shim in another language."""
        return self.kolo_build / "lib" / "libkolo_driver.so"

    def compile(self, key, shim, compiler, environment=None):
        """The driver of a library."""
        target, libraries = self.folder / f"driver-{key}", self.kolo_build / "lib"
        run([compiler, "-std=gnu11", "-O2", "-Wall", "-Wextra", f"-I{SOURCE / 'include'}", HERE / shim, "-o", target,
             f"-L{libraries}", "-lkolo_driver", "-lkolo", f"-Wl,-rpath,{libraries}"], self.log, environment)
        return target
