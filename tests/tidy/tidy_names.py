"""A file's name is unique in the repository, so that it alone says which file is meant; and so is a type of kolo's in the
library."""

import collections
import re

import source_tree

EVERYWHERE = {".clang-format", "CMakeLists.txt", "README.md", "__init__.py", "__main__.py", "pyproject.toml"}


def problems(tree):
    by_name = collections.defaultdict(list)
    for path in tree.paths():
        by_name[path.rsplit("/", 1)[-1]].append(path)
    return [f"{paths[1]}:1: {paths[0]} has the same name; give one of them another"
            for name, paths in sorted(by_name.items()) if len(paths) > 1 and name not in EVERYWHERE]


_TYPE = re.compile(r"^(?:typedef )?(?:struct|union|enum) (kolo_\w+) \{", re.MULTILINE)


def type_problems(tree):
    by_name = collections.defaultdict(list)
    for path in tree.paths("include", "lib", suffixes=(".c", ".h")):
        text = tree.text(path)
        for match in _TYPE.finditer(text):
            by_name[match.group(1)].append((path, text.count("\n", 0, match.start()) + 1))
    return [f"{found[1][0]}:{found[1][1]}: {name} is another type in {found[0][0]}; give one of them another name"
            for name, found in sorted(by_name.items()) if len(found) > 1]


class Names(source_tree.Rule):
    def test_project(self):
        self.assert_clean(problems(source_tree.project()))

    def test_types_of_project(self):
        self.assert_clean(type_problems(source_tree.project()))

    def test_rejects_second_type_of_a_name(self):
        with source_tree.example({"lib/a.h": "struct kolo_part {\n", "lib/b.c": "\n\nunion kolo_part {\n"}) as tree:
            self.assert_one(type_problems(tree), r"lib/b\.c:3: kolo_part is another type in lib/a\.h")

    def test_rejects_second_file_of_a_name(self):
        with source_tree.example({"lib/core/base/log.h": "", "tools/log.h": "", "tools/README.md": "",
                                  "README.md": ""}) as tree:
            self.assert_one(problems(tree), r"tools/log\.h:1: lib/core/base/log\.h has the same name")


if __name__ == "__main__":
    source_tree.main()
