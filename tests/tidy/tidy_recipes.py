"""The recipes of tools/packages/recipes and what GitHub runs name what is there: files, build options, presets, options of
tools/check, and the version, and their own tools find nothing in them, where these are installed: hadolint, check-jsonschema,
nix-instantiate."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import types
import unittest
import unittest.mock

import source_tree
import tidy_leftovers

RECIPES = "tools/packages/recipes"
CONTAINER = f"{RECIPES}/Containerfile"
COPY = re.compile(r"^COPY (?!--)(.+) (\S+)$", re.MULTILINE)
WORKFLOW = ".github/workflows/check.yml"
OPTION = re.compile(r"-D(KOLO_\w+)")
LINTERS = (("hadolint", [CONTAINER]),
           ("check-jsonschema", ["--builtin-schema", "vendor.github-workflows", WORKFLOW]),
           ("nix-instantiate", ["--parse", f"{RECIPES}/kolo.nix"]))


class CMakePackage:
    """Spack's, as far as a recipe uses it."""

    spec = types.SimpleNamespace(satisfies=lambda what: True)

    @staticmethod
    def define(name, value):
        return f"-D{name}={value}"

    define_from_variant = define


class Spack(types.ModuleType):
    """The names of Spack's package API 2 that a recipe uses, which note what it says."""

    def __init__(self):
        super().__init__("spack.package")
        self.__all__ = ["python_platlib"]
        self.python_platlib = "lib/python"
        self.said = {}
        for name in ("version", "variant", "depends_on", "extends", "license"):
            setattr(self, name, lambda *words, name=name, **more: self.said.setdefault(name, []).append((words, more)))
            self.__all__.append(name)


def spack_text(tree):
    """The recipe as the options that it gives to CMake, and the variants on which they depend."""
    spack, names = Spack(), {}
    build = types.ModuleType("spack_repo.builtin.build_systems.cmake")
    build.CMakePackage = CMakePackage
    with unittest.mock.patch.dict(sys.modules, {"spack": types.ModuleType("spack"), "spack.package": spack,
                                                build.__name__: build}):
        exec(compile(tree.text(f"{RECIPES}/package.py"), "package.py", "exec"), names)  # pylint: disable=exec-used
    variants = {words[0] for words, _ in spack.said["variant"]}
    arguments = names["Kolo"]().cmake_args()
    used = {argument.partition("=")[2] for argument in arguments} - {"ON", "OFF", spack.python_platlib}
    if not used <= variants:
        arguments.append(f"-DKOLO_NO_VARIANT_{used - variants}")
    return "\n".join(arguments)


def container_problems(tree):
    path = CONTAINER
    for words, _ in COPY.findall(tree.text(path)):
        yield from (f"{path}:1: {word}: there is no such file" for word in words.split() if not (tree.root / word).exists())
    presets = {preset["name"] for preset in json.loads(tree.text("CMakePresets.json"))["configurePresets"]}
    for preset in set(re.findall(r"--preset (\w+)", tree.text(path))) - presets:
        yield f"{path}:1: {preset}: there is no such preset"


def workflow_problems(tree):
    run = re.search(r"(\S+) \$\{\{.*\}\}$", tree.text(WORKFLOW), re.MULTILINE)
    if not run or not (tree.root / run.group(1)).exists():
        yield f"{WORKFLOW}:1: it runs nothing that is there"
    else:
        yield from (f"{WORKFLOW}:1: {option}: tools/check has no such option"
                    for option in re.findall(r"'(--\w+)'", run.group()) if f" {option} " not in tree.text("tools/check"))


def problems(tree):
    options = tidy_leftovers.options_made(tree)
    texts = {path: tree.text(path) for path in tree.paths(RECIPES)}
    texts[f"{RECIPES}/package.py"] = spack_text(tree)
    found = [f"{path}:1: {option}: there is no such build option" for path, text in texts.items()
             for option in sorted(set(OPTION.findall(text))) if option not in options]
    return [*found, *container_problems(tree), *workflow_problems(tree)]


