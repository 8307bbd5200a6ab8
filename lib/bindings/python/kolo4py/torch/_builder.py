"""How kolo's backend, and the operators, are compiled for the PyTorch of this Python: `python -m kolo4py.torch build` and
kolo's own build (CMake runs this file) ask here. Does not import torch, which takes seconds."""

import ctypes
import fcntl
import importlib.util
import mmap
import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from typing import Iterable, List, NamedTuple, Tuple

SOURCES = ("communicator.cpp", "interrupts.cpp", "elements.cpp", "flight_record.cpp", "work.cpp",
           "backend.cpp", "operations.cpp", "python_module.cpp")


class Torch(NamedTuple):
    """A PyTorch that is installed."""
    folder: pathlib.Path
    version: str  # "2.13.0+cpu"
    uses_new_strings: bool  # -D_GLIBCXX_USE_CXX11_ABI

    @property
    def minor(self) -> str:
        """"2.13": each has a shared object of its own."""
        return ".".join(self.version.split(".")[:2])

    def is_at_least(self, *version: int) -> bool:
        return tuple(map(int, self.minor.split("."))) >= version

    @property
    def cxx_standard(self) -> int:
        """What its headers need."""
        return 20 if self.is_at_least(2, 14) else 17

    @property
    def module(self) -> str:
        """The name under which Python imports the shared object."""
        return "_backend_" + self.minor.replace(".", "_")

    @property
    def file(self) -> str:
        return f"{self.module}{sysconfig.get_config_var('EXT_SUFFIX')}"

    @property
    def include_folders(self) -> List[str]:
        return [str(self.folder / "include"), str(self.folder / "include/torch/csrc/api/include"),
                sysconfig.get_paths()["include"]]

    @property
    def definitions(self) -> List[str]:
        return [f"_GLIBCXX_USE_CXX11_ABI={int(self.uses_new_strings)}", f"KOLO_TORCH_MODULE={self.module}",
                *(f'PYBIND11_BUILD_ABI="{abi}"' for abi in self._pybind_abi())]

    def _pybind_abi(self) -> List[str]:
        """What another compiler's pybind11 would not find by itself: modules see each other's classes, as the backend has
        to see PyTorch's, if this word is alike in both. Newer versions of pybind11 need no help."""
        with open(self.folder / "lib/libtorch_python.so", "rb") as library, \
                mmap.mmap(library.fileno(), 0, access=mmap.ACCESS_READ) as text:
            found = re.search(rb"__pybind11_internals_v\d+_gcc_libstdcpp(_cxxabi\d+)__", text)
            return [found.group(1).decode()] if found else []

    @property
    def libraries(self) -> List[str]:
        return [str(self.folder / "lib" / f"lib{name}.so") for name in ("c10", "torch_cpu", "torch", "torch_python")]


def find() -> Torch:
    """Raises ImportError if there is none that kolo can be compiled for."""
    spec = importlib.util.find_spec("torch")
    if spec is None or not spec.submodule_search_locations:
        raise ImportError(f"PyTorch is not installed for {sys.executable}")
    folder = pathlib.Path(spec.submodule_search_locations[0])
    found = re.search(r"__version__\s*=\s*'([^']+)'|debian_version = '([^']+)'", (folder / "version.py").read_text())
    if not (folder / "include").is_dir() or not found:
        raise ImportError(f"PyTorch in {folder} has no headers")
    if not any((base / "pybind11").is_dir() for base in (folder / "include", pathlib.Path("/usr/include"))):
        raise ImportError("pybind11's headers are not installed (Debian: pybind11-dev)")
    config = folder / "share/cmake/Torch/TorchConfig.cmake"
    uses_old_strings = config.exists() and "_GLIBCXX_USE_CXX11_ABI=0" in config.read_text()
    return Torch(folder, found.group(1) or found.group(2), not uses_old_strings)


def cache_folder() -> pathlib.Path:
    """Where build() puts what it makes: one folder for each version of kolo."""
    from .._library import VERSION
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return pathlib.Path(base) / "kolo" / VERSION


class Part(NamedTuple):
    """A shared object, and what it is made of."""
    file: str
    sources: Tuple[str, ...]
    libraries: List[str]


