"""Names use the field's words, and each source of the library begins by saying what it is for."""

import re

import source_tree

# What newcomers from MPI or NCCL would not look for, and what they would.
WORDS = {"door": "listener", "knock": "connect", "hail": "hello", "greeting": "handshake", "sighting": "observer",
         "crowd": "oversubscription", "reunion": "rejoin", "gathering": "membership", "conference": "agreement",
         "orphan": "leftover, leaderless", "bury": "mark dead", "buried": "marked dead"}
WORD = re.compile("(" + "|".join(WORDS) + ")(?:s|ed|ing)?(?![a-z])", re.IGNORECASE)
NAME = re.compile(r"[A-Za-z_]\w*")
OPENING_LINES_MAX = 40


def name_problems(tree):
    for path in tree.paths("include", "lib", "tools", "bench", suffixes=(*source_tree.C_SUFFIXES, ".py")):
        text = tree.text(path)
        if path.endswith(source_tree.C_SUFFIXES):
            text = source_tree.without_comments(text, keep_literals=False)
        for number, line in enumerate([path.rsplit("/", 1)[-1], *text.split("\n")]):
            for name in NAME.findall(line):
                for part in re.split(r"_|(?<=[a-z])(?=[A-Z])", name):
                    match = WORD.fullmatch(part)
                    if match:
                        yield f"{path}:{max(number, 1)}: {name}: say {WORDS[match.group(1).lower()]}"


def opening_problems(tree):
    for path in tree.paths("lib", suffixes=source_tree.C_SUFFIXES):
        text = tree.text(path)
        if not text.startswith("/* "):
            yield f"{path}:1: the first lines say what a file is for"
        elif text.split("*/")[0].count("\n") >= OPENING_LINES_MAX:
            yield f"{path}:1: an argument of more than {OPENING_LINES_MAX} lines stands in the README of its part"


def problems(tree):
    return [*name_problems(tree), *opening_problems(tree)]


class Words(source_tree.Rule):
    def test_project(self):
        self.assert_clean(problems(source_tree.project()))

    def check(self, files, pattern):
        with source_tree.example(files) as tree:
            self.assert_one(problems(tree), pattern)

    def test_rejects_word_in_function(self):
        self.check({"lib/machines/net/a.c": "/* A. */\nint kolo_door_open(void);\n"}, r"^lib/machines/net/a\.c:2: .*say listener")

    def test_rejects_word_in_constant(self):
        self.check({"tools/a.c": "enum { ORPHANS_MAX = 1 };\n"}, "ORPHANS_MAX: say leftover")

    def test_rejects_word_in_file_name(self):
        self.check({"bench/crowd.py": "a = 1\n"}, r"^bench/crowd\.py:1: crowd: say oversubscription")

    def test_rejects_file_that_does_not_say_what_it_is_for(self):
        self.check({"lib/core/base/a.c": "#include <stdio.h>\n"}, "what a file is for")

    def test_rejects_long_opening(self):
        self.check({"lib/core/base/a.c": "/* A." + "\n * B." * 40 + " */\n"}, "README of its part")

    def test_accepts_words_in_prose_and_in_other_words(self):
        files = {"lib/core/base/b.c": "/* A." + "\n * B." * 39 + " */\n",
                 "lib/core/base/a.c": "/* Doors are not names. */\nint indoors, knockout;\n"}
        with source_tree.example(files) as tree:
            self.assert_clean(problems(tree))


if __name__ == "__main__":
    source_tree.main()
