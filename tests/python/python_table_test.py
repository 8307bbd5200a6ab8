"""As ranks: tables of a parameter server, in every mode, by whole tables and by rows, saved and loaded; what is wrong is
refused by name."""

import array
import contextlib
import itertools
import math
import os
import tempfile
from unittest import mock

import kolo4py as kolo
from kolo4py import _handle, _interrupts
import python_ranks
from python_arrays import numpy

ROWS, COLUMNS, CLOCKS = 20, 3, 8
STALENESSES = (0, 2, math.inf)


class Tables(python_ranks.RankTest):
    def updates(self, clock):
        return array.array("f", [(i * 7 + clock * 3 + self.comm.rank * 5) % 11 - 5 for i in range(ROWS * COLUMNS)])

    def sums(self):
        return [sum((i * 7 + clock * 3 + rank * 5) % 11 - 5 for clock in range(CLOCKS) for rank in range(self.comm.size))
                for i in range(ROWS * COLUMNS)]

    def settled(self, table):
        """What the table holds once all workers have ended their clocks."""
        table.wait()
        self.comm.barrier()
        return list(table.pull(array.array("f", bytes(4 * ROWS * COLUMNS))))

    def test_pushes(self):
        for staleness in STALENESSES:
            for placement in ("range", "round_robin", "hash", "greedy"):
                with kolo.Table(self.comm, ROWS, COLUMNS, staleness=staleness, placement=placement) as table:
                    for clock in range(CLOCKS):
                        updates = self.updates(clock)
                        if clock % 2:
                            table.push_rows(list(range(ROWS)), updates)
                        else:
                            table.push(updates[:9])
                            table.push(updates[9:], first=3)
                        table.clock()
                    self.assertEqual(self.sums(), self.settled(table))
                    stats = table.stats
                    self.assertEqual((CLOCKS, CLOCKS, self.comm.size), (stats["clock"], stats["slowest_clock"],
                                                                       stats["workers"]))
                    self.comm.barrier()

    def test_rows(self):
        lengths, kinds = [1 + row % 4 for row in range(10)], {"f4": lambda values: array.array("f", values)}
        if numpy:
            kinds["c8"] = lambda values: numpy.array(values, "c8")
        for dtype, make in kinds.items():
            with kolo.Table(self.comm, 10, dtype=dtype, row_columns=lengths, staleness=0) as table:
                first = sum(lengths[:4])
                table.initialize(make(range(sum(lengths))) if self.comm.rank == 0 else None)
                out = make([9] * (lengths[4] + lengths[0]))
                self.assertEqual([*range(first, first + lengths[4]), 0], list(table.pull_rows([4, 0], out)))
                table.push_rows([4, 4], make([1] * 2 * lengths[4]))
                table.clock()
                self.assertEqual([first + i + 2 * self.comm.size for i in range(lengths[4])],
                                 list(table.pull(make([9] * lengths[4]), 4, 1)))
                self.assertEqual(table.owner(9), self.comm.size - 1)
                self.comm.barrier()

    def test_rules(self):
        for rule, wanted in (("assign", 2), ("sgd", -0.5 * 2), ("adagrad", -0.5), ("adam", -0.5)):
            with kolo.Table(self.comm, 1, 1, "f8", rule=rule, lr=0.5, op="avg") as table:
                table.push(array.array("d", [2]))
                table.clock()
                self.assertAlmostEqual(wanted, table.pull(array.array("d", [0]))[0], 6)
                table.set_learning_rate(0.25)
                self.comm.barrier()

    def test_numpy(self):
        if numpy is None:
            self.skipTest("no NumPy")
        with kolo.Table(self.comm, ROWS, COLUMNS, staleness=1) as table:
            ids = numpy.array([5, 1, 5])
            table.push_rows(ids, numpy.ones((3, COLUMNS), "f4"))
            table.clock()
            self.settled(table)
            self.assertEqual([[2 * self.comm.size] * COLUMNS, [self.comm.size] * COLUMNS, [0] * COLUMNS],
                             table.pull_rows([5, 1, 0]).tolist())
            self.assertEqual((ROWS, COLUMNS), table.pull().shape)
            with self.assertRaisesRegex(kolo.ArgumentError, "ids are int32"):
                table.pull_rows(ids.astype("i4"))
            self.comm.barrier()

    def test_files(self):
        folder = self.comm.broadcast_object(tempfile.mkdtemp() if self.comm.rank == 0 else None)
        path = os.path.join(folder, "table")
        with kolo.Table(self.comm, ROWS, COLUMNS, staleness=3) as table:
            for clock in range(CLOCKS):
                table.push(self.updates(clock))
                table.clock()
            table.save(path)
            table.push(self.updates(0))
            table.wait()
            self.comm.barrier()
        with kolo.Table(self.comm, ROWS, COLUMNS, placement="hash") as table:
            table.load(path)
            self.assertEqual(self.sums(), self.settled(table))
            self.comm.barrier()
            if self.comm.rank == 0:
                os.unlink(path)
                os.rmdir(folder)
            with self.assertRaisesRegex(kolo.ArgumentError, "No such file|failed on"):
                table.load(path)

    def test_closed_communicator(self):
        """It ends its tables, the last one first, and a file that one saves is whole then."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "table")
            with self.comm.split(self.comm.rank) as alone:
                library = alone._handle.library
                large, small = (kolo.Table(alone, rows, 1 << 12) for rows in (1 << 12, 1))
                places = [large._address.value, small._address.value]
                large.save(path)
                with mock.patch.object(library, "kolo_table_destroy", wraps=library.kolo_table_destroy) as destroy:
                    destroy.side_effect = lambda place: ended.append(place.value) or mock.DEFAULT
                    ended = []
                    alone.close()
                    large.close()
            del small
            self.assertEqual(places[::-1], ended)
            with self.assertRaises(kolo.Broken):
                large.clock()
            with self.comm.split(self.comm.rank) as alone:
                kolo.Table(alone, 1 << 12, 1 << 12).load(path)

    def test_end_of_program(self):
        """It leaves the tables of all communicators before it ends the first of these, which may wait for other ranks."""
        some, ended = [self.comm.split(self.comm.rank) for _ in range(2)], []
        library, names = some[0]._handle.library, ("kolo_table_destroy", "kolo_comm_destroy")
        for alone in some:
            kolo.Table(alone, 2, staleness=1)
        with contextlib.ExitStack() as stack:
            for name in names:
                ends = stack.enter_context(mock.patch.object(library, name, wraps=getattr(library, name)))
                ends.side_effect = lambda _, name=name: ended.append(name) or mock.DEFAULT
            stack.enter_context(mock.patch.object(_handle, "_open", [alone._handle for alone in some]))
            _handle._close_all()
        self.assertEqual([names[0]] * 2 + [names[1]] * 2, ended)

    def test_a_handler_raises_anywhere(self):
        """Each table that the library has made is ended, once."""
        alone = self.comm.split(self.comm.rank)
        library, made = alone._handle.library, []
        with mock.patch.object(library, "kolo_table_create", wraps=library.kolo_table_create) as create, \
                mock.patch.object(library, "kolo_table_destroy", wraps=library.kolo_table_destroy) as destroy:
            for line in itertools.count():
                if not python_ranks.is_raised_at(line, lambda: made.append(kolo.Table(alone, 2))):
                    break
                self.assertEqual((create.call_count, []), (destroy.call_count, alone._handle.tables))
            self.assertGreater(create.call_count, 1)
            for line in itertools.count():
                is_over = not python_ranks.is_raised_at(line, made[-1].close)
                made[-1].close()
                self.assertEqual((create.call_count, []), (destroy.call_count, alone._handle.tables))
                if is_over:
                    break
                made.append(kolo.Table(alone, 2))
        self.assertGreater(len(made), 3)
        for close in (kolo.Table(alone, 2).close, alone.close):  # in a wait within: the call raises it in its end
            kolo.Table(alone, 2)
            with mock.patch.object(library, "kolo_table_destroy", wraps=library.kolo_table_destroy) as destroy:
                destroy.side_effect = lambda place: _interrupts.raised.append(python_ranks.Raised()) or mock.DEFAULT
                self.assertRaises(python_ranks.Raised, close)
        self.assertIsNone(alone._handle._owned)

    def test_refused(self):
        with self.assertRaisesRegex(kolo.ArgumentError, "rule 'half'"):
            kolo.Table(self.comm, ROWS, rule="half")
        with self.assertRaisesRegex(kolo.ArgumentError, "staleness -1"):
            kolo.Table(self.comm, ROWS, staleness=-1)
        with self.assertRaisesRegex(TypeError, "as an integer"):
            kolo.Table(self.comm, ROWS, staleness=0.5)
        with kolo.Table(self.comm, ROWS, COLUMNS) as table:
            with self.assertRaisesRegex(kolo.ArgumentError, "row 20: the table has rows 0 to 19"):
                table.pull_rows([ROWS], array.array("f", bytes(12)))
            with self.assertRaisesRegex(kolo.ArgumentError, "row -1"):
                table.push_rows([-1], array.array("f", bytes(12)))
            one, wide, long = array.array("f", bytes(12)), (1 << 32) + 1, (1 << 64) + 1
            for call in (lambda: table.initialize(root=wide), lambda: table.pull(one, long, 1),
                         lambda: table.push(one, long), lambda: table.owner(long), lambda: table.owner(0, long),
                         lambda: kolo.Table(self.comm, long), lambda: kolo.Table(self.comm, ROWS, long),
                         lambda: kolo.Table(self.comm, 1, row_columns=[long]), lambda: kolo.Table(self.comm, ROWS, shards=wide),
                         lambda: kolo.Table(self.comm, ROWS, servers=wide), lambda: kolo.Table(self.comm, ROWS, split_bytes=-1),
                         lambda: kolo.Table(self.comm, ROWS, staleness=long)):
                with self.assertRaisesRegex(kolo.ArgumentError, f"({wide}|{long}|-1): must be from "):
                    call()
            with self.assertRaisesRegex(kolo.ArgumentError, "no whole rows"):
                table.push(array.array("f", bytes(16)))
            with self.assertRaisesRegex(kolo.ArgumentError, "updates"):
                table.push(array.array("d", bytes(24)))
            with self.assertRaisesRegex(kolo.ArgumentError, "worker"):
                table.serve()
            self.comm.barrier()
        with self.assertRaisesRegex(kolo.ArgumentError, "closed"):
            table.clock()


if __name__ == "__main__":
    python_ranks.main()
