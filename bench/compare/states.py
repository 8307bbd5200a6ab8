"""The states of the machine that a case's rows were measured in, by how long two cores took to exchange a cache line.

A hypervisor that moves virtual CPUs between cores with a common cache and cores without changes all times several-fold,
from one second to the next; only what was measured in the same state is compared. A row is anything with `exchange_ns`
and `exchange_after_ns`, either of which can be missing: a row of a driver's, or a measurement of the bound."""

import collections
import math
import statistics

NEAR, FAR = "near", "far"
ONLY = "only"  # the state of a machine that has one
MIXED = "mixed"  # it changed while the row was measured, is rare, or is not known: the row is compared with nothing
APART = 1.8  # two states' exchanges, at least
STRAY_PART = 0.05  # of a state's exchanges may be nearer to the other's; of all rows are no state
VALUES_MIN = 2  # of a state, so that one stray value makes none
MAJOR_PART = 0.25  # of all rows: a state that is worth measuring more for

State = collections.namedtuple("State", "name exchange_ns rows")


def exchanges(row):
    values = (row.get(name) for name in ("exchange_ns", "exchange_after_ns"))
    return [value for value in values if isinstance(value, (int, float)) and value > 0]


def boundary(values):
    """The time between two states' exchanges, or None where there is one state: the largest gap, in proportion, between
    two parts of the values; where it can be, each part is more than strays."""
    values = sorted(values)
    for part in (STRAY_PART, 0):
        least = max(VALUES_MIN, math.ceil(part * len(values)))
        widest, found = APART, None
        for split in range(least, len(values) - least + 1):
            low_end = values[split - 1 - int(STRAY_PART * split)]
            high_end = values[split + int(STRAY_PART * (len(values) - split))]
            if high_end > widest * low_end:
                widest, found = high_end / low_end, math.sqrt(low_end * high_end)
        if found:
            return found
    return None


class States:
    """What the rows of one case say of the machine."""

    def __init__(self, rows):
        known = [row for row in rows if exchanges(row)]
        self.boundary_ns = boundary([ns for row in known for ns in exchanges(row)])
        self.typical_ns = {}  # of each state; None where no exchange is known
        for name in (NEAR, FAR) if self.boundary_ns else (ONLY,):
            values = [exchanges(row) for row in known if self.side(row) == name]
            if len(values) >= STRAY_PART * len(known):
                self.typical_ns[name] = statistics.median([ns for each in values for ns in each]) if values else None

    def side(self, row):
        """Where the boundary puts a row."""
        values = exchanges(row)
        if not self.boundary_ns:
            return ONLY
        if values and max(values) <= self.boundary_ns:
            return NEAR
        return FAR if values and min(values) > self.boundary_ns else MIXED

    def of(self, row):
        """The state of one of the rows; where there is one, all are in it."""
        return self.side(row) if not self.boundary_ns else self.of_other(row)

    def of_other(self, row):
        """The state of what need not be in any of those that the rows were in."""
        name = self.side(row)
        if name == MIXED or name not in self.typical_ns:
            return MIXED
        typical_ns = self.typical_ns[name]
        is_strange = any(not 1 / APART < ns / typical_ns < APART for ns in exchanges(row) if typical_ns)
        return MIXED if is_strange else name

    def found(self, rows):
        """The states, near first."""
        names = [self.of(row) for row in rows]
        return [State(name, round(ns, 1) if ns else None, names.count(name)) for name, ns in self.typical_ns.items()
                if name in names]

    def major(self, rows):
        """Names of the states with so many rows that the others should have some to compare."""
        return [state.name for state in self.found(rows) if state.rows >= MAJOR_PART * len(rows)]


def mark(case):
    """Gives each row and bound of a case its state, and the case its list of them."""
    rows = [row for series in case["series"] for taken in series["rounds"] for row in taken]
    states = States(rows)
    for row in rows:
        row["state"] = states.of(row)
    for bound in case["bounds"]:
        bound["state"] = states.of_other(bound)
    case["states"] = [state._asdict() for state in states.found(rows)]
    case["mixed_rows"] = sum(1 for row in rows if row["state"] == MIXED)
