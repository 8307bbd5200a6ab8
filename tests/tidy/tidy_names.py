"""A file's name is unique in the repository, so that it alone says which file is meant."""

import collections

import source_tree

EVERYWHERE = {"CMakeLists.txt", "README.md", "__init__.py", "pyproject.toml"}


def problems(tree):
    by_name = collections.defaultdict(list)
    for path in tree.paths():
        by_name[path.rsplit("/", 1)[-1]].append(path)
    return [f"{paths[1]}:1: {paths[0]} has the same name; give one of them another"
            for name, paths in sorted(by_name.items()) if len(paths) > 1 and name not in EVERYWHERE]


class Names(source_tree.Rule):
    def test_project(self):
        self.assert_clean(problems(source_tree.project()))

    def test_rejects_second_file_of_a_name(self):
        with source_tree.example({"lib/base/log.h": "", "tools/log.h": "", "tools/README.md": "",
                                  "README.md": ""}) as tree:
            self.assert_one(problems(tree), r"tools/log\.h:1: lib/base/log\.h has the same name")


if __name__ == "__main__":
    source_tree.main()
