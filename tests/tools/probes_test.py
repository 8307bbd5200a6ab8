"""Static probes (base/probes.h): the library has each, its arguments are there, and it costs a nop."""

import os
import re
import subprocess
import unittest

import launching

LIBRARY = os.environ["KOLO_LIBRARY"]
ARGUMENTS = {"call_begin": 5, "call_end": 3, "wait_begin": 2, "wait_end": 4, "failure": 4}


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, "LC_ALL": "C"}).stdout


def probes():
    """(name, address, arguments) of each probe of the provider kolo."""
    found = re.findall(r"Provider: kolo\s+Name: (\w+)\s+Location: (\w+),.*\n\s+Arguments: (.*)", output("readelf", "-n", LIBRARY))
    return [(name, int(location, 16), arguments.split()) for name, location, arguments in found]


@unittest.skipUnless(int(os.environ["KOLO_HAVE_SDT"]), "the library was built without <sys/sdt.h> (systemtap-sdt-dev)")
class Probes(unittest.TestCase):
    def test_each_is_there(self):
        self.assertEqual(set(ARGUMENTS), {name for name, _, _ in probes()})
        for name, _, arguments in probes():
            self.assertEqual(ARGUMENTS[name], len(arguments), arguments)
            for argument in arguments:
                self.assertRegex(argument, r"^-?[48]@.")

    def test_cost_a_nop(self):
        for name, address, _ in probes():
            code = output("objdump", "-d", f"--start-address={address}", f"--stop-address={address + 4}", LIBRARY)
            self.assertRegex(code, rf"(?m)^ *{address:x}:\s.*\bnop$", name)

    def test_numbers_are_not_loaded(self):
        """Where a call begins and ends its number and the rank are described where they are in memory."""
        for name, _, arguments in probes():
            if name.startswith("call"):
                for argument in (arguments[1], arguments[-1]):
                    self.assertRegex(argument, r"[(\[]", f"{name} {arguments}")


if __name__ == "__main__":
    launching.main()
