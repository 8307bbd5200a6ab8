"""Traces as processes write them (include/kolo_trace.h), made up."""

import pathlib
import re
import struct
import zlib

HEADER_TEXT = (pathlib.Path(__file__).resolve().parents[2] / "include/kolo_trace.h").read_text(encoding="utf-8")
HEADER = struct.Struct("<8s7I4iI3q64s128s64s4Q18Q")
COMM = struct.Struct("<4QI7i16s")
BLOCK = struct.Struct("<QQIIII4Q")
EVENT = struct.Struct("<QBBBBHhQQ")
COMMS = 128
BEGAN_UTC_NS = 1_800_000_000 * 10**9
BEGAN_NS = 5_000 * 10**9


def _enumeration(name):
    """The constants of an enumeration of the header, by their order."""
    body = re.search(rf"typedef enum {name} \{{(.*?)\}} {name};", HEADER_TEXT, re.DOTALL).group(1)
    names = re.findall(r"\bKOLO_TRACE_(\w+),?(?=\s|$)", re.sub(r"/\*.*?\*/", "", body, flags=re.DOTALL))
    return {constant: number for number, constant in enumerate(names)}


KIND = _enumeration("kolo_trace_kind")
SPAN = _enumeration("kolo_trace_span")
THREAD = _enumeration("kolo_trace_thread")
ALLREDUCE, BARRIER, F32, SUM, MESH = 2, 0, 10, 0, 2
OPS = 9  # KOLO_OPS: an operation of the program's own


class Track:
    """Events of one thread. Times are ns since the job began."""

    def __init__(self, rank, thread="PROGRAM"):
        self.rank, self.thread, self.blocks = rank, THREAD[thread], []
        self.depth = 0
        self.block()

    def block(self):
        self.blocks.append((self.depth, []))

    def add(self, ns, kind, *, detail=0, dtype=0, op=0, comm=0, rank=0, a=0, b=0):
        events = self.blocks[-1][1]
        if not events and kind != "CLOCK":
            self.add(ns, "CLOCK", a=BEGAN_NS + ns + self.rank.skew_ns)
        elif len(events) == self.rank.room:
            self.block()
            self.add(ns, kind, detail=detail, dtype=dtype, op=op, comm=comm, rank=rank, a=a, b=b)
            return
        if kind in ("WAIT", "WAIT_BEGIN", "EXCHANGE"):
            a = self.rank.time(a)
        self.depth += {"SPAN_BEGIN": 1, "RANGE_BEGIN": 1, "SPAN_END": -1, "RANGE_END": -1}.get(kind, 0)
        self.blocks[-1][1].append(EVENT.pack(self.rank.time(ns), KIND[kind], detail, dtype, op, comm, rank, a, b))

    def call(self, begin_ns, end_ns, number, *, waits=(), collective=ALLREDUCE, count=1024, comm=0, end=True):
        self.add(begin_ns, "CALL_BEGIN", detail=collective, dtype=F32, op=SUM, comm=comm, rank=-1, a=count, b=number)
        for wait_begin_ns, wait_end_ns, peer in waits:
            if wait_end_ns - wait_begin_ns < 20_000:
                self.add(wait_end_ns, "WAIT", comm=comm, rank=peer, a=wait_begin_ns)
            else:
                self.add(wait_begin_ns + 20_000, "WAIT_BEGIN", comm=comm, rank=peer, a=wait_begin_ns)
                self.add(wait_end_ns, "WAIT_END")
        if end:
            self.add(end_ns, "CALL_END", detail=MESH, comm=comm, b=number)

    def clock(self, begin_ns, end_ns, clock, comm=0):
        """The end of a clock of a table."""
        self.add(begin_ns, "SPAN_BEGIN", detail=SPAN["TABLE_WAIT"], comm=comm, a=clock)
        self.add(end_ns, "SPAN_END", detail=SPAN["TABLE_WAIT"], comm=comm)

    def create(self, begin_ns, end_ns, lanes=1, **options):
        """Makes a communicator; its lanes are made within. Returns its id."""
        self.add(begin_ns, "SPAN_BEGIN", detail=SPAN["CREATE"], a=self.rank.ranks)
        for lane in range(1, lanes):
            self.add(end_ns - 4000, "SPAN_BEGIN", detail=SPAN["CREATE"], a=self.rank.ranks)
            self.rank.comm(lane=lane, time_ns=end_ns - 3000, **options)
            self.add(end_ns - 2000, "SPAN_END", detail=SPAN["CREATE"])
        comm = self.rank.comm(time_ns=end_ns - 1000, **options)
        self.add(end_ns, "SPAN_END", detail=SPAN["CREATE"])
        return comm

    def range(self, begin_ns, name):
        parts = [name[i:i + 16].ljust(16, b"\0") for i in range(0, max(len(name), 1), 16)]
        for i, part in enumerate(parts):
            a, b = struct.unpack("<QQ", part)
            self.add(begin_ns, "TEXT" if i else "RANGE_BEGIN", detail=0 if i else len(parts) - 1, a=a, b=b)


