"""What the package needs of typing when it runs. To import typing itself would take as long as all the rest."""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers know better, by this name

if TYPE_CHECKING:
    from typing import Generic as Generic
    from typing import NamedTuple as NamedTuple
    from typing import TypeVar as TypeVar
else:
    from collections import namedtuple

    def TypeVar(name):
        return name

    class Generic:
        def __class_getitem__(cls, _types):
            return cls

    class _Fields(type):
        """Makes a named tuple of a class's annotations."""

        def __new__(cls, name, bases, body):
            if not bases:
                return super().__new__(cls, name, bases, body)
            made = namedtuple(name, body["__annotations__"], module=body["__module__"])
            made.__doc__, made.__annotations__ = body.get("__doc__"), body["__annotations__"]
            return made

    class NamedTuple(metaclass=_Fields):
        pass
