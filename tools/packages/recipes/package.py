# Spack's recipe, for Spack 1.0 or later and a repository of one's own (spack repo create FOLDER NAME; spack repo add
# FOLDER/spack_repo/NAME): packages/kolo/package.py there, and then
#     spack install kolo +python
# With the sources at hand instead: spack dev-build --source-path . kolo
# Tried: not with Spack; tidy.recipes reads it with Spack's names alone, and looks whether CMake has the options.
from spack_repo.builtin.build_systems.cmake import CMakePackage

from spack.package import *


class Kolo(CMakePackage):
    """Collectives between the processes of one many-core machine, or of a few, in C11."""

    license("Apache-2.0")

    version("0.1.0")  # its sum is in SHA256SUMS of the release

    variant("machines", default=True, description="Communicators of several machines")
    variant("tools", default=True, description="kolorun and the other programs")
    variant("mpi", default=True, description="A library that MPI programs preload, of any MPI")
    variant("python", default=False, description="The Python package kolo4py")

    depends_on("c", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("pkgconfig", type="build", when="+machines")
    depends_on("liburing@2.3:", when="+machines")
    depends_on("libsodium", when="+machines")
    depends_on("python@3.9:", type=("build", "run"), when="+python")
    extends("python", when="+python")

    def url_for_version(self, version):
        return f"https://PLACE-OF-THE-RELEASES/kolo-{version}.tar.gz"

    def cmake_args(self):
        args = [
            self.define_from_variant("KOLO_MACHINES", "machines"),
            self.define_from_variant("KOLO_TOOLS", "tools"),
            self.define_from_variant("KOLO_BENCH", "tools"),
            self.define_from_variant("KOLO_MPI", "mpi"),
            self.define("KOLO_TORCH", "OFF"),
        ]
        if self.spec.satisfies("+machines"):
            args.append(self.define("KOLO_SODIUM", "ON"))
        if self.spec.satisfies("+python"):
            args.append(self.define("KOLO_PYTHON_DIR", python_platlib))
        return args