class Rank:
    """A process's file. ticks_per_ns: None: times are in ns. A place: rank, ranks, node, nodes."""

    def __init__(self, rank, ranks, *, job="made", pid=None, ticks_per_ns=None, room=200, node=0, nodes=1, host="here",
                 began_s=0, skew_ns=0, program="made_up"):
        self.rank, self.ranks, self.job, self.pid = rank, ranks, job, pid or 1000 + rank
        self.ticks_per_ns, self.room, self.node, self.nodes, self.host = ticks_per_ns, room, node, nodes, host
        self.began_s, self.skew_ns, self.program = began_s, skew_ns, program
        self.first_place = None  # in a communicator before the one of all ranks: what the header has
        self.tracks, self.comms = [], []
        self.ended, self.lost, self.blocks_max = 1, 0, None
        self.offset = 0, 0, 0  # the last one, as the header has it

    def time(self, ns):
        ns += BEGAN_NS + self.skew_ns
        return ns if self.ticks_per_ns is None else int((ns - BEGAN_NS) * self.ticks_per_ns) + 77 * 10**9

    def track(self, thread="PROGRAM"):
        self.tracks.append(Track(self, thread))
        return self.tracks[-1]

    def place(self):
        return self.rank, self.ranks, self.node, self.nodes

    def comm(self, *, identity=None, local=None, size=None, made_by=b"create", time_ns=1000, place=None, lane=0):
        rank, ranks, node, nodes = place or self.place()
        comm_id, local, size = len(self.comms), rank if local is None else local, size or ranks
        identity = (zlib.crc32(self.job.encode()) + 1 if identity is None else identity) + 1000 * lane
        self.comms.append(COMM.pack(self.time(time_ns), 0, 0, identity, comm_id, local, size, rank, ranks, node, nodes,
                                    lane, made_by))
        return comm_id

    def bytes(self):
        blocks, number = [], 0
        for index, track in enumerate(self.tracks):
            for depth, events in track.blocks:
                number += 1
                head = BLOCK.pack(number, len(events), index, track.thread, 5000 + index, depth, 0, 0, 0, 0)
                blocks.append((head + b"".join(events)).ljust(BLOCK.size + self.room * EVENT.size, b"\0"))
        kept = blocks if self.blocks_max is None else blocks[-self.blocks_max:]
        header = HEADER.pack(b"kolotrc\0", 1, 0x000100, HEADER.size, COMMS, BLOCK.size + self.room * EVENT.size,
                             len(kept), self.pid, *(self.first_place or self.place()),
                             int(self.ticks_per_ns is not None), self.time(0), BEGAN_NS + self.skew_ns,
                             BEGAN_UTC_NS + int(self.began_s * 1e9), self.host.encode(), self.job.encode(),
                             self.program.encode(), self.ended, len(blocks), self.lost, len(self.comms), *self.offset,
                             *[0] * 15)
        return header + b"".join(self.comms).ljust(COMMS * COMM.size, b"\0") + b"".join(kept)

    def write(self, folder):
        path = pathlib.Path(folder, f"{self.job or 'none'}.{self.rank}.{self.pid}.kolotrace")
        path.write_bytes(self.bytes())
        return path


def job_with_a_table(late, staleness=0, ranks=4, clocks=40, step_ns=2_000_000, late_ns=6_000_000):
    """Workers that push and end clocks. late(clock) is the one whose step takes longer by late_ns; the others go on while
    they are at most `staleness` clocks ahead."""
    processes = [Rank(rank, ranks) for rank in range(ranks)]
    for process in processes:
        process.comm()
    tracks, now, came = [process.track() for process in processes], [1_000_000] * ranks, []
    for clock in range(clocks):
        came.append([at + step_ns + 1000 * rank + (late_ns if rank == late(clock) else 0) for rank, at in enumerate(now)])
        for rank, track in enumerate(tracks):
            freed = max(came[clock - staleness]) if clock >= staleness else 0
            now[rank] = max(came[clock][rank], freed) + 5000
            track.clock(came[clock][rank], now[rank], clock)
    return processes


def job_with_a_late_rank(ranks=4, late=2, late_ns=3_000_000, steps=50, step_ns=10_000_000, small_calls=0, start_ns=0,
                         first_size=0, **options):
    """Each step is a range with an all-reduce of 4 KiB in it, which one rank begins later than the others. start_ns: rank 0
    comes so late to a first call before them. first_size: each process is in a smaller communicator before."""
    made = []
    for rank in range(ranks):
        process = Rank(rank, ranks, **options)
        if first_size:
            process.first_place = rank % first_size, first_size, 0, 1
            process.comm(identity=100 + rank // first_size, place=process.first_place)
        comm = process.comm()
        track, number = process.track(), 0
        if start_ns:
            number += 1
            waits = [(200_000, start_ns, 0)] if rank else []
            track.call(100_000 if rank else start_ns, start_ns + 50_000, number, waits=waits, collective=BARRIER, count=0,
                       comm=comm)
        for step in range(steps):
            begin_ns = 1_000_000 + start_ns + step * step_ns
            last_ns = begin_ns + 2_000_000 + late_ns
            call_ns = last_ns if rank == late else begin_ns + 2_000_000 + 1000 * rank
            track.range(begin_ns, b"forward and backward, a long name")
            track.add(call_ns - 500, "RANGE_END")
            number += 1
            end_ns = last_ns + 50_000
            track.call(call_ns, end_ns, number, waits=[] if rank == late else [(call_ns + 100, last_ns + 5000, late)],
                       comm=comm)
            for small in range(small_calls):
                number += 1
                begin_ns, end_ns = end_ns + 1000 + (7 * rank * (step + small)) % 500, end_ns + 10_000
                track.call(begin_ns, end_ns, number, collective=BARRIER, count=0, comm=comm)
        made.append(process)
    return made
