"""Runs a command to which the kernel refuses io_uring, as containers' policies do: without_uring.py COMMAND..."""

import ctypes
import os
import struct
import sys

SET_NO_NEW_PRIVILEGES, SET_SECCOMP, FILTER = 38, 22, 2  # prctl
IO_URING_SETUP, EPERM = 425, 1  # the same on all machines
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06  # instructions of a filter: a word of what was called, compare, end
ALLOWED, REFUSED = 0x7fff0000, 0x00050000 | EPERM


class Program(ctypes.Structure):
    _fields_ = [("count", ctypes.c_ushort), ("instructions", ctypes.c_char_p)]


def refuse_io_uring():
    instructions = b"".join(struct.pack("=HBBI", *each) for each in (
        (LOAD, 0, 0, 0), (EQUAL, 0, 1, IO_URING_SETUP), (RETURN, 0, 0, REFUSED), (RETURN, 0, 0, ALLOWED)))
    program = Program(len(instructions) // 8, instructions)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0) or libc.prctl(SET_SECCOMP, FILTER, ctypes.byref(program), 0, 0):
        raise OSError(ctypes.get_errno(), "no filter can be set")


if __name__ == "__main__":
    refuse_io_uring()
    os.execvp(sys.argv[1], sys.argv[1:])
