"""A relay for TCP connections that does to them what networks and hostile peers do, at the byte that it is told.

usage: relay.py [--redirect NETWORK]... [--to HOST:PORT] [--rule RULE]... [PORT]

It listens at PORT (9) of the loopback addresses. --redirect: connections that processes of this network namespace make
to NETWORK (10.77.0.0/24, fd77::/64) come to it instead, by a rule of nftables, and it goes on to where they were meant
for. --to: all go there. More rules can come on standard input, a line each; it ends with standard input. It prints
"ready", then a line for each connection, "0 10.77.0.1:29500", and for each rule that is carried out.

RULE is CONNECTION DIRECTION BYTE ACTION: connections are counted from 0 as they come, or * for all; DIRECTION is out
(from who has connected) or back; BYTE is how many have gone on in this direction before, or now; ACTION is one of

  stall            nothing more goes on in this direction
  delay MS         nothing goes on for so long
  dribble N MS     from here on, N bytes go on each MS milliseconds
  full             ends a stall or a dribble
  half             this direction is closed (FIN), the other one goes on
  close            both connections are closed (FIN)
  reset            both connections are reset (RST)

example: relay.py --redirect 10.77.0.0/24 --rule '3 out 65536 reset'"""

import argparse
import collections
import os
import selectors
import socket
import struct
import subprocess
import sys
import time

SO_ORIGINAL_DST = 80  # of netfilter, for both families
MARK = 77  # of our own connections, which are not redirected
BUFFER_BYTES = 1 << 18
CONNECT_S = 5
IDLE_S = 3600

ARGUMENTS = {"stall": 0, "delay": 1, "dribble": 2, "full": 0, "half": 0, "close": 0, "reset": 0}
Rule = collections.namedtuple("Rule", "connection direction byte action arguments")


def parse_rule(text):
    """Raises ValueError."""
    words = text.split()
    if len(words) < 4 or words[1] not in ("out", "back") or len(words) - 4 != ARGUMENTS.get(words[3]):
        raise ValueError(f"'{text}' is no rule; see --help")
    connection = None if words[0] == "*" else int(words[0])
    byte = 0 if words[2] == "now" else int(words[2])
    return Rule(connection, words[1], byte, words[3], [int(word) for word in words[4:]])


class Flow:
    """One direction of a connection."""

    def __init__(self, pair, direction, source, sink):
        self.pair, self.direction, self.source, self.sink = pair, direction, source, sink
        self.buffer = bytearray()
        self.passed = 0  # bytes that have gone on
        self.rules = []
        self.ended = False  # nothing more comes
        self.closed = False  # and nothing more goes
        self.stalled = False
        self.blocked = False  # the sink takes no more for now
        self.not_before = 0.0
        self.piece, self.pause_s = None, 0.0  # of a dribble

    def wants_more(self):
        return not self.ended and (self.closed or len(self.buffer) < BUFFER_BYTES)

    def pauses(self):
        """There is something to do, for which only its time has not come."""
        return not (self.closed or self.stalled or self.blocked) and bool(self.buffer or self.ended)

    def read(self):
        try:
            data = self.source.recv(BUFFER_BYTES)
        except BlockingIOError:
            return
        except OSError:
            self.pair.reset()
            return
        self.ended = not data
        if not self.closed:
            self.buffer += data
        elif self.pair.is_over():
            self.pair.close()

    def advance(self, now):
        """Carries out the rules whose byte has come, and passes on what may go now."""
        while not self.closed:
            due = [rule for rule in self.rules if rule.byte <= self.passed]
            if due:
                self.rules.remove(due[0])
                self.carry_out(due[0], now)
            elif self.stalled or self.blocked or now < self.not_before:
                return
            elif self.buffer:
                self.pass_on(now)
            else:
                if self.ended:
                    self.close()
                return

    def pass_on(self, now):
        limit = min([len(self.buffer), self.piece or BUFFER_BYTES, *(rule.byte - self.passed for rule in self.rules)])
        try:
            sent = self.sink.send(self.buffer[:limit], socket.MSG_NOSIGNAL)
        except BlockingIOError:
            self.blocked = True
            return
        except OSError:
            self.pair.reset()
            return
        del self.buffer[:sent]
        self.passed += sent
        if self.piece:
            self.not_before = now + self.pause_s

    def carry_out(self, rule, now):
        print(f"{self.pair.number} {self.direction} {self.passed} {rule.action}", flush=True)
        if rule.action == "stall":
            self.stalled = True
        elif rule.action == "delay":
            self.not_before = now + rule.arguments[0] * 1e-3
        elif rule.action == "dribble":
            self.piece, self.pause_s = rule.arguments[0], rule.arguments[1] * 1e-3
        elif rule.action == "full":
            self.stalled, self.piece, self.not_before = False, None, 0.0
        elif rule.action == "half":
            self.close()
        elif rule.action == "close":
            self.pair.close()
        else:
            self.pair.reset()

    def close(self):
        self.closed = True
        try:
            self.sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        if self.pair.is_over():
            self.pair.close()


class Pair:
    """A connection, and the one that goes on from it."""

    def __init__(self, number, near, far):
        self.number, self.near, self.far = number, near, far
        self.flows = [Flow(self, "out", near, far), Flow(self, "back", far, near)]
        self.is_open = True

    def is_over(self):
        return all(flow.closed and flow.ended for flow in self.flows)

    def close(self):
        self.is_open = False
        for end in (self.near, self.far):
            end.close()
        for flow in self.flows:
            flow.closed = flow.ended = True

    def reset(self):
        if self.is_open:
            for end in (self.near, self.far):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close()


