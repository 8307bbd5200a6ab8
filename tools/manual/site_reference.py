"""The reference of the site (tools/manual/site) as reStructuredText: public headers as header_pages.py reads them, commands
as command_page.py does, and Python's packages as their sources have them, which are neither imported nor run."""

import ast
import inspect
import re

import header_pages
from command_page import ORDER, CommandPage

OPTION = r"(?<![\w-])--[a-z][\w-]*"
NAME = re.compile(OPTION + r"|\bkolo_\w+(?:\.h\b|\(\))?|\bKOLO_\w+|\bkolo\.h\b|\bkolo(?:4py)?(?:\.\w+)+")
MARKUP = re.compile(r"[*`|_\\]|^(?:[-+#.]|\w+[.)])(?=\s)|^\.\.")  # what reStructuredText may take for its own
FUNCTION = re.compile(r"^KOLO_API\b(.*?);", re.MULTILINE | re.DOTALL)
FUNCTION_TYPE = re.compile(r"^typedef ([^;{]*\(\*\w+\)\([^;]*\));", re.MULTILINE)
CONSTANT = re.compile(r"^(?:#define| ) +(KOLO_\w+)\b", re.MULTILINE)
ARGUMENTS = re.compile(r"([a-z_]+(?:, [a-z_]+)*): ")  # whose explanation follows in a docstring
KINDS = {"function": "Functions", "class": "Classes", "exception": "Exceptions", "data": "Data"}
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class Page:
    """Has the methods of roff.Page. `links`: {name: the role that links to it}; `order`: of the sections."""

    def __init__(self, title, links, order=()):
        self.links, self.margin, self.summary = links, "", ""
        self.lines = [self.escaped(title), "=" * (2 * len(title)), ""]
        self.sections = {"": self.lines, **{part: [] for part in order}}

    @staticmethod
    def escaped(text):
        return MARKUP.sub(lambda found: "\\" + found.group(), text)

    def link(self, name):
        return self.links.get(name[:-2] if name.endswith("()") else name)

    def prose(self, text):
        """With links; what stands between backquotes is code."""
        found = ""
        for number, part in enumerate(re.split(r"`([^`\n]+)`", text)):
            if number % 2:
                found += f"\\ {self.link(part) or f'``{part}``'}\\ "
                continue
            end = 0
            for name in NAME.finditer(part):
                shown = f"``{name.group()}``" if name.group().startswith("--") else self.link(name.group())
                if shown:
                    found += f"{self.escaped(part[end:name.start()])}\\ {shown}\\ "
                    end = name.end()
            found += self.escaped(part[end:])
        return found

    def add(self, *lines):
        self.lines += [self.margin + line if line else "" for line in lines]

    def paragraph(self, text):
        self.add(self.prose(text), "")

    def bullet(self, text):
        self.add(f"* {self.prose(text)}", "")

    def item(self, tag, texts):
        self.add(f"``{tag}``")
        for text in texts or ["\\"]:
            self.add(f"   {self.prose(text) if texts else text}", "")

    def verbatim(self, lines, language="text"):
        self.add(f".. code-block:: {language}", "", *(f"   {line}" if line else "" for line in lines), "")

    def heading(self, text, mark="-"):
        self.add(self.escaped(text), mark * (2 * len(text)), "")

    def subheading(self, text):
        self.heading(text, "~")

    def entry(self, kind, signatures, *options):
        """Of the index; what is added until `margin` is made shorter again belongs to it."""
        begin = f".. {kind}:: "
        self.add(begin + signatures[0], *(" " * len(begin) + other for other in signatures[1:]),
                 *(f"   {option}" for option in options), "")
        self.margin += "   "

    def enter(self, section):
        self.lines = self.sections.setdefault(section, [])

    def name(self, _names, summary):
        self.summary = summary  # for the list of pages: the description says it, too

    def see_also(self, references):
        """Nothing: the site's navigation does that."""

    def text(self):
        for section, lines in self.sections.items():
            if lines and section not in ("", "DESCRIPTION"):
                lines[:0] = [section.capitalize(), "-" * len(section), ""]
        return "\n".join(line for lines in self.sections.values() for line in lines) + "\n"


def header_links(header, page):
    """Of what a header declares, and of its name."""
    links = {f"{page.rpartition('/')[2]}.h": f":doc:`/{page}`"}
    for block in header.blocks:
        links.update((name, f":c:func:`{name}`") for name in block.functions)
        links.update((name, f":c:type:`{name}`") for name in block.types)
        links.update((name, f":c:macro:`{name}`") for name in CONSTANT.findall(header_pages.COMMENT.sub("", block.code)))
    return links


