"""Nothing half done stays in the tree: no notes to self, no conflict markers, no stray white space, and in guides no link,
no build option and no name of kolo's that is not there."""

import re

import source_tree

# Written so that this file does not hold the words it looks for.
NOTE = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b")
CONFLICT = re.compile(r"^(<{7}|>{7}|\|{7}) |^={7}$")
LINK = re.compile(r"\]\((?!\w+:)([^)#\s]*)#?([^)\s]*)\)")
CODE = re.compile(r"^ *```.*?^ *```", re.DOTALL | re.MULTILINE)
OPTION = re.compile(r"-D(KOLO_\w+)|\b(KOLO_\w+)=(?:ON|OFF)\b")
OPTION_MADE = re.compile(r"\b(?:option|find_\w+|set)\(\s*(KOLO_\w+)([^()]*)")
NAME = re.compile(r"\b(?:kolo|KOLO)_\w*\w")
PLACEHOLDER = re.compile(r"XYZ|xyz")  # of what a reader of CONTRIBUTING.md adds
TEXT_SUFFIXES = {".c", ".h", ".py", ".txt", ".md", ".json", ".cmake", ".in", ".map", ".sh", ".yml", ""}


def line_problem(line):
    note = NOTE.search(line)
    if note:
        return f"{note.group()}: do it, or describe the limit in words"
    if CONFLICT.search(line):
        return "conflict marker"
    if line != line.rstrip():
        return "white space at the end"
    if "\t" in line:
        return "tab: indent with spaces"
    return None


def is_text(tree, path):
    if not any(path.endswith(suffix) for suffix in TEXT_SUFFIXES if suffix) and "." in path.rsplit("/", 1)[-1][1:]:
        return False
    with open(tree.root / path, "rb") as file:
        return b"\0" not in file.read(4096)


def headings(text):
    """As links name them."""
    titles = re.findall(r"^#+ (.*)$", CODE.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def link_problems(tree, path):
    text = CODE.sub(lambda block: "\n" * block.group().count("\n"), tree.text(path))
    for link in LINK.finditer(text):
        file, heading = link.groups()
        target = (tree.root / path).parent / file if file else tree.root / path
        if not target.exists() or heading and heading not in headings(target.read_text(encoding="utf-8")):
            number = text[:link.start()].count("\n") + 1
            yield f"{path}:{number}: {link.group(1)}#{heading}: there is no such file or heading"


def options_made(tree):
    """Of CMake's cache: what -D sets."""
    return {made.group(1) for path in tree.paths() if path.endswith(("CMakeLists.txt", ".cmake"))
            for made in OPTION_MADE.finditer(tree.text(path))
            if not made.group().startswith("set") or " CACHE " in made.group(2)}


def name_problems(tree):
    """Guides, and the public headers in what they say of the build."""
    options, paths = options_made(tree), [path for path in tree.paths() if is_text(tree, path)]
    guides = [path for path in paths if path.endswith(".md")]
    text = "\n".join([*paths, *(tree.text(path) for path in paths if path not in guides)])
    names = set(re.findall(r"\w+", text)) if guides else set()
    for path in [*guides, *(path for path in paths if path.startswith("include/"))]:
        for number, line in enumerate(tree.text(path).split("\n"), start=1):
            for found in OPTION.finditer(line):
                option = found.group(1) or found.group(2)
                if option not in options:
                    yield f"{path}:{number}: {option}: there is no such build option"
            for found in NAME.finditer(line if path in guides else ""):
                name = found.group()
                begins = line.startswith("*", found.end()) or name.endswith("_")
                if name not in names and not PLACEHOLDER.search(name) and not (begins and name in text):
                    yield f"{path}:{number}: {name}: there is no such name"


def problems(tree):
    found = [problem for path in tree.paths(suffixes=(".md",)) for problem in link_problems(tree, path)]
    found += name_problems(tree)
    for path in tree.paths():
        if not is_text(tree, path):
            continue
        for number, line in enumerate(tree.text(path).split("\n"), start=1):
            problem = line_problem(line)
            if problem:
                found.append(f"{path}:{number}: {problem}")
    return found


class Leftovers(source_tree.Rule):
    def test_project(self):
        self.assert_clean(problems(source_tree.project()))

    def test_rejects_each_kind(self):
        for line in ("/* TO" "DO: later */", "// FIX" "ME", "<<<<<<< ours", "int a; ", "\tint a;"):
            with self.subTest(line), source_tree.example({"lib/core/base/a.c": f"\n{line}\n"}) as tree:
                self.assert_one(problems(tree), r"^lib/core/base/a\.c:2: ")

    def test_rejects_in_scripts(self):
        with source_tree.example({"tools/run": "#!/bin/sh\n# FIX" "ME\n"}) as tree:
            self.assert_one(problems(tree), r"^tools/run:2: ")

    def test_rejects_dead_links(self):
        for link in "(b.md)", "(../lib)", "(#Other)", "(a.md#other)":
            with self.subTest(link), source_tree.example({"tools/a.md": f"# A `b-c` title\n\n[b]{link}\n"}) as tree:
                self.assert_one(problems(tree), r"^tools/a\.md:3: .*no such file or heading")

    def test_rejects_what_no_build_has(self):
        for text, pattern in (("cmake -DKOLO_CARS=OFF", "KOLO_CARS: there is no such build option"),
                              ("with `KOLO_A=ON`", "KOLO_A: there is no such build option"),
                              ("`kolo_drive` drives", "kolo_drive: there is no such name"),
                              ("all of `kolo_drive_*`", "kolo_drive_: there is no such name")):
            files = {"CMakeLists.txt": "set(KOLO_A 1)\n", "tools/a.md": f"-DKOLO_B=ON\n{text} `kolo_stop kolo_st*`\n",
                     "lib/CMakeLists.txt": 'option(KOLO_B "b" ON)\nset(KOLO_CARS "" STRING "x")\n',
                     "include/kolo.h": "int kolo_stop(void);\n"}
            with self.subTest(text), source_tree.example(files) as tree:
                self.assert_one(problems(tree), rf"^tools/a\.md:2: {pattern}")

    def test_accepts_links(self):
        text = "# A `b-c` title\n[a](a.md) [a](../tools/a.md#a-b-c-title) [a](#a-b-c-title) [a](https://a.b/c)\n"
        with source_tree.example({"tools/a.md": text + "```\n[b](b.md)\n```\n"}) as tree:
            self.assertEqual([], problems(tree))


if __name__ == "__main__":
    source_tree.main()
