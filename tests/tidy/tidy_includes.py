"""Includes run downward only and name their layer; clients see nothing of ours but the public headers."""

import collections
import re

import source_tree

# The layers of the core: api -> algo -> { comm | plan } -> { shm | reduce } -> { sync | cpu } -> base; equals never include
# each other. Of the other parts of the library each is above the core.
HEIGHT = {"base": 0, "sync": 1, "cpu": 1, "shm": 2, "reduce": 2, "comm": 3, "plan": 3, "algo": 4, "api": 5,
          "net": 6, "internode": 7, "table": 7, "training": 7}
PARTS = {"machines": ("net", "internode"), "table": ("table",), "training": ("training",)}  # and "core", all others
ROOTS = ("core/", "machines/")  # where includes begin, beside lib/ itself
# What a part sees of the core: all of base/ and sync/, and these headers.
SEEN_OF_CORE = {
    "machines": {
        "algo/fusion/apply.h", "algo/fusion/many.h", "algo/registry.h", "comm/channels/rings.h", "comm/comm.h",
        "comm/creation/options.h", "comm/creation/other_nodes.h", "comm/creation/rendezvous.h", "comm/failure/failure.h",
        "comm/ranks.h", "comm/step/call_key.h", "comm/step/progress.h", "cpu/fpenv.h", "plan/plan.h",
        "reduce/reducer.h", "shm/layout.h"},
    "table": {
        "api/buffers.h", "api/other_parts.h", "api/requests/queue.h", "api/sharing.h", "api/tools/watch.h",
        "comm/comm.h", "comm/failure/failure.h", "comm/failure/process.h", "comm/failure/watchdog.h", "comm/observer.h",
        "comm/step/call_key.h", "cpu/fpenv.h", "reduce/reducer.h", "reduce/steps/steps.h", "shm/layout.h",
        "shm/memory_file.h", "shm/region.h"},
    "training": {
        "api/arguments.h", "api/path.h", "api/sharing.h", "comm/comm.h", "comm/step/call_key.h", "comm/step/items.h",
        "cpu/features.h", "cpu/fpenv.h", "reduce/exact/wide_sum.h", "reduce/float16.h", "reduce/isa/avx2_vectors.h",
        "reduce/isa/avx512_vectors.h", "reduce/isa/neon_vectors.h", "reduce/own_ops.h", "reduce/reducer.h",
        "reduce/steps/steps.h", "reduce/template/vector_access.h", "reduce/template/vector_arithmetic.h"},
}
SEEN_BY_ALL = ("base", "sync")
FOLDER_FILES_MAX = 16
PUBLIC = re.compile(r"kolo(_\w+)?\.h")  # in include/
CLIENTS = ("bindings", "tools", "bench")
MODEL = "bench/simulate/"  # stands in for the library's lower layers, so it knows the ones above them
LAUNCHER = "tools/kolorun/"  # binds ranks by the topology that the library reads, and carries that part in itself
LAUNCHER_SEES = ("base", "cpu")
PRELOADED = "lib/bindings/mpi/"  # has the library within itself, too
PRELOADED_SEES = ("base", "sync", "shm")
SEES_ONE = {("bench/perf_limits_report.c", "cpu/sysfs.h"),  # which CPUs share what
            ("tools/command_line.c", "base/name_distance.h"),  # which name is meant, the same for variables and options
            (PRELOADED + "mpi_life.c", "comm/creation/launcher.h"),  # the ranks beside this one, before MPI_Init tells
            # how a file is replaced, the same for tables, training states, profiles and metrics
            ("tools/train/checkpoint.c", "base/new_file.h"), ("tools/tune/tune_profile.c", "base/new_file.h"),
            ("tools/top/top_main.c", "base/new_file.h")}
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)


def includes(tree, path):
    text = source_tree.without_comments(tree.text(path))
    for match in INCLUDE.finditer(text):
        yield text.count("\n", 0, match.start()) + 1, match.group(1), match.group(2)


def name_of(path):
    """A header of lib/, as it is included."""
    name = path[len("lib/"):]
    return next((name[len(root):] for root in ROOTS if name.startswith(root)), name)


def part_of(layer):
    return next((part for part, layers in PARTS.items() if layer in layers), "core")


def layer_problem(layer, name, own_headers):
    """What is wrong with a file of `layer` that includes our header `name`, or None."""
    if PUBLIC.fullmatch(name):
        return None
    target = name.split("/")[0]
    part = part_of(layer)
    if "/" not in name:
        return "name the layer, as in \"shm/layout.h\""
    if target not in HEIGHT or name not in own_headers:
        return "there is no such header of the library"
    if part_of(target) not in (part, "core"):
        return f"{part} knows nothing of {part_of(target)}"
    if target != layer and HEIGHT[target] >= HEIGHT[layer]:
        return f"{layer} may include only what lies below it, not {target}"
    if part_of(target) != part != "core" and target not in SEEN_BY_ALL and name not in SEEN_OF_CORE[part]:
        return f"it is not among what {part} sees of the core (SEEN_OF_CORE)"
    return None


