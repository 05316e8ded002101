"""Simulates units on an engine: 100,000 units on 200 workers, and what the bottleneck is.

    python3 benches/scale.py                                        the tables of docs/scale.md
    python3 benches/scale.py one --units 1000 --workers 4 --seconds 0.3 [--name VALUE]...      one case

Nothing is run. Batches, units, the server, the workflow and the client are simulated event by event, with the decisions of
src/engine/workflow.rs; the same flags give the same figures. The cost of each operation is a flag; the defaults were measured by
`temporal.py parts` (see benches/README.md for when and where). Times are in seconds.
"""
import argparse
import heapq
import math
import random

FLAGS = {
    # The workload and the machines.
    "units": (100_000, "number of units"),
    "workers": (200, "number of workers"),
    "places": (1, "slots per worker (`gevals worker -p`)"),
    "parallel": (0, "batches at a time (`gevals run -p`); 0: a tenth more than the number of slots"),
    "seconds": (30.0, "median duration of a unit"),
    "spread": (0.5, "sigma of the logarithm of the duration; 0: all units take the same time"),
    "batch": (2.0, "`--batch`"),
    "rate": (0.0, "`--rate`, per minute; 0: no limit"),
    "cleanups": (1, "cleanups per unit: each takes two heartbeats"),
    "seed": (1, "seed of the random numbers"),
    # Costs.
    "start": (0.12, "time from the receipt of a batch to its first unit, and from the end of its last unit to the report"),
    "unit": (0.004, "overhead of each unit of a batch"),
    "compute": (0.0, "processor time of a worker's machine per batch; only used with `cores`"),
    "cores": (0, "processors of the machine on which everything runs; 0: each worker has its own machine"),
    "activity": (0.030, "time of the server's database per batch: schedule, start, end and two workflow tasks"),
    "heartbeat": (0.0017, "the same per heartbeat"),
    "servers": (1.0, "speed of the server, relative to the measured one"),
    "trip": (0.014, "round trip to an idle server, including everything that it triggers"),
    "decide": (0.010, "a workflow task in the worker that runs the workflow, one at a time: an upper bound"),
    "events": (6.0, "events in the history per batch"),
    "event-bytes": (1500.0, "bytes of history per batch, without results"),
    "result-bytes": (5000.0, "bytes of a compressed result in the history: an assumption for agents; that of a trivial unit has 600"),
    "most-events": (8 * 4096, "events after which the workflow continues in a new one"),
    "most-bytes": (40_000_000, "the same in bytes, including those still expected"),
    "client": (0.0005, "time of the client per unit in the history"),
    "merge": (0.0011, "time of the final merge per unit"),
    "put": (0.0036, "time to write one results file to a shared volume or an object store, for the engines of `gevals emit`"),
}


