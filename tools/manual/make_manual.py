"""Writes the manual pages into a folder, man1 and man3 in it: one for each program that is given, from its --help, and
those of the public headers, from their comments. Usage: make_manual.py FOLDER INCLUDE [PROGRAM...]"""

import datetime
import os
import pathlib
import subprocess
import sys
import time

import command_page
import header_pages
import roff

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "packages"))
import version_places


def write(folder, section, name, text):
    path = folder / f"man{section}" / f"{name}.{section}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def main(folder, include, *programs):
    folder, include = pathlib.Path(folder), pathlib.Path(include)
    main_header = (include / "kolo.h").read_text(encoding="utf-8")
    version = version_places.owned(include)
    day = int(os.environ.get("SOURCE_DATE_EPOCH", time.time()))
    date = datetime.datetime.fromtimestamp(day, datetime.timezone.utc).strftime("%Y-%m-%d")
    for program in programs:
        name = pathlib.Path(program).name
        printed = subprocess.run([program, "--help"], stdout=subprocess.PIPE, text=True, check=True).stdout
        page = roff.Page(name, 1, date, version, command_page.ORDER)
        write(folder, 1, name, command_page.CommandPage(name, printed, page).text())
    headers = sorted(include.glob("kolo*.h"))
    for path in headers:
        included = "kolo.h" if f'"{path.name}"' in main_header else path.name
        others = ["kolo"] if path.stem != "kolo" else [other.stem for other in headers if other.stem != "kolo"]
        pages = header_pages.HeaderPages(path.stem, included, path.read_text(encoding="utf-8"), date, version, others)
        for name, text in pages.texts().items():
            write(folder, 3, name, text)


if __name__ == "__main__":
    main(*sys.argv[1:])