def destination(near, to):
    """(family, address) that a connection was meant for."""
    if to:
        family, _, _, _, address = socket.getaddrinfo(*to, type=socket.SOCK_STREAM)[0]
        return family, address
    if near.family == socket.AF_INET:
        found = near.getsockopt(socket.SOL_IP, SO_ORIGINAL_DST, 16)
        return socket.AF_INET, (socket.inet_ntop(socket.AF_INET, found[4:8]), struct.unpack_from("!H", found, 2)[0])
    found = near.getsockopt(socket.IPPROTO_IPV6, SO_ORIGINAL_DST, 28)
    return socket.AF_INET6, (socket.inet_ntop(socket.AF_INET6, found[8:24]), struct.unpack_from("!H", found, 2)[0])


class Relay:
    def __init__(self, port, to, rules):
        self.to = to
        self.rules = rules
        self.pairs = []
        self.count = 0
        self.listeners = []
        for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
            try:
                self.listeners.append(socket.create_server((host, port), family=family, backlog=128))
            except OSError:
                if family == socket.AF_INET:
                    raise

    def accept(self, listener):
        near, _ = listener.accept()
        family, address = destination(near, self.to)
        far = socket.socket(family, socket.SOCK_STREAM)
        if not self.to:
            far.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, MARK)
        far.settimeout(CONNECT_S)
        pair = Pair(self.count, near, far)
        try:
            far.connect(address)
        except OSError as error:
            print(f"refused {address[0]}:{address[1]} {error}", flush=True)
            pair.reset()
            return
        self.count += 1
        for end in (near, far):
            end.setblocking(False)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.pairs.append(pair)
        for rule in self.rules:
            self.apply(rule, pair)
        print(f"{pair.number} {address[0]}:{address[1]}", flush=True)

    def apply(self, rule, pair):
        if pair.is_open and rule.connection in (None, pair.number):
            pair.flows[rule.direction == "back"].rules.append(rule)

    def command(self, text):
        rule = parse_rule(text)
        if rule.connection is None or rule.connection >= self.count:
            self.rules.append(rule)
        for pair in self.pairs:
            self.apply(rule, pair)

    def wait(self):
        """What can be read or written, once something can; at the latest when a pause is over."""
        now = time.monotonic()
        flows = [flow for pair in self.pairs for flow in pair.flows]
        pauses = [max(0, flow.not_before - now) for flow in flows if flow.pauses()]
        with selectors.DefaultSelector() as selector:
            wanted = collections.defaultdict(int)
            for flow in flows:
                if flow.wants_more():
                    wanted[flow.source] |= selectors.EVENT_READ
                if flow.blocked and not flow.closed:
                    wanted[flow.sink] |= selectors.EVENT_WRITE
            for end in (sys.stdin, *self.listeners):
                wanted[end] = selectors.EVENT_READ
            for end, events in wanted.items():
                selector.register(end, events)
            return {key.fileobj: events for key, events in selector.select(min(pauses, default=IDLE_S))}

    def run(self):
        """Until standard input ends."""
        unread = b""
        while True:
            ready = self.wait()
            if sys.stdin in ready:
                data = os.read(0, 65536)
                if not data:
                    return
                *lines, unread = (unread + data).split(b"\n")
                for line in lines:
                    self.command(line.decode())
            for listener in self.listeners:
                if listener in ready:
                    self.accept(listener)
            for flow in [flow for pair in self.pairs for flow in pair.flows]:
                if flow.wants_more() and ready.get(flow.source, 0) & selectors.EVENT_READ:
                    flow.read()
                if ready.get(flow.sink, 0) & selectors.EVENT_WRITE:
                    flow.blocked = False
            now = time.monotonic()
            for flow in [flow for pair in self.pairs for flow in pair.flows]:
                flow.advance(now)
            self.pairs = [pair for pair in self.pairs if pair.is_open]


def redirect(networks, port):
    """Lets the connections of this network namespace to the networks come to the port."""
    def table(family, own):
        rules = "".join(f"meta l4proto tcp meta mark != {MARK} {family} daddr {network} redirect to :{port}\n"
                        for network in own)
        return f"table {family} relay {{ chain out {{ type nat hook output priority -100;\n{rules}}}\n}}\n"
    of_ip6 = [network for network in networks if ":" in network]
    of_ip = [network for network in networks if ":" not in network]
    ruleset = (table("ip", of_ip) if of_ip else "") + (table("ip6", of_ip6) if of_ip6 else "")
    subprocess.run(["nft", "-f", "-"], input=ruleset, text=True, check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     usage=argparse.SUPPRESS)
    parser.add_argument("--redirect", action="append", default=[], metavar="NETWORK")
    parser.add_argument("--to", metavar="HOST:PORT")
    parser.add_argument("--rule", action="append", default=[], type=parse_rule, metavar="RULE")
    parser.add_argument("port", nargs="?", type=int, default=9)
    options = parser.parse_args()
    host, _, port = (options.to or "").rpartition(":")
    relay = Relay(options.port, (host.strip("[]"), int(port)) if options.to else None, options.rule)
    if options.redirect:
        redirect(options.redirect, options.port)
    print("ready", flush=True)
    relay.run()


if __name__ == "__main__":
    main()
