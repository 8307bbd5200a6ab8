"""The site that tools/manual/site builds: no link leads nowhere; each public function, type and Python name has an entry,
and each document a place in the navigation; and the same tree gives the same bytes. Skipped where Sphinx is not
installed yet."""

import ast
import functools
import html.parser
import os
import pathlib
import re
import subprocess
import tempfile
import unittest
import urllib.parse

import launching

ROOT = pathlib.Path(__file__).resolve().parents[2]
SITE = ROOT / "tools/manual/site"
PACKAGE = ROOT / "lib/bindings/python/kolo4py"
SKIPPED = "Sphinx is not installed: tools/manual/site --install does that"
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def site(*arguments, seed="0"):
    command = [SITE, "--no-install", "--programs", pathlib.Path(launching.KOLORUN).parent, *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            env={**os.environ, "PYTHONHASHSEED": seed})


class PageReader(html.parser.HTMLParser):
    """What a page has: anchors, links, headings, and those links that are in the navigation."""

    def __init__(self, text):
        super().__init__()
        self.anchors, self.links, self.navigation, self.headings = set(), [], [], []
        self.heading, self.in_navigation = None, False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.anchors.update(attributes[name] for name in ("id", "name") if attributes.get(name))
        self.links += [attributes[name] for name in ("href", "src") if attributes.get(name)]
        self.in_navigation = self.in_navigation or attributes.get("class") == "sidebar-tree"
        if self.in_navigation and tag == "a":
            self.navigation.append(attributes["href"])
        if re.fullmatch("h[1-6]", tag):
            self.heading = ""
        elif attributes.get("class") == "headerlink":
            self.headings.append(" ".join((self.heading or "").split()))
            self.heading = None

    def handle_endtag(self, tag):
        self.in_navigation = self.in_navigation and tag != "div"

    def handle_data(self, data):
        if self.heading is not None:
            self.heading += data


@functools.cache
def read(path):
    return PageReader(path.read_text(encoding="utf-8"))


