"""As ranks: exact sums and the operation sum_exact, against sums of fractions."""

import array
import fractions
import math
import random
import struct

import kolo4py as kolo
import python_ranks


def true_sum(values):
    """The float nearest to the sum, ties to even: a division of integers is rounded like that."""
    return float(sum(map(fractions.Fraction, values), fractions.Fraction()))


def as_f32(value):
    return struct.unpack("f", struct.pack("f", value))[0]


class Sums(python_ranks.RankTest):
    def addends(self, seed, count, exponents):
        """The same on all ranks."""
        draw = random.Random(seed)
        return [math.ldexp(draw.uniform(-1, 1), draw.randint(-exponents, exponents)) for _ in range(count)]

    def sum_over_ranks(self, values, dtype="float64"):
        """Of values that the ranks hold by turns."""
        own = array.array("d" if dtype == "float64" else "f", values[self.comm.rank::self.comm.size])
        total = kolo.exact(dtype)
        cut = len(own) // 3
        self.assertIs(total, total.add(own[:cut]))
        return total.merge(kolo.exact(dtype).add(own[cut:])).all_reduce(self.comm).value

    def test_sum_of_any_range(self):
        for seed, exponents in enumerate((0, 1, 10, 50, 300, 1000)):
            for count in (0, 1, 7, 100, 4000):
                values = self.addends(seed, count, exponents)
                self.assertEqual(true_sum(values), self.sum_over_ranks(values), (exponents, count))

    def test_f32(self):
        values = [as_f32(value) for value in self.addends(3, 2000, 4)]
        self.assertEqual(as_f32(true_sum(values)), self.sum_over_ranks(values, "float32"))  # which a double holds

    def test_parts_may_overflow(self):
        largest = 1.7976931348623157e308
        self.assertEqual(1.0, self.sum_over_ranks([largest, largest, 1.0, -largest, -largest]))
        self.assertEqual(math.inf, self.sum_over_ranks([largest, largest]))
        self.assertTrue(math.isnan(self.sum_over_ranks([math.inf, 1.0, -math.inf])))

    def test_several_sums(self):
        total = kolo.exact("float64", 3)
        total.add_rows(array.array("d", [1, 2, 3, 10, 20, 30])).add(array.array("d", [0.5]), sum=1)
        size = self.comm.size
        self.assertEqual((11.0 * size, 22.5 * size, 33.0 * size), total.all_reduce(self.comm).values)
        self.assertEqual((0.0, 0.0, 0.0), total.reset().values)
        self.assertRaises(kolo.ArgumentError, lambda: total.value)

    def test_refused(self):
        total = kolo.exact("float32")
        self.assertRaises(kolo.ArgumentError, kolo.exact, "int32")
        self.assertRaises(kolo.ArgumentError, kolo.exact, "float64", 0)
        self.assertRaises(kolo.ArgumentError, total.add, array.array("d", [1]))
        self.assertRaises(kolo.ArgumentError, total.add, array.array("f", [1]), 1)
        self.assertRaises(kolo.ArgumentError, total.merge, kolo.exact("float64"))
        self.assertEqual(0.0, total.value)

    def test_operation(self):
        size, count = self.comm.size, 50
        rows = [self.addends(100 + rank, count, 60) for rank in range(size)]
        x = array.array("d", rows[self.comm.rank])
        self.comm.all_reduce(x, x, "sum_exact")
        self.assertEqual([true_sum(column) for column in zip(*rows)], list(x))
        self.assertRaises(kolo.ArgumentError, self.comm.all_reduce, array.array("i", [1]), None, "sum_exact")


if __name__ == "__main__":
    python_ranks.main()