def _parts(torch: Torch) -> List[Part]:
    backend = Part(torch.file, SOURCES, torch.libraries)
    operators = Part("_operators.so", ("kolo_operators.cpp",),
                     [name for name in torch.libraries if name.endswith("/libtorch_cpu.so")])
    return [backend, operators] if torch.is_at_least(2, 11) else [backend]


def _sources() -> "Tuple[pathlib.Path, pathlib.Path]":
    """The folder with the C++ sources, and that with kolo's headers: of an installation, or of the source tree."""
    package = pathlib.Path(__file__).resolve().parent
    for sources, headers in ((package / "source", package / "source/include"),
                             (package.parents[2] / "torch/backend", package.parents[4] / "include")):
        if (sources / SOURCES[0]).exists() and (headers / "kolo.h").exists():
            return sources, headers
    raise ImportError(f"the sources of the backend are not in {package}: install kolo4py whole")


def _compile(part: Part, torch: Torch, compiler: str, folder: pathlib.Path) -> pathlib.Path:
    """In that folder."""
    from .. import _library
    sources, headers = _sources()
    library = (ctypes.c_char_p * 4)()  # a Dl_info: first the file, which the loader may have found by a mere name
    ctypes.CDLL(None).dladdr(_library.load().kolo_version, library)
    with tempfile.TemporaryDirectory(dir=folder) as place:
        one = pathlib.Path(place, "all.cpp")
        one.write_text("".join(f'#include "{sources / name}"\n' for name in part.sources))
        made = pathlib.Path(place, part.file)
        command = [*compiler.split(), f"-std=c++{torch.cxx_standard}", "-O2", "-fPIC", "-shared", "-fvisibility=hidden",
                   "-pthread", *(f"-D{definition}" for definition in torch.definitions), f"-I{headers}", f"-I{sources}",
                   *(f"-isystem{folder}" for folder in torch.include_folders), str(one), "-o", str(made),
                   os.fsdecode(library[0] or b""), *part.libraries]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}\n{done.stderr[-4000:]}")
        os.replace(made, folder / part.file)
    return folder / part.file


def build() -> pathlib.Path:
    """Compiles the backend for this PyTorch and returns the file. From 2.11 on the operators are beside it. Raises
    RuntimeError if that fails."""
    torch, folder = find(), cache_folder()
    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        raise RuntimeError("no C++ compiler: install g++, or name another one in CXX")
    folder.mkdir(parents=True, exist_ok=True)
    backend, *_operators = [_compile(part, torch, compiler, folder) for part in _parts(torch)]
    return backend


def _is_current(made: pathlib.Path) -> bool:
    """Of the sources that are installed now: another kolo may have the same version."""
    sources, headers = _sources()
    return made.exists() and made.stat().st_mtime >= max(file.stat().st_mtime for folder in (sources, headers)
                                                         for file in folder.glob("*.*"))


def find_made(file: str, package: Iterable[str]) -> str:
    """That shared object of this PyTorch: of the package's folders, or of the cache, for which it is compiled if it is not
    there. Raises ImportError if that fails."""
    for folder in package:
        if os.path.exists(os.path.join(folder, file)):
            return os.path.join(folder, file)
    made = cache_folder() / file
    try:
        if not _is_current(made):
            made.parent.mkdir(parents=True, exist_ok=True)
            with open(made.parent / "lock", "w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)  # of ranks that start together one compiles
                if not _is_current(made):
                    print(f"kolo: compiling what PyTorch {find().minor} needs into {made.parent}, once (a minute or two)",
                          file=sys.stderr, flush=True)
                    build()
    except (ImportError, OSError, RuntimeError) as error:
        raise ImportError(f"kolo has no {file} for PyTorch {find().minor} and this Python, and could not compile it; once "
                          f"what is missing is there, `{sys.executable} -m kolo4py.torch build` does: {error}") from error
    return str(made)


def tell_cmake() -> None:
    """A line each: version, file, C++ standard, include folders, definitions, libraries."""
    torch = find()
    lists = (torch.include_folders, torch.definitions, torch.libraries)
    print(torch.version, torch.file, torch.cxx_standard, *("|".join(of) for of in lists), sep="\n")


if __name__ == "__main__":
    try:
        tell_cmake()
    except ImportError as error:
        sys.exit(str(error))
