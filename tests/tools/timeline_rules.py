"""What Chrome's trace-event format demands of a timeline, as Perfetto and chrome://tracing read it."""

import collections
import decimal
import json


class Wrong(Exception):
    """Says which rule does not hold, and where."""


def require(holds, *words):
    if not holds:
        raise Wrong(" ".join(map(str, words)))


def ns(us):
    return int(us * 1000)


def slices_of(events):
    """The slices of each thread: (begin, end, name, args), as B and E, or X, say. Each B has its E, in the order of time."""
    found, open_slices, last = collections.defaultdict(list), collections.defaultdict(list), collections.defaultdict(int)
    for event in events:
        thread = event["pid"], event["tid"]
        if event["ph"] in "BE":
            require(ns(event["ts"]) >= last[thread], "time runs backwards:", event)
            last[thread] = ns(event["ts"])
        if event["ph"] == "B":
            open_slices[thread].append(event)
        elif event["ph"] == "E":
            require(open_slices[thread], "an end without a begin:", event)
            begin = open_slices[thread].pop()
            found[thread].append((ns(begin["ts"]), ns(event["ts"]), begin["name"],
                                  {**begin.get("args", {}), **event.get("args", {})}))
        elif event["ph"] == "X":
            require(event["dur"] >= 0, "negative duration:", event)
            found[thread].append((ns(event["ts"]), ns(event["ts"]) + ns(event["dur"]), event["name"],
                                  event.get("args", {})))
    for thread, left in open_slices.items():
        require(not left, "no end on", thread, left)
    return found


def check_nesting(slices):
    """Two slices of a thread lie within each other or apart."""
    stack = []
    for begin, end, name, _ in sorted(slices, key=lambda each: (each[0], -each[1])):
        while stack and stack[-1][1] <= begin:
            stack.pop()
        require(not stack or end <= stack[-1][1], name, "reaches beyond", stack and stack[-1])
        stack.append((begin, end, name))


def check(text):
    """Returns the events, and the slices of each thread."""
    timeline = json.loads(text, parse_float=decimal.Decimal)
    require(timeline["displayTimeUnit"] in ("ns", "ms"), "displayTimeUnit")
    events = timeline["traceEvents"]
    slices = slices_of(events)
    for of_thread in slices.values():
        check_nesting(of_thread)
    named = {event["pid"] for event in events if event["ph"] == "M" and event["name"] == "process_name"}
    arrows, requests = collections.defaultdict(dict), collections.defaultdict(list)
    for event in events:
        require(event["ph"] in "BEXMsfbeiC", "unknown phase:", event)
        require(event["pid"] in named, "a process without a name:", event)
        require(event["ph"] == "M" or event["ts"] >= 0, "before the begin:", event)
        if event["ph"] in "sf":
            require(event["ph"] not in arrows[event["id"]], "twice:", event)
            arrows[event["id"]][event["ph"]] = event
            require(any(begin <= ns(event["ts"]) <= end for begin, end, *_ in slices[event["pid"], event["tid"]]),
                    "no slice at", event)
        elif event["ph"] in "be":
            requests[event["cat"], event["id"]].append(event)
    for arrow in arrows.values():
        require(set(arrow) == {"s", "f"} and arrow["s"]["ts"] < arrow["f"]["ts"], "half an arrow:", arrow)
    for request in requests.values():
        require([event["ph"] for event in request] == ["b", "e"] and request[0]["ts"] <= request[1]["ts"],
                "half a request:", request)
    return events, slices