def library_problems(tree):
    own_headers = {name_of(path) for path in tree.paths("lib", suffixes=(".h",))}
    for path in tree.paths("lib", suffixes=source_tree.C_SUFFIXES):
        if path.startswith("lib/bindings/"):
            continue
        layer = name_of(path).split("/")[0]
        if layer not in HEIGHT or path.split("/")[1] != part_of(layer):
            yield f"{path}:1: lib/{'/'.join(path.split('/')[1:-1])} is not a layer of the library"
            continue
        for line, bracket, name in includes(tree, path):
            if bracket == "<":
                if name in own_headers or PUBLIC.fullmatch(name):
                    yield f"{path}:{line}: include our own header as \"{name}\""
                continue
            problem = layer_problem(layer, name, own_headers)
            if problem:
                yield f"{path}:{line}: includes \"{name}\": {problem}"


def unused_problems(tree):
    """What a part may see of the core but does not include any more goes from the list."""
    for part, allowed in SEEN_OF_CORE.items():
        used = {name for path in tree.paths(f"lib/{part}", suffixes=source_tree.C_SUFFIXES)
                for _, _, name in includes(tree, path)}
        for name in sorted(allowed - used):
            yield f"tests/tidy/tidy_includes.py:1: {part} no longer includes \"{name}\": take it off SEEN_OF_CORE"


def module(path):
    """A source and its header are one."""
    return name_of(path).rsplit(".", 1)[0]


def dependencies(tree):
    """{module: {other modules of lib/ that it includes: (path, line)}}"""
    own = {name_of(path) for path in tree.paths("lib", suffixes=(".h",))}
    graph = {}
    for path in tree.paths("lib", suffixes=source_tree.C_SUFFIXES):
        edges = graph.setdefault(module(path), {})
        for line, _, name in includes(tree, path):
            if name in own and module("lib/" + name) != module(path):
                edges.setdefault(module("lib/" + name), (path, line))
    return graph


def circle_problems(tree):
    """One problem for each include by which a depth-first walk comes back to where it came from."""
    graph, done, trail = dependencies(tree), set(), []

    def walk(node):
        trail.append(node)
        for other, (path, line) in sorted(graph.get(node, {}).items()):
            if other in trail:
                way = " -> ".join([*trail[trail.index(other):], other])
                yield f"{path}:{line}: files include each other in a circle: {way}"
            elif other not in done:
                yield from walk(other)
        done.add(trail.pop())

    for node in sorted(graph):
        if node not in done:
            yield from walk(node)


def folder_problems(tree):
    count = collections.Counter(path.rsplit("/", 1)[0] for path in tree.paths("lib", suffixes=source_tree.C_SUFFIXES))
    for folder, files in sorted(count.items()):
        if files > FOLDER_FILES_MAX:
            yield f"{folder}:1: {files} source files, {FOLDER_FILES_MAX} at most: make rooms of it"


def client_problems(tree):
    """Clients may have headers of their own, beside them; the library's insides are not for them."""
    places = [place if place != "bindings" else "lib/bindings" for place in CLIENTS]
    for path in tree.paths(*places, suffixes=source_tree.C_SUFFIXES):
        folder = path.rsplit("/", 1)[0]
        for line, _, name in includes(tree, path):
            is_internal = any((tree.root / "lib" / root / name).is_file() for root in ("", *ROOTS))
            is_beside = (tree.root / folder / name).is_file()
            is_known = path.startswith(MODEL) or (path.startswith(LAUNCHER) and name.split("/")[0] in LAUNCHER_SEES)
            is_known |= path.startswith(PRELOADED) and name.split("/")[0] in PRELOADED_SEES
            is_known |= (path, name) in SEES_ONE
            if is_internal and not is_beside and not is_known:
                yield f"{path}:{line}: includes \"{name}\": of the library only its public headers may be seen here"
            elif ".." in name.split("/"):
                yield f"{path}:{line}: includes \"{name}\": no path upward"


def public_problems(tree):
    """The opening comment of kolo.h is the list of the public headers."""
    listed = tree.text("include/kolo.h").split("*/")[0] if tree.paths("include") else ""
    for path in tree.paths("include"):
        name = path.split("/")[-1]
        if name != "kolo.h" and not re.search(rf"\b{re.escape(name)}\b", listed):
            yield f"{path}:1: the opening comment of include/kolo.h does not name it"


def problems(tree):
    return [*library_problems(tree), *circle_problems(tree), *folder_problems(tree), *client_problems(tree),
            *public_problems(tree)]