def declarations(page, block):
    """Entries of what the block declares. Functions and their types are shown as signatures, the others as code."""
    plain = header_pages.COMMENT.sub("", block.code)
    signatures = [" ".join(found.split()) for found in (FUNCTION if block.functions else FUNCTION_TYPE).findall(plain)]
    for name in CONSTANT.findall(plain):  # outside the entry of their type, whose name would become a part of theirs
        page.add(f".. c:macro:: {name}", "   :no-typesetting:", "")
    if signatures or block.types:
        page.entry("c:function" if block.functions else "c:type", signatures or block.types)
    is_opaque = re.fullmatch(r"typedef struct \w+ \w+;", plain.strip())
    if "#define" in plain or not signatures and not is_opaque:
        page.verbatim((line for line in block.synopsis() if not signatures or line.startswith("#define")), "c")


def header_page(name, header, links):
    page = Page(f"{name}.h", links)
    page.summary = header_pages.summary_of(header.comment)
    header_pages.described(page, header.comment)
    for block in header.blocks:
        summary = header_pages.summary_of(block.comment) if block.comment else ""
        if block.comment and not block.code.strip() and block.comment.strip("/* .\n") == summary:
            page.heading(summary)
            continue
        if block.code.strip():
            declarations(page, block)
        if block.comment:
            header_pages.described(page, block.comment)
        for code, explanation in block.members():
            page.item(code, [explanation])
        page.margin = ""
    return page


def command_page(name, printed, links):
    return CommandPage(name, printed, Page(name, links, ORDER)).page


def statements(body):
    """Those of a module, also under `if` and `try`."""
    for node in body:
        yield node
        if isinstance(node, (ast.If, ast.Try)):
            yield from statements(node.body)


class Module:
    """A module's source. `package`: {dotted name: Module} of all of them."""

    def __init__(self, path, name, package):
        self.name, self.package = name, package
        self.parents = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
        self.lines = path.read_text(encoding="utf-8").split("\n")
        self.tree = ast.parse("\n".join(self.lines))
        self.found = {}
        for node in statements(self.tree.body):
            if isinstance(node, DEFINITIONS):
                self.found[node.name] = node
            elif isinstance(node, ast.ImportFrom) and node.level:
                self.found.update((each.asname or each.name, (node, each.name)) for each in node.names)
            elif isinstance(node, ast.Assign):
                names = [each for target in node.targets for each in getattr(target, "elts", [target])]
                self.found.update((each.id, node) for each in names if isinstance(each, ast.Name))

    def public(self):
        """Names: of __all__ or, without it, of functions, classes and constants that are defined here."""
        if "__all__" in self.found:
            return ast.literal_eval(self.found["__all__"].value)
        return [name for name, node in self.found.items() if not name.startswith("_") and (
            isinstance(node, DEFINITIONS) or isinstance(node, ast.Assign) and name.isupper())]

    def find(self, name):
        """(module, node) of where the package defines it; None: it does not."""
        node = self.found.get(name)
        if not isinstance(node, tuple):
            return node and (self, node)
        imported, original = node
        base = self.parents[:len(self.parents) - imported.level + 1]
        other = self.package.get(".".join(base + ([imported.module] if imported.module else [])))
        return other and other.find(original)

    def comment(self, node):
        """Behind its last line."""
        return self.lines[node.end_lineno - 1][node.end_col_offset:].partition("#")[2].strip()


class Unquoted(ast.NodeTransformer):
    """Annotations without quotes, with the package's own name."""

    def visit_Name(self, node):
        return ast.Name("kolo4py") if node.id == "kolo" else node

    def visit_Constant(self, node):
        if not isinstance(node.value, str):
            return node
        return self.visit(ast.parse(node.value, mode="eval").body)

    def visit_arg(self, node):
        if node.annotation:
            node.annotation = self.visit(node.annotation)
        return node


def signature(node, is_method):
    arguments = node.args
    for each in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]:
        if each:
            Unquoted().visit_arg(each)
    if is_method and not any(getattr(each, "id", "") == "staticmethod" for each in node.decorator_list):
        del arguments.args[0]
    result = node.returns and ast.unparse(Unquoted().visit(node.returns))
    return f"({ast.unparse(arguments)})" + (f" -> {result}" if result else "")


def is_python(code):
    try:
        return bool(ast.parse(code))
    except SyntaxError:
        return False


def documented(page, text):
    """What a docstring says: paragraphs; a paragraph for each line that begins with names of arguments; code, indented."""
    for part in re.split(r"\n\s*\n", inspect.cleandoc(text or "")):
        lines = part.split("\n")
        if all(line.startswith("    ") for line in lines):
            code = inspect.cleandoc(f"\n{part}")
            page.verbatim(code.split("\n"), "python" if is_python(code) else "text")
            continue
        joined = []
        for line in lines:
            if joined and not (ARGUMENTS.match(line) and joined[-1].endswith(".")):
                joined[-1] += f" {line.strip()}"
            elif line.strip():
                joined.append(line.strip())
        for each in joined:
            names = ARGUMENTS.match(each)
            page.paragraph(each if not names else
                           re.sub(r"\w+", r"`\g<0>`", names.group(1)) + each[names.end(1):])


