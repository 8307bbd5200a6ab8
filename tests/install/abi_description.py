"""The ABI of the public headers, as libabigail (abidw, abidiff) describes and compares it: a library is made of them, with a
body for each function that they declare, so that nothing private and no choice of a compiler is in it. tidy.exports shows
that the library that is built has these functions, and its sources include these headers.

    python3 tests/install/abi_description.py

writes kolo.abi, what this minor version promises, anew, unless that breaks programs of the same minor version."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parents[1] / "tools/packages"))
import version_places

INCLUDE = HERE.parents[1] / "include"
DESCRIPTION = HERE / "kolo.abi"
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
FUNCTION = re.compile(r"^KOLO_API\s+([^;{]*?\b\w+\s*\([^;]*\));", re.MULTILINE)
COUNT = re.compile(r"\b(KOLO_\w+),?\s*/\* how many there are \*/")


def soname(include):
    """Before 1.0 it has the minor version."""
    major, minor, _ = version_places.owned(include).split(".")
    return f"libkolo.so.0.{minor}" if major == "0" else f"libkolo.so.{major}"


def header_texts(include):
    return {path.name: path.read_text(encoding="utf-8") for path in sorted(include.glob("kolo*.h"))}


def make_library(include, folder):
    """A library of these headers, with what a debugger knows of it; nobody is to call it."""
    texts, source, library = header_texts(include), folder / "kolo_abi.c", folder / "libkolo.so"
    lines = [f"#include <{name}>\n" for name in texts]
    lines += [f"KOLO_API {declaration} {{ __builtin_trap(); }}\n" for text in texts.values()
              for declaration in FUNCTION.findall(COMMENT.sub("", text))]
    source.write_text("".join(lines), encoding="utf-8")
    subprocess.run([os.environ.get("CC", "cc"), "-std=c11", "-g", "-gdwarf-4", "-shared", "-fPIC", "-nostdlib", f"-I{include}",
                    f"-Wl,-soname,{soname(include)}", "-o", library, source.name], cwd=folder, check=True)
    return library


def describe(include, to):
    """Writes the description into the file `to`."""
    with tempfile.TemporaryDirectory(prefix="kolo-abi-") as folder:
        subprocess.run(["abidw", "--no-corpus-path", "--no-comp-dir-path", "--no-show-locs", "--no-parameter-names",
                        "--no-write-default-sizes", "--type-id-style", "hash", "--out-file", to,
                        make_library(include, pathlib.Path(folder))], check=True)


def members(struct):
    """(name, offset in bits) of each."""
    return [(member.find("var-decl").get("name"), int(member.get("layout-offset-in-bits")))
            for member in struct.findall("data-member")]


def take_back_growth(old, new):
    """Of a struct that begins with its size, members behind the end of the old one: programs that do not know them say so."""
    known = members(old)
    added = new.findall("data-member")[len(known):]
    if known and known[0][0].endswith("_bytes") and added and members(new)[len(known)][1] >= int(old.get("size-in-bits")):
        for member in added:
            new.remove(member)
        new.set("size-in-bits", old.get("size-in-bits"))


def take_back_count(old, new, counts):
    """What counts the enumerators of an enumeration."""
    values = {enumerator.get("name"): enumerator.get("value") for enumerator in old.findall("enumerator")}
    for enumerator in new.findall("enumerator"):
        if enumerator.get("name") in counts:
            enumerator.set("value", values.get(enumerator.get("name"), enumerator.get("value")))


def difference(old, include, folder):
    """What a program that was compiled with the description `old` would find changed in these headers, in abidiff's words;
    "" where it finds at most additions."""
    describe(include, folder / "new.abi")
    counts = {name for text in header_texts(include).values() for name in COUNT.findall(text)}
    tree = xml.etree.ElementTree.parse(folder / "new.abi")
    known = {(item.tag, item.get("name")): item for item in xml.etree.ElementTree.parse(old).iter()}
    for item in tree.iter():
        before = known.get((item.tag, item.get("name")))
        if before is not None and item.tag == "class-decl":
            take_back_growth(before, item)
        elif before is not None and item.tag == "enum-decl":
            take_back_count(before, item, counts)
    tree.write(folder / "new.abi")
    done = subprocess.run(["abidiff", "--no-added-syms", old, folder / "new.abi"], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    return done.stdout if done.returncode != 0 else ""


def main():
    with tempfile.TemporaryDirectory(prefix="kolo-abi-") as folder:
        same_name = f"soname='{soname(INCLUDE)}'" in DESCRIPTION.read_text(encoding="utf-8")
        found = difference(DESCRIPTION, INCLUDE, pathlib.Path(folder)) if same_name else ""
    if found:
        print(f"{found}\nThis breaks programs of this minor version, which has to be raised then:\n"
              "    python3 tools/packages/version_places.py VERSION", file=sys.stderr)
        return 1
    describe(INCLUDE, DESCRIPTION)
    return 0


if __name__ == "__main__":
    sys.exit(main())
