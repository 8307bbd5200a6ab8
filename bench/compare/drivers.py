"""Builds kolo, and the drivers: one program a library, of that library's shim and the loop that all have in common."""

import os
import pathlib
import shutil

from compare.processes import SOURCE, StepError, run_step

HERE = pathlib.Path(__file__).resolve().parent
BUILT = ("bin/kolorun", "bin/kolo-perf", "bin/kolo-info", "lib/libkolo.so", "lib/libkolo_driver.so")


class Drivers:
    """What is built lies in the cache folder. `kolo_build` is a build of kolo to use instead of an own one."""

    def __init__(self, cache, kolo_build=None):
        self.cache = cache
        self.kolo_build = kolo_build or cache / "kolo"
        self.is_own_build = kolo_build is None
        self.folder = cache / "drivers"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.log = cache / "build.log"
        self.log.write_text("", encoding="utf-8")

    def build_kolo(self):
        if self.is_own_build:
            generator = ["-G", "Ninja"] if shutil.which("ninja") else []
            run_step(["cmake", "-S", SOURCE, "-B", self.kolo_build, *generator, "-DCMAKE_BUILD_TYPE=Release",
                      "-DKOLO_TESTS=OFF"], self.log)
            run_step(["cmake", "--build", self.kolo_build, "--parallel", len(os.sched_getaffinity(0))], self.log)
        for name in BUILT:
            if not (self.kolo_build / name).is_file():
                raise StepError(f"{self.kolo_build} has no {name}; build kolo there with its tools and its bench")

    def kolo_program(self, name):
        return self.kolo_build / "bin" / name

    def driver_library(self):
        """What all drivers have in common, for a shim in another language."""
        return self.kolo_build / "lib" / "libkolo_driver.so"

    def compile(self, key, shim, compiler, variables=None):
        """The driver of a library."""
        target, libraries = self.folder / f"driver-{key}", self.kolo_build / "lib"
        run_step([compiler, "-std=gnu11", "-O2", "-Wall", "-Wextra", f"-I{SOURCE / 'include'}", f"-I{HERE.parent}",
                  HERE / shim, "-o", target, f"-L{libraries}", "-lkolo_driver", "-lkolo", f"-Wl,-rpath,{libraries}"], self.log, variables)
        return target
