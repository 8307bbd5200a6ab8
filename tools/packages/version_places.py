"""The version wherever the tree names it: include/kolo.h owns it, and CMake takes it from there; what cannot is listed here.

    python3 tools/packages/version_places.py [VERSION]

prints the version, or what names another one (exit status 1); with VERSION writes that to all places first."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
OWNER = "include/kolo.h"
PARTS = ("MAJOR", "MINOR", "PATCH")

# Each has one place, behind these words. Where the soname is named, that has the first numbers alone.
PLACES = (
    ("include/kolo_types.h", r'kolo_version\(void\); +/\* "'),
    ("lib/bindings/python/kolo4py/_library.py", r'^VERSION = "'),
    ("tools/README.md", r"libkolo\.so\."),
    ("tools/packages/README.md", r"`libkolo"),
    ("tools/packages/recipes/kolo.nix", r'^  version = "'),
    ("tools/packages/recipes/package.py", r'^    version\("'),
    ("tools/packages/recipes/recipe.yaml", r'^  version: "'),
)


def owned(include):
    """The version, by the headers in that folder."""
    header = (include / "kolo.h").read_text(encoding="utf-8")
    return ".".join(re.search(rf"KOLO_VERSION_{part} +(\d+)", header).group(1) for part in PARTS)


def cut(version, like):
    """As many numbers of the version as `like` has."""
    return ".".join(version.split(".")[:like.count(".") + 1])


def problems(root):
    """What the owner does not agree with."""
    version, found = owned(root / "include"), []
    for path, words in PLACES:
        named = re.findall(rf"{words}(\d+(?:\.\d+)*)", (root / path).read_text(encoding="utf-8"), re.MULTILINE)
        if len(named) != 1 or named[0] != cut(version, named[0]):
            found.append(f"{path}: names {', '.join(named) or 'no version'}; {OWNER} has {version}")
    return found


def write(root, version):
    header = root / OWNER
    text = header.read_text(encoding="utf-8")
    for part, number in zip(PARTS, version.split(".")):
        text = re.sub(rf"(KOLO_VERSION_{part} +)\d+", rf"\g<1>{number}", text)
    header.write_text(text, encoding="utf-8")
    for path, words in PLACES:
        text = re.sub(rf"({words})(\d+(?:\.\d+)*)", lambda found: found[1] + cut(version, found[2]),
                      (root / path).read_text(encoding="utf-8"), flags=re.MULTILINE)
        (root / path).write_text(text, encoding="utf-8")


def main(arguments):
    if len(arguments) > 1 or any(not re.fullmatch(r"\d+\.\d+\.\d+", argument) for argument in arguments):
        print("usage: version_places.py [VERSION], as in 0.2.0", file=sys.stderr)
        return 2
    if arguments:
        write(ROOT, arguments[0])
    found = problems(ROOT)
    print("\n".join(found) or owned(ROOT / "include"), file=sys.stderr if found else sys.stdout)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