class Includes(source_tree.Rule):
    def test_project(self):
        tree = source_tree.project()
        self.assertTrue(tree.paths("lib", suffixes=source_tree.C_SUFFIXES))
        self.assert_clean([*problems(tree), *unused_problems(tree)])

    def check(self, files, pattern):
        with source_tree.example(files) as tree:
            self.assert_one(problems(tree), pattern)

    def test_rejects_circle_of_two(self):
        self.check({"lib/core/shm/a.h": '#include "shm/b.h"\n', "lib/core/shm/b.h": "", "lib/core/shm/b.c": '#include "shm/a.h"\n'},
                   r"lib/core/shm/b\.c:1: .*shm/a -> shm/b -> shm/a")

    def test_rejects_longer_circle(self):
        files = {"lib/core/comm/x/a.c": '#include "comm/b.h"\n', "lib/core/comm/x/a.h": "",
                 "lib/core/comm/b.h": '#include "comm/y/c.h"\n', "lib/core/comm/y/c.h": "",
                 "lib/core/comm/y/c.c": '#include "comm/x/a.h"\n'}
        self.check(files, "comm/b -> comm/y/c -> comm/x/a -> comm/b")

    def test_rejects_full_folder(self):
        files = {f"lib/core/shm/a{i}.c": "int a;\n" for i in range(FOLDER_FILES_MAX + 1)}
        self.check(files, "17 source files, 16 at most")

    def test_rejects_upward(self):
        self.check({"lib/core/base/log.c": '#include "comm/comm.h"\n', "lib/core/comm/comm.h": ""}, "base may include only")

    def test_rejects_sibling(self):
        self.check({"lib/core/shm/a.c": '\n#include "reduce/b.h"\n', "lib/core/reduce/b.h": ""},
                   r"lib/core/shm/a\.c:2: .*not reduce")

    def test_rejects_other_parts_in_the_core(self):
        for part, name in (("machines/net", "net/b.h"), ("table", "table/b.h"), ("training", "training/b.h")):
            self.check({"lib/core/api/a.c": f'#include "{name}"\n', f"lib/{part}/b.h": ""},
                       rf"lib/core/api/a\.c:1: .*core knows nothing of {part.split('/')[0]}")

    def test_rejects_one_part_in_another(self):
        self.check({"lib/table/a.c": '#include "training/b.h"\n', "lib/training/b.h": ""},
                   r"lib/table/a\.c:1: .*table knows nothing of training")

    def test_rejects_more_of_the_core_than_is_listed(self):
        self.check({"lib/table/a.c": '#include "base/b.h"\n#include "plan/b.h"\n', "lib/core/base/b.h": "",
                    "lib/core/plan/b.h": ""}, r"lib/table/a\.c:2: .*not among what table sees of the core")

    def test_rejects_missing_layer(self):
        self.check({"lib/core/shm/a.c": '#include "layout.h"\n', "lib/core/shm/layout.h": ""}, "name the layer")

    def test_rejects_unknown_layer(self):
        self.check({"lib/util/a.c": "int a;\n"}, "not a layer")

    def test_rejects_internal_header_in_tool(self):
        self.check({"tools/a.c": '#include "shm/layout.h"\n', "lib/core/shm/layout.h": ""}, "only its public headers")

    def test_launcher_sees_low_layers_only(self):
        files = {"tools/kolorun/a.c": '#include "cpu/topology.h"\n#include "base/file.h"\n#include "shm/layout.h"\n',
                 "lib/core/cpu/topology.h": "", "lib/core/base/file.h": "", "lib/core/shm/layout.h": ""}
        self.check(files, "^tools/kolorun/a.c:3: .*only its public headers")

    def test_command_line_sees_one_header(self):
        files = {"tools/command_line.c": '#include "base/name_distance.h"\n#include "base/file.h"\n',
                 "lib/core/base/name_distance.h": "", "lib/core/base/file.h": ""}
        self.check(files, "^tools/command_line.c:2: .*only its public headers")

    def test_rejects_path_upward_in_bench(self):
        self.check({"bench/a.c": '#include "../lib/core/shm/layout.h"\n', "lib/core/shm/layout.h": ""}, "public headers|no path upward")

    def test_rejects_public_header_that_is_not_listed(self):
        files = {"include/kolo.h": '/* All:\n *     kolo_a.h  a */\n#include "kolo_a.h"\n#include "kolo_b.h"\n',
                 "include/kolo_a.h": "", "include/kolo_b.h": ""}
        self.check(files, r"^include/kolo_b\.h:1: the opening comment")

    def test_accepts_internal_header_in_the_model(self):
        with source_tree.example({"bench/simulate/a.c": '#include "shm/layout.h"\n', "lib/core/shm/layout.h": ""}) as tree:
            self.assert_clean(problems(tree))

    def test_accepts_downward(self):
        files = {"lib/core/api/a.c": '#include "kolo.h"\n#include "base/b.h"\n#include "api/c.h"\n#include <stdio.h>\n',
                 "lib/core/base/b.h": "", "lib/core/api/c.h": "", "tools/t/t.c": '#include "u.h"\n#include "kolo.h"\n',
                 "tools/t/u.h": ""}
        with source_tree.example(files) as tree:
            self.assert_clean(problems(tree))


if __name__ == "__main__":
    source_tree.main()