class PythonPage:
    """Of a module. `places`: {(module, name): dotted public name} of every class that has an entry."""

    def __init__(self, module, links, places):
        self.module, self.places = module, places
        self.page = page = Page(module.name, links)
        page.add(f".. py:module:: {module.name}", "")
        documented(page, ast.get_docstring(module.tree))
        page.summary = header_pages.summary_of(f"/* {ast.get_docstring(module.tree)} */")
        found = {name: module.find(name) for name in module.public()}
        for kind, title in KINDS.items():
            for number, name in enumerate(each for each in found if self.kind(*found[each]) == kind):
                if number == 0:
                    page.heading(title)
                self.entry(kind, name, *found[name])
                page.margin = ""

    def kind(self, module, node):
        if isinstance(node, ast.ClassDef):
            is_error = any(getattr(each, "id", "") == "Exception" for each in node.bases) or any(
                self.kind(*where) == "exception" for where in self.bases(module, node))
            return "exception" if is_error else "class"
        return "function" if isinstance(node, DEFINITIONS) else "data"

    def entry(self, kind, name, module, node):
        if isinstance(node, ast.ClassDef):
            self.class_entry(kind, name, module, node)
        elif isinstance(node, DEFINITIONS):
            self.function_entry("py:function", name, node, signature(node, False))
        else:
            self.page.entry("py:data", [name])
            self.page.paragraph(module.comment(node))

    def function_entry(self, kind, name, node, arguments, *options):
        margin = self.page.margin
        self.page.entry(kind, [name + arguments], *options)
        documented(self.page, ast.get_docstring(node))
        self.page.margin = margin

    def bases(self, module, node):
        """[(module, class)] of those that the package defines."""
        found = [module.find(each.id) for each in node.bases if isinstance(each, ast.Name)]
        return [where for where in found if where and isinstance(where[1], ast.ClassDef)]

    def constructor(self, module, node):
        """Its arguments; none if it takes what only the package itself has."""
        made = next((each for each in node.body if getattr(each, "name", "") == "__init__"), None)
        if made is None:
            return ""
        shown = signature(made, True).removesuffix(" -> None")
        for name in re.findall(r"[A-Z]\w+", shown):
            where = module.find(name)
            if where and isinstance(where[1], ast.ClassDef) and (where[0], name) not in self.places:
                return ""
        return shown

    def class_entry(self, kind, name, module, node):
        self.page.entry(f"py:{kind}", [name + self.constructor(module, node)])
        shown = [self.places.get((each, base.name)) for each, base in self.bases(module, node)]
        if any(shown):
            self.page.paragraph("Derived from " + ", ".join(filter(None, shown)) + ".")
        documented(self.page, ast.get_docstring(node))
        self.members(module, node, set())

    def members(self, module, node, seen):
        """Also those of bases that have no entry themselves."""
        for each in node.body:
            name = getattr(each, "name", None) or getattr(getattr(each, "target", None), "id", "_")
            special = name.startswith("__") and ast.get_docstring(each) if isinstance(each, DEFINITIONS) else False
            if name in seen or name == "__init__" or name.startswith("_") and not special:
                continue
            seen.add(name)
            if isinstance(each, ast.AnnAssign):
                self.page.entry("py:attribute", [name], f":type: {ast.unparse(Unquoted().visit(each.annotation))}")
                self.page.paragraph(module.comment(each))
                self.page.margin = self.page.margin[:-3]
            elif isinstance(each, DEFINITIONS[:2]):
                self.method(name, each)
        for base_module, base in self.bases(module, node):
            if (base_module, base.name) not in self.places:
                self.members(base_module, base, seen)

    def method(self, name, node):
        kinds = {getattr(each, "id", "") for each in node.decorator_list}
        shown = signature(node, True)
        if "property" in kinds:
            result = shown.partition(" -> ")[2]
            self.function_entry("py:property", name, node, "", *([f":type: {result}"] if result else []))
        else:
            options = [f":{kind}:" for kind in ("staticmethod", "classmethod") if kind in kinds]
            self.function_entry("py:method", name, node, shown, *options)


def python_modules(folder):
    """{dotted name: Module} of a package."""
    package = {}
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        package[name] = Module(path, name, package)
    return package


def python_pages(folder, links):
    """{module's name: page} of the public ones. Adds links to what they define."""
    package = python_modules(folder)
    public = {name: module for name, module in package.items() if "._" not in name}
    places = {}
    for name, module in public.items():
        for each in module.public():
            found_in, node = module.find(each)
            links[f"{name}.{each}"] = f":py:obj:`{name}.{each}`"
            if isinstance(node, ast.ClassDef):
                places.setdefault((found_in, node.name), f"{name}.{each}")
        links[name] = f":py:mod:`{name}`"
    links.update((name.replace("kolo4py.", "kolo.", 1), role) for name, role in list(links.items()) if
                 name.startswith("kolo4py."))
    return {name: PythonPage(module, links, places).page for name, module in public.items()
            if module.public()}
