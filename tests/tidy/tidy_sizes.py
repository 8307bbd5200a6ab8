"""A file fits a short reading and a function a screen: at most 800 and 70 lines; a public header 350, README.md 200. All
guides together have 36,000 words."""

import ast
import re

import source_tree

FILE_LINES_MAX = 800
PUBLIC_HEADER_LINES_MAX = 350
README_LINES_MAX = 200
FUNCTION_LINES_MAX = 70
GUIDES_WORDS_MAX = 36000
UNLIMITED = ("LICENSE", "CHANGELOG.md")
DATA = (".png", ".svg", ".csv", ".abi")
C_FUNCTION_HEAD = re.compile(r"^[^=]*\)\s*$")
C_NAME = re.compile(r"(?!__attribute__)\b(\w+)\s*\(")
SHELL_FUNCTION = re.compile(r"^(?:function\s+)?([\w-]+)\s*\(\)\s*\{")


def without_directives(text):
    """C text with comments, literals and preprocessor lines blanked out; line numbers stay."""
    code = source_tree.without_comments(text, keep_literals=False)
    return re.sub(r"^[ \t]*#(?:\\\n|[^\n])*", lambda m: "\n" * m.group().count("\n"), code, flags=re.MULTILINE)


def c_functions(text):
    """(name, first line, last line) of each function definition."""
    depth, head, start = 0, "", None
    for number, line in enumerate(without_directives(text).split("\n"), start=1):
        for char in line + "\n":
            if depth > 0:
                depth += {"{": 1, "}": -1}.get(char, 0)
                if depth == 0:
                    if C_FUNCTION_HEAD.search(head):
                        yield C_NAME.search(head).group(1), start, number
                    head, start = "", None
            elif char in ";}" or (char == "{" and head.strip() == "extern"):
                head, start = "", None
            elif char == "{":
                depth = 1
            else:
                head += char
                start = start or (None if char.isspace() else number)


def python_functions(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name, node.lineno, node.end_lineno


def shell_functions(text):
    name = start = None
    for number, line in enumerate(text.split("\n"), start=1):
        match = SHELL_FUNCTION.match(line)
        if match:
            name, start = match.group(1), number
        elif start and line.rstrip() == "}":
            yield name, start, number
            start = None


def functions(tree, path, shell_scripts):
    if path.endswith(source_tree.C_SUFFIXES):
        return c_functions(tree.text(path))
    if path.endswith(".py"):
        return python_functions(tree.text(path))
    if path in shell_scripts:
        return shell_functions(tree.text(path))
    return ()


def problems(tree):
    found = []
    shell_scripts = {*tree.scripts("bash"), *tree.scripts("/sh")}
    for path in tree.paths():
        lines = tree.text(path).count("\n")
        limit = (PUBLIC_HEADER_LINES_MAX if path.startswith("include/")
                 else README_LINES_MAX if path == "README.md" else FILE_LINES_MAX)
        if lines > limit and path not in UNLIMITED and not path.endswith(DATA):
            found.append(f"{path}:1: {lines} lines, {limit} at most: make it two files")
        for name, first, last in functions(tree, path, shell_scripts):
            if last - first + 1 > FUNCTION_LINES_MAX:
                found.append(f"{path}:{first}: {name} has {last - first + 1} lines, {FUNCTION_LINES_MAX} at most")
    words = sum(len(tree.text(path).split()) for path in tree.paths() if path.endswith(".md"))
    if words > GUIDES_WORDS_MAX:
        found.append(f"*.md: {words} words in all, {GUIDES_WORDS_MAX} at most: say each thing once")
    return found


def c_function(lines_total, head="static int\nf(int a,\n  int b)"):
    body = lines_total - head.count("\n") - 2
    return f"{head} {{\n" + "    a = b;\n" * body + "}\n"


class Sizes(source_tree.Rule):
    def test_project(self):
        tree = source_tree.project()
        self.assertTrue(any(True for p in tree.paths("lib", suffixes=(".c",)) for _ in c_functions(tree.text(p))))
        self.assert_clean(problems(tree))

    def check(self, path, text, pattern):
        with source_tree.example({path: text}) as tree:
            self.assert_one(problems(tree), pattern)

    def test_counts_c_functions(self):
        text = ("/* f( */\nstruct s {\n    int a;\n};\n\nstatic const int t[] = {\n    1,\n};\nint g(void);\n\n"
                + c_function(9) + "#define X 1\nint\nh(void)\n{\n    if (1) {\n    }\n\n#if X\n#endif\n}\n")
        self.assertEqual([("f", 11, 19), ("h", 21, 29)], list(c_functions(text)))

    def test_counts_inside_extern_c(self):
        self.assertEqual([("f", 2, 6)], list(c_functions('extern "C" {\n' + c_function(5) + "}\n")))

    def test_rejects_long_c_function(self):
        self.check("lib/core/base/a.c", "\n" + c_function(71), r"^lib/core/base/a\.c:2: f has 71 lines")

    def test_rejects_long_python_function(self):
        self.check("tests/a.py", "def f():\n" + "    pass\n" * 70, "f has 71 lines")

    def test_rejects_long_shell_function(self):
        self.check("tools/a", "#!/usr/bin/env bash\nf() {\n" + "    true\n" * 69 + "}\n", "f has 71 lines")

    def test_rejects_long_file(self):
        self.check("lib/core/base/a.c", "int a;\n" * 801, "801 lines")

    def test_rejects_long_public_header(self):
        self.check("include/kolo_a.h", "int a;\n" * 351, "351 lines, 350 at most")

    def test_rejects_long_readme(self):
        self.check("README.md", "a\n" * 201, "201 lines, 200 at most")

    def test_rejects_many_words(self):
        self.check("tools/GUIDE.md", "word " * 36001, "36001 words in all")

    def test_accepts_the_limits(self):
        files = {"lib/core/base/a.c": c_function(70), "lib/core/base/b.c": "int a;\n" * 800,
                 "tests/a.py": "def f():\n" + "    pass\n" * 69}
        with source_tree.example(files) as tree:
            self.assert_clean(problems(tree))


if __name__ == "__main__":
    source_tree.main()
