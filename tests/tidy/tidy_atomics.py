"""Atomics, memory orders, fences and volatile live in lib/core/sync/ and nowhere else in the library or its clients."""

import re

import source_tree

# An assembler statement is volatile where it sets a control register; only its clobber of memory is a fence.
ATOMIC = re.compile(
    r"\b(stdatomic\.h|_Atomic|__atomic_\w+|__sync_\w+|(?:atomic|memory_order)_\w+|_mm_[lsm]fence|"
    r"volatile(?!__)|(?<!asm )(?<!asm__ )__volatile__)|[:,]\s*(\"memory\")")
EXEMPT = "lib/core/sync/"


def problems(tree):
    found = []
    for path in tree.paths("include", "lib", suffixes=source_tree.C_SUFFIXES):
        if path.startswith(EXEMPT):
            continue
        text = source_tree.without_comments(tree.text(path))
        code = re.sub(r'"(?!memory")(?:\\.|[^"\\\n])*"', '""', text)
        for number, line in enumerate(code.split("\n"), start=1):
            match = ATOMIC.search(line)
            if match:
                found.append(f"{path}:{number}: {match.group(1) or match.group(2)}: only lib/core/sync/ may use it")
    return found


class Atomics(source_tree.Rule):
    def test_project(self):
        self.assert_clean(problems(source_tree.project()))

    def test_rejects_each_kind(self):
        for code in ("#include <stdatomic.h>", "_Atomic int a;", "volatile int a;", "__atomic_store_n(p, 1, 0);",
                     "__sync_synchronize();", "atomic_fetch_add(p, 1);", "f(memory_order_relaxed);",
                     "_mm_sfence();", "__volatile__ int a;", '__asm__ __volatile__("" : : : "memory");',
                     '__asm__("mfence" ::: "cc", "memory");'):
            with self.subTest(code), source_tree.example({"lib/core/shm/a.c": f"/* why */\n{code}\n"}) as tree:
                self.assert_one(problems(tree), r"lib/core/shm/a\.c:2: ")

    def test_accepts_words_in_comments_and_sync(self):
        files = {"lib/core/shm/a.c": '/* not volatile,\n * nor atomic_load */\nchar *a = "volatile"; // volatile\n'
                 '__asm__ __volatile__("ldmxcsr %0" : : "m"(a));\nchar *b = "memory";\n',
                 "lib/core/sync/b.c": "volatile int b;\n"}
        with source_tree.example(files) as tree:
            self.assert_clean(problems(tree))


if __name__ == "__main__":
    source_tree.main()