def lint(tree, program, arguments):
    done = subprocess.run([program, *arguments], cwd=tree.root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False)
    return [] if done.returncode == 0 else [done.stdout]


class Recipes(source_tree.Rule):
    def test_project(self):
        tree = source_tree.project()
        self.assert_clean(problems(tree))
        self.assertIn("-DKOLO_MACHINES=machines", spack_text(tree))

    def test_container(self):
        """What it copies is enough for CMake; a library may be missing here."""
        tree = source_tree.project()
        with tempfile.TemporaryDirectory(prefix="kolo-tidy-") as folder:
            for words, target in COPY.findall(tree.text(CONTAINER)):
                for word in words.split():
                    copy = shutil.copytree if (tree.root / word).is_dir() else shutil.copy
                    copy(tree.root / word, os.path.join(folder, target))
            options = re.search(r"RUN cmake (.*?) &&", tree.text(CONTAINER)).group(1).split()
            self.assert_clean(lint(source_tree.SourceTree(folder), os.environ["CMAKE"], [*options, "-DKOLO_URING=AUTO"]))

    def test_version(self):
        """That of include/kolo.h, in all of them that have one."""
        tree = source_tree.project()
        listed = tree.text("tools/packages/version_places.py")
        for path in tree.paths(RECIPES):
            if re.search(r"\bversion\b.*\d\.\d", tree.text(path)):
                self.assertIn(f'("{path}"', listed)
        self.assert_clean(lint(tree, sys.executable, ["-B", "tools/packages/version_places.py"]))

    def test_linters(self):
        for program, arguments in LINTERS:
            if shutil.which(program):
                with self.subTest(program):
                    self.assert_clean(lint(source_tree.project(), program, arguments))

    def example(self, **changed):
        files = {"CMakeLists.txt": 'option(KOLO_A "a" ON)\n', "tools/check": "  --quick  a\n", ".ci/run": "",
                 "CMakePresets.json": '{"configurePresets": [{"name": "debian"}]}',
                 CONTAINER: "COPY tools tools\nRUN cmake --preset debian\n",
                 f"{RECIPES}/package.py": "from spack_repo.builtin.build_systems.cmake import CMakePackage\n"
                                          "from spack.package import *\nclass Kolo(CMakePackage):\n    variant('a')\n"
                                          "    def cmake_args(self):\n        return [self.define('KOLO_A', 'a')]\n",
                 WORKFLOW: "run: .ci/run ${{ '--quick' }}\n", f"{RECIPES}/kolo.nix": "-DKOLO_A=ON\n"}
        for path, text in files.items():
            for old, new in changed.items():
                files[path] = files[path].replace(old, new)
        return source_tree.example(files)

    def test_rejects_what_is_not_there(self):
        for old, new, pattern in (("-DKOLO_A", "-DKOLO_B", "kolo.nix:1: KOLO_B: there is no such build"),
                                  ("define('KOLO_A'", "define('KOLO_B'", "package.py:1: KOLO_B: there is no such build"),
                                  ("'KOLO_A', 'a'", "'KOLO_A', 'b'", "package.py:1: KOLO_NO_VARIANT"),
                                  ("COPY tools", "COPY tools gone", "gone: there is no such file"),
                                  ("--preset debian", "--preset release", "release: there is no such preset"),
                                  (".ci/run $", ".ci/go $", "runs nothing that is there"),
                                  ("'--quick'", "'--quickly'", "--quickly: tools/check has no such option")):
            with self.subTest(new), self.example(**{old: new}) as tree:
                self.assert_one(problems(tree), pattern)

    def test_accepts_what_is_there(self):
        with self.example() as tree:
            self.assert_clean(problems(tree))


if __name__ == "__main__":
    source_tree.main()
