"""The manual pages: there is one for each program and each public function, it has all options, and neither groff nor
mandoc has anything against it."""

import os
import pathlib
import re
import shutil
import subprocess
import unittest

import launching

PAGES = pathlib.Path(os.environ["MANUAL"])
INCLUDE = pathlib.Path(__file__).resolve().parents[2] / "include"
TOOLS = {pathlib.Path(path).name: path for path in os.environ["TOOLS"].split(":")}


def whole_pages():
    """Those that are not only a reference to another page."""
    return [path for path in sorted(PAGES.glob("man?/*")) if not path.read_text(encoding="utf-8").startswith(".so ")]


class Manual(unittest.TestCase):
    def run_quietly(self, command, **changes):
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                              timeout=launching.PATIENCE_S, **changes)
        self.assertEqual((0, ""), (done.returncode, done.stdout))

    @unittest.skipUnless(shutil.which("groff"), "groff is not installed")
    def test_groff_has_no_warning(self):
        self.assertGreater(len(whole_pages()), 60)
        text = "".join(path.read_text(encoding="utf-8") for path in whole_pages())
        self.run_quietly(["groff", "-ww", "-man", "-Tutf8", "-z"], input=text)

    @unittest.skipUnless(shutil.which("mandoc"), "mandoc is not installed")
    def test_mandoc_has_no_warning(self):
        self.run_quietly(["mandoc", "-Tlint", "-Wwarning", *whole_pages()])

    def test_every_function_and_type(self):
        for path in sorted(INCLUDE.glob("kolo*.h")):
            text = path.read_text(encoding="utf-8")
            names = re.findall(r"^KOLO_API\b[^;(]*?\b(\w+)\(|^\} (\w+);", text, re.MULTILINE)
            for name in [path.stem, *(first or second for first, second in names)]:
                with self.subTest(name):
                    page = (PAGES / f"man3/{name}.3").read_text(encoding="utf-8")
                    reference = re.fullmatch(r"\.so (man3/\w+\.3)\n", page)
                    if reference:
                        page = (PAGES / reference.group(1)).read_text(encoding="utf-8")
                    self.assertRegex(page, rf"\b{name}\b")

    def test_what_a_function_page_says(self):
        page = (PAGES / "man3/kolo_allreduce.3").read_text(encoding="utf-8")
        words = re.sub(r"\\f[BP]|\\&", "", page).replace("\\-", "-").replace("\n", " ")
        self.assertIn('.SH "NAME" kolo_allreduce - recv[i] = op over all ranks of send[i]', words)
        self.assertIn("int kolo_allreduce(kolo_comm *comm, const void *send, void *recv,", words)
        self.assertIn(".IP \\(bu 2 KOLO_ALGORITHM_RING combines in the order of the ring.", words)
        self.assertIn(".PP KOLO_ERR_ARG: bad dtype or op", words)

    def test_every_option_and_word_of_help(self):
        for tool, path in TOOLS.items():
            page = (PAGES / f"man1/{tool}.1").read_text(encoding="utf-8")
            shown = re.sub(r"\\f[BP]|\\&|^\.(?:SH|SS|PP|TP|IP|nf|fi)\b ?", "", page, flags=re.MULTILINE)
            shown = set(shown.replace("\\-", "-").replace("\\e", "\\").replace('"', " ").split())
            helped = subprocess.run([path, "--help"], capture_output=True, text=True, check=True, timeout=10).stdout
            titles = {"usage:", "example:", "examples:", "examples", "exit", "status:", "code:", "environment", "of", "the",
                      "ranks:"}
            with self.subTest(tool):
                self.assertIn(f"{tool} \\- ".replace("-", "\\-", tool.count("-")), page)
                missing = [word for word in helped.replace('"', " ").split()
                           if word not in shown and word.lower() not in titles]
                self.assertEqual([], [word for word in missing if word.capitalize() not in shown])


if __name__ == "__main__":
    launching.main()