def broken(folder):
    """(page, link) of those that lead nowhere in the site, or outside it and are none of the web's."""
    for page in sorted(folder.rglob("*.html")):
        for link in read(page).links:
            parts = urllib.parse.urlsplit(link)
            if parts.scheme or parts.netloc:
                if parts.scheme not in ("https", "http") or "." not in parts.netloc:
                    yield page, link
                continue
            target = (page.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else page
            anchor = urllib.parse.unquote(parts.fragment)
            if not target.is_file() or folder.resolve() not in target.parents:
                yield page, link
            elif anchor and target.suffix == ".html" and anchor not in read(target).anchors:
                yield page, link


def documents():
    yield from sorted(ROOT.glob("*.md"))
    for place in ("bench", "include", "lib", "tests", "tools"):
        yield from sorted((ROOT / place).rglob("*.md"))


def headings(path):
    text = FENCE.sub("", path.read_text(encoding="utf-8"))
    return [" ".join(each.replace("`", "").split()) for each in re.findall(r"^#+ (.*)", text, re.MULTILINE)]


def python_names():
    """Dotted names of what a program may use."""
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        module = ".".join(parts).removesuffix(".__init__")
        text = path.read_text(encoding="utf-8")
        names = re.search(r"^__all__ = (\[.*?\])", text, re.MULTILINE | re.DOTALL)
        if "._" not in module:
            found = ast.literal_eval(names.group(1)) if names else re.findall(r"^(?:def|class) ([a-zA-Z]\w*)", text, re.MULTILINE)
            yield from (f"{module}.{name}" for name in found)
    for part in ("_comm", "_messages", "_collectives"):
        whole = (PACKAGE / f"{part}.py").read_text(encoding="utf-8")
        body = re.search(r"^class (?:Comm|Messages|Collectives)\b.*?(?=^\w|\Z)", whole, re.MULTILINE | re.DOTALL).group()
        yield from (f"kolo4py.Comm.{name}" for name in re.findall(r"^    def ([a-z]\w*)\(", body, re.MULTILINE))


@unittest.skipUnless((ROOT / "build/site-env/complete").exists(), SKIPPED)
class Checks(unittest.TestCase):
    def test_finds_broken_links(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "b.html").write_text('<p id="here">')
            for link in ("c.html", "b.html#there", "#there", "../b.html", "https:nowhere", "file:///b.html"):
                page = folder / "a.html"
                page.write_text(f'<a href="{link}">')
                read.cache_clear()
                with self.subTest(link):
                    self.assertEqual([(page, link)], list(broken(folder)))
            page.write_text('<a href="b.html#here"><a href="https://a.b/c"><p id="x"><a href="#x">')
            read.cache_clear()
            self.assertEqual([], list(broken(folder)))

    def test_refuses_mistakes(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "precious"
            file.touch()
            for arguments, told in ((["-o"], "-o takes a folder"), (["--nothing"], "unknown option --nothing"),
                                    (["--programs", "/nowhere"], "/nowhere: there is no kolorun"),
                                    (["-o", folder], "has files that are not of a site"),
                                    (["-o", file], "there can be no such folder")):
                with self.subTest(arguments):
                    process = site(*arguments)
                    self.assertIn(told, process.communicate(timeout=launching.PATIENCE_S)[0])
                    self.assertEqual(2, process.returncode)
            self.assertTrue(file.exists())


@unittest.skipUnless((ROOT / "build/site-env/complete").exists(), SKIPPED)
class Site(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        cls.folder, again = (pathlib.Path(temporary.name) / name for name in ("site", "again"))
        processes = [site("-o", cls.folder, seed="1"), site("-o", again, seed="2")]
        for process in processes:
            output = process.communicate()[0]
            if process.returncode:
                raise AssertionError(output)
        cls.again = again

    def test_same_bytes(self):
        first, second = ({path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
                         for folder in (self.folder, self.again))
        self.assertEqual(first.keys(), second.keys())
        self.assertEqual([], [path for path in first if first[path] != second[path]])

    def test_links(self):
        self.assertGreater(len(list(self.folder.rglob("*.html"))), 50)
        self.assertEqual([], [f"{page.relative_to(self.folder)}: {link}" for page, link in broken(self.folder)])

    def anchors(self, where):
        return {anchor for page in (self.folder / where).rglob("*.html") for anchor in read(page).anchors}

    def test_every_function_and_type(self):
        anchors = self.anchors("reference/c")
        declared = re.compile(r"^KOLO_API\b[^;(]*?\b(\w+)\(|^\} (\w+);|^typedef struct \w+ (\w+);", re.MULTILINE)
        names = ["".join(found) for path in (ROOT / "include").glob("kolo*.h")
                 for found in declared.findall(path.read_text(encoding="utf-8"))]
        self.assertGreater(len(names), 100)
        self.assertEqual([], [name for name in names if f"c.{name}" not in anchors])

    def test_every_python_name(self):
        names = set(python_names())
        self.assertGreater(len(names), 100)
        self.assertEqual([], sorted(names - self.anchors("reference/python")))

    def test_every_document_is_in_the_navigation(self):
        start = read(self.folder / "index.html")
        pages = {(self.folder / link.partition("#")[0]).resolve() for link in start.navigation if link != "#"}
        found = {heading for page in [self.folder / "index.html", *pages] for heading in read(page).headings}
        self.assertGreater(len(pages), 30)
        for path in documents():
            with self.subTest(path.relative_to(ROOT)):
                self.assertEqual([], [heading for heading in headings(path) if heading not in found])

    def test_every_program(self):
        for name in ("kolorun", "kolo-info", "kolo-trace"):
            self.assertIn("Options", read(self.folder / f"reference/commands/{name}.html").headings)


if __name__ == "__main__":
    launching.main()