def simulate(given):
    p = argparse.Namespace(**{name.replace("-", "_"): default for name, (default, _) in FLAGS.items()} | given)
    chance = random.Random(p.seed)
    places = p.workers * p.places
    lanes = int(p.parallel) or max(places + 1, int(places * 1.1))
    took = [p.seconds * (chance.lognormvariate(0, p.spread) if p.spread else 1.0) for _ in range(p.units)]
    free_units, again = 0, []
    known, last = 0, []
    busy = {"places": 0.0, "server": 0.0, "workflow": 0.0}
    server = workflow = bucket = 0.0
    cores = [0.0] * int(p.cores)
    idle, waiting = places, []
    events_now = bytes_now = batches = 0
    largest = p.event_bytes
    out, parked = 0, []
    workflows, drained = 1, 0.0
    heap, order = [], 0

    def at(time, what, data):
        nonlocal order
        order += 1
        heapq.heappush(heap, (time, order, what, data))

    def call(time, cost):
        """Returns when a call to the server returns. The server handles one at a time."""
        nonlocal server
        server = max(server, time) + cost / p.servers
        busy["server"] += cost / p.servers
        return server + p.trip / 2

    def compute(time, cost):
        if not cores or not cost:
            return time
        start = max(heapq.heappop(cores), time)
        heapq.heappush(cores, start + cost)
        return start + cost

    def most():
        if known < 4:
            return 1
        mean = max(0.001, sum(last) / len(last))
        left = p.units - free_units + len(again)
        return max(1, min(math.ceil(p.batch / mean), max(left // lanes, math.ceil(p.batch / 2 / mean))))

    def next_batch(time):
        """Gives units to a lane that is ready for its next batch."""
        nonlocal free_units, events_now, bytes_now, batches, out, workflow, bucket
        if events_now >= p.most_events or bytes_now + (out + 1) * largest > p.most_bytes:
            parked.append(time)
            return
        if not again and free_units >= p.units:
            return
        size = 1 if p.rate else most()
        mine = []
        while len(mine) < size and (again or free_units < p.units):
            if again:
                mine.append(again.pop(0))
            else:
                mine.append(free_units)
                free_units += 1
        if p.rate:
            bucket = max(bucket, time) + 60.0 / p.rate
            time = bucket - 60.0 / p.rate
        out += 1
        batches += 1
        events_now += p.events
        bytes_now += p.event_bytes
        at(call(time, p.activity / 2), "ready", mine)

    def start(time, mine):
        nonlocal bytes_now, largest
        begun = compute(time, p.compute) + p.start * (0.0 if cores else 1.0) + p.trip / 2
        now, done, cleaned = begun, 0, 0
        for unit in mine:
            if done and now - begun >= p.batch:
                break
            now = (compute(now, p.unit) if cores else now + p.unit) + took[unit]
            done += 1
            cleaned += p.cleanups
        # Pending cleanups are reported to the server before anything is changed, and the unit waits for its answer.
        told = server_wait(begun, 2 * cleaned)
        end = max(now + told, begun)
        busy["places"] += end - time
        bytes_now += done * p.result_bytes
        largest = max(largest, p.event_bytes + done * p.result_bytes)
        at(end, "done", (mine, done))

    def server_wait(time, beats):
        nonlocal server
        if not beats:
            return 0.0
        behind = max(0.0, server - time)
        server = max(server, time) + beats * p.heartbeat / p.servers
        busy["server"] += beats * p.heartbeat / p.servers
        return beats * p.trip + behind

    for _ in range(lanes):
        at(0.0, "ask", None)
    end = 0.0
    while heap:
        time, _, what, data = heapq.heappop(heap)
        if what == "ask":
            next_batch(time)
        elif what == "ready":
            if idle:
                idle -= 1
                start(time, data)
            else:
                waiting.append(data)
        elif what == "done":
            mine, done = data
            if waiting:
                start(time, waiting.pop(0))
            else:
                idle += 1
            at(call(time, p.activity / 2), "told", (mine, done))
        elif what == "told":
            mine, done = data
            workflow = max(workflow, time) + p.decide
            busy["workflow"] += p.decide
            at(workflow, "decided", (mine, done))
        elif what == "decided":
            mine, done = data
            again[:0] = mine[done:]
            for unit in mine[:done]:
                known += 1
                last.append(took[unit])
            del last[:-16]
            out -= 1
            end = time
            next_batch(time)
            if parked and not out and heap_is_idle(heap):
                # All batches in progress have ended: the next workflow begins.
                drained += time - parked[0]
                workflows += 1
                events_now = bytes_now = 0
                for _ in range(len(parked)):
                    at(time + p.trip + p.decide, "ask", None)
                parked.clear()
    work = sum(took)
    least = work / places
    if p.rate:
        least = max(least, (p.units - 1) * 60.0 / p.rate)
    after = max(0.0, p.units * p.client - end) + p.units * p.merge
    return {
        "seconds": p.seconds, "workers": p.workers, "rate": p.rate, "least": least, "end": end, "after": after,
        "share": work / places / end, "server": busy["server"] / end, "workflow": busy["workflow"] / end,
        "batches": batches, "workflows": workflows, "drained": drained / end,
        "volume": p.units * p.put / max(least, 1.0),
    }


def heap_is_idle(heap):
    return all(what in ("ask",) for _, _, what, _ in heap)


def duration(seconds):
    if seconds < 0.1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 100:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def bends(row):
    if row["rate"] and row["share"] < 0.9:
        return "the rate"
    for what, word in (("server", "the server"), ("workflow", "the workflow"), ("drained", "new workflows")):
        if row[what] > (0.1 if what == "drained" else 0.85):
            return word
    return "none" if row["share"] > 0.9 else "the cost of a batch"


def table(title, rows, first):
    print(f"\n{title}\n")
    print("| | minimum | duration | slots busy | server busy | workflow busy | waiting for a new workflow | batches | final merge | shared volume busy | bottleneck |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|")
    for name, given in rows:
        row = simulate(first | given)
        print(f"| {name} | {duration(row['least'])} | {duration(row['end'])} | {row['share']:.0%} | {row['server']:.0%} | "
              f"{row['workflow']:.0%} | {row['drained']:.0%} | {row['batches']:,} | {duration(row['after'])} | {row['volume']:.0%} | {bends(row)} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", nargs="?", choices=["tables", "one"], default="tables")
    for name, (default, about) in FLAGS.items():
        parser.add_argument(f"--{name}", type=type(default), default=None, help=f"{about} ({default})")
    given = {name: value for name, value in vars(parser.parse_args()).items() if value is not None}
    if given.pop("what") == "one":
        for name, value in simulate(given).items():
            print(f"{name:10} {value:.3f}" if isinstance(value, float) else f"{name:10} {value}")
        return
    table("100,000 units on 200 workers, by duration of a unit",
          [(duration(seconds), {"seconds": seconds}) for seconds in (0.01, 0.1, 1.0, 10.0, 30.0, 120.0)], given)
    table("100,000 units of 30 s, by number of workers",
          [(f"{workers} workers", {"workers": workers}) for workers in (50, 100, 200, 460)], given)
    table("100,000 units of 30 s on 200 workers, by `--rate` per minute",
          [(f"{rate:.0f}", {"rate": rate}) for rate in (100.0, 300.0, 400.0, 1000.0)], given)


main()
