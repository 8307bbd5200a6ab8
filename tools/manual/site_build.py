"""Builds the site (tools/manual/site) by Sphinx. Its pages are made in a folder of their own: the tree's Markdown, with
links that lead to pages; the reference (site_reference.py); and, as text, the sources to which these link.
Usage: site_build.py FOLDER FOLDER-FOR-WORK [PROGRAM...]"""

import ast
import functools
import io
import os
import pathlib
import re
import shutil
import subprocess
import sys

from sphinx.application import Sphinx

import header_pages
import make_manual
import site_reference

ROOT = pathlib.Path(__file__).resolve().parents[2]
START = "Start"
TRAIN = "tools/train/README.md"

# The navigation: under each caption the pages, by title. What has "#" is a section that becomes a page, or a part of one.
NAVIGATION = {
    "Guides": {
        START: ["README.md"], "Tutorial": ["lib/bindings/torch/TUTORIAL.md"], "Installing": ["tools/packages/README.md"],
        "C": [f"{TRAIN}#training-steps-in-c"], "Python": ["lib/bindings/python/README.md"],
        "PyTorch": ["lib/bindings/torch/README.md"], "MPI": ["lib/bindings/mpi/README.md"], "Training": [TRAIN],
        "Parameter server": [f"{TRAIN}#a-parameter-server-of-your-own", f"{TRAIN}#training-with-a-parameter-server"],
        "Running jobs": ["tools/README.md"], "Several machines": ["tools/MACHINES.md"],
        "Why is it slow?": ["tools/README.md#why-is-it-slow"], "What happened?": ["tools/README.md#what-happened"],
        "Measuring": ["bench/README.md"]},
    "Reference": {},
    "How it works": {"Overview": ["lib/README.md"]},
    "Measurements": {
        "All-reduce": ["bench/RESULTS.md"], "Other collectives": ["bench/RESULTS_COLLECTIVES.md"],
        "How libraries are compared": ["bench/compare/README.md"], "Between nodes": ["bench/net/NET-RESULTS.md"],
        "How nodes are measured": ["bench/net/README.md"], "Predictions": ["bench/simulate/README.md"],
        "Staleness": ["bench/staleness/STALENESS-RESULTS.md"], "How staleness is measured": ["bench/staleness/README.md"]},
    "The project": {"Changes": ["CHANGELOG.md"], "Security": ["SECURITY.md"], "Contributing": ["CONTRIBUTING.md"]}}
ELSEWHERE = {"lib": "How it works", "bench": "Measurements", "tools": "Guides"}  # captions of documents without a title here

FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<=\]\()(?!\w+:)([^)#\s]*)(#[^)\s]*)?(?=\))")
CODE = re.compile(r"(?<!`)`([\w.]+(?:\(\))?)`(?!`)(?![^\[\]]*\]\()")  # not within a link
LANGUAGES = {".c": "c", ".h": "c", ".cpp": "cpp", ".py": "python", ".cmake": "cmake", ".sh": "bash", ".txt": "text"}


def documents():
    """Paths of the tree's Markdown."""
    found = [path for place in ("bench", "include", "lib", "tests", "tools") for path in (ROOT / place).rglob("*.md")]
    return sorted(path.relative_to(ROOT).as_posix() for path in [*ROOT.glob("*.md"), *found])


def slug(heading):
    """The anchor that forges give to a heading."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def sections(path):
    """{anchor: text} of a document's sections; "" is what stands before the first one."""
    parts, anchor = {"": ""}, ""
    for number, piece in enumerate(FENCE.split((ROOT / path).read_text(encoding="utf-8"))):
        for line in piece.splitlines(keepends=True):
            if line.startswith("## ") and number % 2 == 0:
                anchor = slug(line[3:])
                anchor += "-1" if anchor in parts else ""
            parts[anchor] = parts.get(anchor, "") + line
    return parts


def sentence(summary):
    return f"{summary if summary.startswith('kolo') else summary[:1].upper() + summary[1:]}."


def outside_code(change, text):
    return "".join(piece if number % 2 else change(piece) for number, piece in enumerate(FENCE.split(text)))


def opening(path):
    """The first sentence of a source's opening comment."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        text = f"/* {ast.get_docstring(ast.parse(text)) or ''} */"
    found = re.match(r"/\*.*?\*/", text, re.DOTALL)
    return sentence(header_pages.summary_of(found.group())) if found and header_pages.paragraphs(found.group()) else ""


class Pages:
    """Writes the pages below `folder`. `links`: of site_reference.py."""

    def __init__(self, folder):
        self.folder, self.links, self.sources = folder, {}, set()
        self.navigation = {caption: dict(pages) for caption, pages in NAVIGATION.items()}
        placed = {source for pages in NAVIGATION.values() for sources in pages.values() for source in sources}
        for path in documents():
            if path not in placed:
                title = sections(path)[""].partition("# ")[2].partition("\n")[0]
                pages = self.navigation[ELSEWHERE.get(path.partition("/")[0], "The project")]
                pages[title if title not in pages else path] = [path]
        self.moved = {}  # {document, or document#anchor of a section that has left it: its page}
        for pages in self.navigation.values():
            for title, sources in pages.items():
                for source in sources:
                    path, _, anchor = source.partition("#")
                    self.moved[source] = self.page_of(title, sources)
                    inside = re.findall("^###+ (.*)", sections(path).get(anchor, "") if anchor else "", re.MULTILINE)
                    self.moved.update((f"{path}#{slug(each)}", self.moved[source]) for each in inside)

    @staticmethod
    def page_of(title, sources):
        return "index" if title == START else slug(title) if "#" in sources[0] else sources[0].removesuffix(".md")

    def write(self, page, suffix, text):
        path = self.folder / f"{page}{suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def target(self, path, anchor):
        """Where a link to a file or folder leads on the site."""
        section = f"{path}{anchor or ''}"
        if section in self.moved or path in self.moved:
            return f"/{self.moved.get(section, self.moved.get(path))}.md{anchor or ''}"
        if f"{path}/README.md" in self.moved:
            return f"/{self.moved[f'{path}/README.md']}.md"
        if path.endswith(".png") or path.endswith(".svg"):
            self.copy(path)
            return f"/files/{path}"
        if path.startswith("include/"):
            return f"/reference/c/{pathlib.Path(path).stem}.rst"
        self.sources.add(path)
        return f"/source/{path}.rst"

    def copy(self, path):
        copied = self.folder / "files" / path
        copied.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / path, copied)

    def markdown(self, path, text):
        """A part of a document, with links that lead to pages and names that lead to the reference."""

        def relinked(link):
            place = os.path.normpath(os.path.join(os.path.dirname(path), link.group(1))) if link.group(1) else path
            return self.target(place, link.group(2))

        def named(code):
            role = self.links.get(code.group(1).removesuffix("()"))
            return re.sub(r":([\w:]+):(`.*)", r"{\1}\2", role) if role and ":doc:" not in role else code.group()

        return outside_code(lambda piece: LINK.sub(relinked, CODE.sub(named, piece)), text)

    def write_documents(self):
        for caption in self.navigation.values():
            for title, sources in caption.items():
                self.write_document(title, sources)

    def write_document(self, title, sources):
        """A whole document but for the sections that are pages of their own, or those sections under a title."""
        text = ""
        for source in sources:
            path, _, anchor = source.partition("#")
            parts = sections(path)
            if anchor and anchor not in parts:
                raise ValueError(f"{path} has no section #{anchor}, which NAVIGATION of {__file__} names")
            text += "".join(self.markdown(path, part) for each, part in parts.items()
                            if (each == anchor if anchor else f"{path}#{each}" not in self.moved))
        if text.startswith(f"## {title}\n"):
            text = outside_code(lambda piece: re.sub("^##", "#", piece, flags=re.MULTILINE), text)
        elif text.startswith("## "):
            text = f"# {title}\n\n{self.lead(title)}{text}"
        self.write(self.page_of(title, sources), ".md", text + (self.toctrees() if title == START else ""))

    def lead(self, title):
        """What the site itself says before sections that make a page."""
        if title != "C":
            return ""
        return (f"[A first program](/index.md#a-first-program), [all headers](/reference/c.rst), "
                f"[examples]({self.target('tools/examples', '')}).\n\n")

    def toctrees(self):
        text = ""
        for caption, pages in self.navigation.items():
            rows = [f"{title} <{'self' if title == START else '/' + self.page_of(title, sources)}>"
                    for title, sources in pages.items()]
            if caption == "Reference":
                rows = [f"/reference/{each}" for each in ("c", "python", "commands")
                        if (self.folder / f"reference/{each}.rst").exists()] + ["All names <genindex>"]
            text += "\n".join(["", "```{toctree}", f":caption: {caption}", ":hidden:", "", *rows, "```", ""])
        return text

    def write_list(self, page, title, entries):
        """A page that lists others: {page: what it says}."""
        made = site_reference.Page(title, self.links)
        if page.startswith("source/"):
            made.lines[:0] = [":nosearch:", ""]
        for each, says in entries.items():
            made.add(f"* :doc:`/{each}`" + (f": {made.prose(says)}" if says else ""), "")
        if not page.startswith("source/"):
            made.add(".. toctree::", "   :hidden:", "", *(f"   /{each}" for each in entries))
        self.write(page, ".rst", made.text())

    def write_reference(self, programs):
        headers = {path.stem: header_pages.Header(path.read_text(encoding="utf-8"))
                   for path in sorted((ROOT / "include").glob("*.h"))}
        for name, header in headers.items():
            self.links.update(site_reference.header_links(header, f"reference/c/{name}"))
        modules = site_reference.python_pages(ROOT / "lib/bindings/python/kolo4py", self.links)
        self.write_group("reference/c", "C headers", {
            name: site_reference.header_page(name, header, self.links) for name, header in headers.items()})
        self.write_group("reference/python", "Python modules", modules)
        commands = {}
        for program in programs:
            name = pathlib.Path(program).name
            printed = subprocess.run([program, "--help"], stdout=subprocess.PIPE, text=True, check=True).stdout
            commands[name] = site_reference.command_page(name, printed, self.links)
        if commands:
            self.write_group("reference/commands", "Commands", commands)

    def write_group(self, group, title, pages):
        """{name: site_reference.Page}, and a page that lists them."""
        for name, page in pages.items():
            self.write(f"{group}/{name}", ".rst", page.text())
        self.write_list(group, title, {f"{group}/{name}": sentence(page.summary) for name, page in pages.items()})

    def write_sources(self):
        """Those to which pages link; of a folder also its files."""
        for path in sorted(self.sources):
            if (ROOT / path).is_dir():
                files = [each for each in sorted((ROOT / path).iterdir()) if each.is_file() and each.suffix in LANGUAGES]
                self.sources.update(f"{path}/{each.name}" for each in files)
                self.write_list(f"source/{path}", path, {f"source/{path}/{each.name}": opening(each) for each in files})
        for path in sorted(each for each in self.sources if (ROOT / each).is_file()):
            self.copy(path)
            first = (ROOT / path).read_text(encoding="utf-8").partition("\n")[0]
            language = "bash" if first.startswith("#!") and "sh" in first else LANGUAGES.get(pathlib.Path(path).suffix, "text")
            self.write(f"source/{path}", ".rst", f":nosearch:\n\n{path}\n{'=' * len(path)}\n\n.. literalinclude:: "
                       f"/files/{path}\n   :language: {language}\n")


def settings(version):
    return {
        "project": "kolo", "version": version, "release": version, "extensions": ["myst_parser", "sphinx.ext.githubpages"],
        "html_theme": "furo", "html_title": f"kolo {version}", "html_copy_source": False, "html_show_sourcelink": False,
        "html_show_copyright": False, "html_show_sphinx": False, "exclude_patterns": ["files"], "smartquotes": False,
        "myst_heading_anchors": 6, "highlight_language": "none", "maximum_signature_line_length": 80,
        "add_module_names": False, "toc_object_entries_show_parents": "hide", "python_display_short_literal_types": True,
        "suppress_warnings": ["misc.highlighting_failure", "toc.not_included"],  # the second: sources
        "nitpicky": True, "nitpick_ignore_regex": [("c:.*", "(?!kolo|KOLO).*"), ("py:.*", "(?!kolo).*")]}


def show_progress(app):
    """A line for each page that is read and for each that is written."""
    pages = [f"reading {name}" for name in sorted(app.project.discover())] * 2
    count = 0

    def next_page(_app, name, *_rest):
        nonlocal count
        count += 1
        print(f"[{count}/{len(pages)}] {name}", flush=True)

    app.connect("source-read", next_page)
    app.connect("html-page-context", next_page)


def share_navigation(app):
    """One for all sources in folders of the same depth: they are not in it, and it takes half the time of a page."""
    made = {}

    def made_once(make, depth, **options):
        if depth not in made:
            made[depth] = make(**options)
        return made[depth]

    def share(_app, name, _template, context, _tree):
        if name.startswith("source/"):
            context["toctree"] = functools.partial(made_once, context["toctree"], name.count("/"))

    app.connect("html-page-context", share, priority=100)  # before the theme asks for it


def main(folder, work, *programs):
    folder, work = pathlib.Path(folder), pathlib.Path(work).resolve()
    made = Pages(work / "pages")
    made.write_reference(programs)
    made.write_documents()
    made.write_sources()
    warnings = io.StringIO()
    version = make_manual.version_places.owned(ROOT / "include")
    app = Sphinx(made.folder, None, work / "html", work / "doctrees", "html", settings(version), status=None, warning=warnings)
    show_progress(app)
    share_navigation(app)
    app.build()
    faults = re.sub(r"\x1b\[[\d;]*m", "", warnings.getvalue()).replace(f"{made.folder}/", "")
    if faults:
        sys.exit(f"the site has faults:\n{faults}")
    (work / "html/.buildinfo").unlink()
    (work / "html/_sources").rmdir()
    shutil.rmtree(folder, ignore_errors=True)
    shutil.move(work / "html", folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
