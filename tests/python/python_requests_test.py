"""As ranks: calls in the background, waited for, asked about and awaited; messages between ranks."""

import asyncio
import ctypes
import gc
import itertools
import os
import time
import unittest
import weakref

import kolo4py as kolo
import python_ranks

HAS_THREAD = os.environ.get("KOLO_PROGRESS") == "1"


class Requests(python_ranks.RankTest):
    def begin(self, count=1, length=4):
        x = [(ctypes.c_int * length)(*([self.comm.rank + i] * length)) for i in range(count)]
        return [self.comm.all_reduce(each, op="max", async_=True) for each in x]

    def test_wait(self):
        request, = self.begin()
        self.assertEqual([self.comm.size - 1] * 4, list(request.wait()))
        self.assertEqual([self.comm.size - 1] * 4, list(request.wait()), "as often as it is asked")
        self.assertTrue(request.done())
        self.assertIsNone(self.comm.barrier(async_=True).wait())

    def test_done(self):
        request, = self.begin()
        end = time.monotonic() + 60
        while not request.done() and time.monotonic() < end:
            time.sleep(0.001)
        self.assertEqual([self.comm.size - 1] * 4, list(request.wait()))

    def test_every_collective(self):
        size, rank = self.comm.size, self.comm.rank
        x = (ctypes.c_int * (2 * size))(*([rank + 1] * (2 * size)))
        total = size * (size + 1) // 2
        requests = [self.comm.broadcast((ctypes.c_int * 1)(rank), async_=True),
                    self.comm.all_gather(x, async_=True), self.comm.reduce_scatter(x, async_=True),
                    self.comm.reduce(x, async_=True), self.comm.gather(x, async_=True),
                    self.comm.scatter(x if rank == 0 else None, (ctypes.c_int * 2)(), async_=True),
                    self.comm.all_to_all(x, async_=True), self.comm.scan(x, async_=True),
                    self.comm.all_gather(bytes(rank), counts=range(size), async_=True)]
        results = kolo.wait_all(requests)
        each = [r + 1 for r in range(size) for _ in range(2 * size)]
        self.assertEqual([0], list(results[0]))
        self.assertEqual(each, python_ranks.values_of(results[1]))
        self.assertEqual([total] * 2, python_ranks.values_of(results[2]))
        if rank == 0:
            self.assertEqual([total] * 2 * size, results[3].tolist())
            self.assertEqual(each, python_ranks.values_of(results[4]))
        else:
            self.assertEqual([None] * 2, results[3:5])
        self.assertEqual([1, 1], list(results[5]))
        self.assertEqual([r + 1 for r in range(size) for _ in range(2)], results[6].tolist())
        self.assertEqual([(rank + 1) * (rank + 2) // 2] * 2 * size, results[7].tolist())
        self.assertEqual(size * (size - 1) // 2, len(results[8]))

    def test_wait_any(self):
        requests, left = self.begin(3), [0, 1, 2]
        while left:
            index = kolo.wait_any([requests[i] for i in left])
            number = left.pop(index)
            self.assertEqual([self.comm.size - 1 + number] * 4, list(requests[number].wait()))

    def test_buffers_live_until_it_is_complete(self):
        group = self.comm.dup()

        class Array(ctypes.Array):
            _type_, _length_ = ctypes.c_int, 4

        x = Array(1, 1, 1, 1)
        gone = weakref.ref(x)
        request = group.all_reduce(x, x, async_=True)
        request._result = None
        del x
        gc.collect()
        self.assertIsNotNone(gone())
        request.wait()
        gc.collect()
        self.assertIsNone(gone())
        forgotten = group.all_reduce(Array(), async_=True)
        del forgotten
        group.close()
        self.assertEqual({}, group._handle.flying)

    def test_a_handler_raises_anywhere(self):
        """The package has every request that the library has begun, and frees it once."""
        alone = self.comm.split(self.comm.rank)
        x, waited = (ctypes.c_int * 1)(1), 0
        alone.barrier(async_=True).wait()  # with the first one all ranks learn whether there is a thread
        for line in itertools.count():
            began = not python_ranks.is_raised_at(line, lambda: alone.all_reduce(x, x, async_=True))
            for request in list(alone._handle.flying):
                is_over = not python_ranks.is_raised_at(waited, request.wait)
                self.assertIs(x, request.wait())
                waited += 1
            if began and is_over:
                break
        alone.barrier()
        self.assertEqual((waited + 2, {}), (alone.stats["calls"], alone._handle.flying))
        self.assertGreater(waited, 10)
        alone.close()

    def test_after_the_end(self):
        group = self.comm.dup()
        self.comm.barrier()
        request = group.barrier(async_=True) if self.comm.rank == 0 else None
        group.close()
        if request and self.comm.size > 1:
            with self.assertRaises(kolo.Broken):
                request.wait()
        with self.assertRaises(kolo.Broken):
            group.barrier(async_=True)

    @unittest.skipIf(HAS_THREAD, "for communicators without a thread")
    def test_timeouts_need_a_thread(self):
        request, = self.begin()
        with self.assertRaisesRegex(kolo.ArgumentError, "progress=True"):
            request.wait(1)
        with self.assertRaisesRegex(kolo.ArgumentError, "progress=True"):
            asyncio.run(self.awaited(request))
        request.wait()

    @staticmethod
    async def awaited(request):
        return await request


@unittest.skipUnless(HAS_THREAD, "for communicators with a thread")
class WithThread(python_ranks.RankTest):
    def test_timeout(self):
        other = self.comm.dup()  # by which rank 0 tells that it has seen its timeout
        x = (ctypes.c_int * 1)(self.comm.rank)
        if self.comm.rank == 0:
            request = self.comm.all_reduce(x, async_=True)
            if self.comm.size > 1:
                with self.assertRaisesRegex(TimeoutError, "goes on"):
                    request.wait(0.05)
            other.barrier()
            self.assertEqual(sum(range(self.comm.size)), request.wait(60)[0])
        else:
            other.barrier()
            self.comm.all_reduce(x)
        other.close()

    def test_await(self):
        async def reduce(value):
            x = (ctypes.c_int * 1)(value)
            return (await self.comm.all_reduce(x, async_=True))[0]

        async def all_of_them():
            ticks = asyncio.ensure_future(self.ticks())
            results = await asyncio.gather(*(reduce(value) for value in range(8)))
            await asyncio.sleep(0)
            ticks.cancel()
            return results

        for _ in range(2):  # each in an event loop of its own
            self.assertEqual([value * self.comm.size for value in range(8)], asyncio.run(all_of_them()))

    def test_several_coroutines_await_one(self):
        """To cancel one of them leaves the others."""
        async def all_of_them():
            request = self.comm.all_reduce((ctypes.c_int * 1)(1), async_=True)
            tasks = [asyncio.ensure_future(Requests.awaited(request)) for _ in range(3)]
            await asyncio.sleep(0)
            cancelled = tasks.pop(1)
            cancelled.cancel()
            other.barrier()  # rank 0 has not come before
            return [result[0] for result in await asyncio.wait_for(asyncio.gather(*tasks), 30)], cancelled

        other = self.comm.dup()
        if self.comm.rank == 0 < self.comm.size - 1:
            other.barrier()
            self.comm.all_reduce((ctypes.c_int * 1)(1))
        else:
            results, cancelled = asyncio.run(all_of_them())
            self.assertEqual([self.comm.size] * 2, results)
            self.assertTrue(self.comm.size == 1 or cancelled.cancelled())
        other.close()

    def test_closed_while_coroutines_await(self):
        """They get the error, and the loop takes the next communicator, whose descriptor may have the same number."""
        async def receive(comm):
            return await comm.recv(bytearray(1), 0, 7, async_=True)

        async def close_and_go_on(closing):
            for is_cancelled in (False, True, False):
                comm = self.comm.split(self.comm.rank)
                tasks = [asyncio.ensure_future(receive(comm)) for _ in range(2)]
                await asyncio.sleep(0.01)
                if is_cancelled:
                    tasks.pop().cancel()
                await closing(comm)
                for task in tasks:
                    with self.assertRaises(kolo.Broken):
                        await asyncio.wait_for(task, 20)
            with self.comm.split(self.comm.rank) as comm:
                task = asyncio.ensure_future(receive(comm))
                await asyncio.sleep(0.01)
                comm.send(b"x", 0, 7, async_=True)
                self.assertEqual((0, 7, 1), await asyncio.wait_for(task, 20))

        async def here(comm):
            comm.close()

        async def in_a_thread(comm):
            await asyncio.get_running_loop().run_in_executor(None, comm.close)

        for closing in (here, in_a_thread):
            asyncio.run(close_and_go_on(closing))

    def test_loop_that_is_closed_while_a_coroutine_awaits(self):
        """Later calls and other loops have nothing to do with it."""
        async def begin(request):
            task = asyncio.ensure_future(Requests.awaited(request))
            await asyncio.sleep(0)
            task._log_destroy_pending = False  # it is meant to be left
            return task

        def await_and_close(request):
            loop = asyncio.new_event_loop()
            left.append(loop.run_until_complete(begin(request)))
            loop.close()

        left = []
        with self.comm.split(self.comm.rank) as comm:
            first, second = [comm.recv(bytearray(1), 0, tag, async_=True) for tag in (7, 8)]
            await_and_close(first)
            comm.send(b"x", 0, 7, async_=True)
            self.assertEqual((0, 7, 1), first.wait())
            with self.assertRaisesRegex(TimeoutError, "goes on"):
                second.wait(0.05)  # which sleeps until a request is complete, and so looks who awaits those that are
            await_and_close(second)
            comm.send(b"y", 0, 8, async_=True)
            self.assertEqual((0, 8, 1), asyncio.run(Requests.awaited(second)))

    def test_child_that_ends_while_coroutines_await(self):
        """It shares the parent's epoll, and the socket that wakes its event loop."""
        async def fork_and_receive(comm):
            task = asyncio.ensure_future(Requests.awaited(comm.recv(bytearray(1), 0, 7, async_=True)))
            await asyncio.sleep(0.01)
            child = os.fork()
            if child == 0:
                comm.close()
                os._exit(0)
            os.waitpid(child, 0)
            comm.send(b"x", 0, 7, async_=True)
            self.assertEqual((0, 7, 1), await asyncio.wait_for(task, 20))

        with self.comm.split(self.comm.rank) as comm:
            asyncio.run(fork_and_receive(comm))

    async def ticks(self):
        while True:
            await asyncio.sleep(0.001)


class Messages(python_ranks.RankTest):
    def setUp(self):
        self.right = (self.comm.rank + 1) % self.comm.size
        self.left = (self.comm.rank - 1) % self.comm.size

    def test_send_and_receive(self):
        self.comm.send((ctypes.c_double * 3)(1, 2, self.comm.rank), self.right, 7)
        out = (ctypes.c_double * 5)()
        self.assertEqual(kolo.Received(self.left, 7, 3), self.comm.recv(out, self.left, 7))
        self.assertEqual([1, 2, self.left, 0, 0], list(out))
        self.comm.send(b"any", self.right, 3)
        self.assertEqual((self.left, 3, 3), self.comm.recv(bytearray(3)))

    def test_sendrecv_of_large_ones(self):
        out = bytearray(100000)
        found = self.comm.sendrecv(bytes([self.comm.rank]) * 100000, self.right, out, self.left)
        self.assertEqual((self.left, 0, 100000), found)
        self.assertEqual(bytes([self.left]) * 100000, bytes(out))

    def test_in_the_background(self):
        out = [bytearray(2000) for _ in range(3)]
        arrivals = [self.comm.recv(out[i], self.left, i, async_=True) for i in range(3)]
        sends = [self.comm.send(bytes([i]) * 1000, self.right, i, async_=True) for i in range(3)]
        kolo.wait_all(sends)
        self.assertEqual([(self.left, i, 1000) for i in range(3)], kolo.wait_all(arrivals))
        self.assertEqual([bytes([i]) * 1000 for i in range(3)], [bytes(data[:1000]) for data in out])

    def test_objects(self):
        self.comm.send_object({"from": self.comm.rank}, self.right, 5)
        self.assertEqual({"from": self.left}, self.comm.recv_object(self.left, 5))

    def test_refusals(self):
        with self.assertRaises(kolo.ArgumentError):
            self.comm.send(b"x", self.comm.size)
        with self.assertRaises(kolo.ArgumentError):
            self.comm.recv(b"x", self.left)


class Groups(python_ranks.RankTest):
    def test_split(self):
        group = self.comm.split(self.comm.rank % 2, -self.comm.rank)
        same = [r for r in range(self.comm.size) if r % 2 == self.comm.rank % 2]
        self.assertEqual((len(same), same[::-1].index(self.comm.rank)), (group.size, group.rank))
        self.assertEqual(same[::-1], [n for n in group.all_gather_object(self.comm.rank)])
        group.close()
        self.assertIsNone(self.comm.split(None))

    def test_facts(self):
        comm = self.comm
        self.assertEqual((comm.rank, comm.size, 0, 1), (comm.local_rank, comm.local_size, comm.node, comm.nodes))
        self.assertIn(f"rank {comm.rank} of {comm.size}", repr(comm))
        before = comm.stats["calls"]
        comm.all_reduce(bytes(8))
        self.assertEqual(before + 1, comm.stats["calls"])
        self.assertIn("oneshot", comm.stats["calls_by_algorithm"])
        self.assertIsNone(comm.failure)


if __name__ == "__main__":
    python_ranks.main()
