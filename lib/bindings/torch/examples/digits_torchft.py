"""torchft over kolo, on the handwritten digits: when a replica of the model dies, the others train on, and it may join
again. Needs the package torchft. This starts the replicas, of which one dies amid a step, and starts that one anew:

    RUST_LOG=warn python3 lib/bindings/torch/examples/digits_torchft.py --replicas 3

Without RUST_LOG torchft tells of every step."""

import argparse
import multiprocessing
import os
import signal
import time
from datetime import timedelta

import digits
import torch
import torch.distributed as dist
import torch.nn.functional as F
import torchft
from torch import nn
from torchft.coordination import LighthouseServer

from kolo4py.torch.torchft import ProcessGroupKolo

GROUPS = {"kolo": ProcessGroupKolo, "gloo": torchft.ProcessGroupGloo}


def train(replica, options, lighthouse, tell, dies=False):
    """What each replica does. One that comes late gets the state of the others from torchft."""
    (images, labels), (test_images, test_labels) = digits.load()
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def load(state):
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])

    store = dist.TCPStore("localhost", 0, is_master=True, wait_for_workers=False)  # of the replica; torchrun has one
    manager = torchft.Manager(
        pg=GROUPS[options.backend](timeout=timedelta(seconds=60)), load_state_dict=load,
        state_dict=lambda: {"model": model.state_dict(), "optimizer": optimizer.state_dict()}, min_replica_size=1,
        use_async_quorum=False, rank=0, world_size=1, store_addr="localhost", store_port=store.port, hostname="localhost",
        lighthouse_addr=lighthouse, replica_id=f"replica_{replica}")
    managed = torchft.Optimizer(manager, optimizer)
    while manager.current_step() < options.steps or manager.num_participants() < options.replicas:
        managed.zero_grad()  # agrees on who takes part
        step, count = manager.current_step(), manager.num_participants()
        rows = torch.randint(len(labels), (96,), generator=torch.Generator().manual_seed(step))
        rows = rows[manager.participating_rank()::count]
        loss = F.cross_entropy(model(images[rows]), labels[rows])
        loss.backward()
        if dies and step >= 25 and count == options.replicas:
            tell.send((replica, time.time()))
            os.kill(os.getpid(), signal.SIGKILL)
        for work in [manager.allreduce(parameter.grad) for parameter in model.parameters()]:
            work.wait()
        managed.step()  # or drops the step
        tell.send((replica, step, count, loss.item() if manager.current_step() > step else None))
    with torch.no_grad():
        accuracy = (model(test_images).argmax(1) == test_labels).double().mean().item()
        tell.send((replica, accuracy, sum(each.double().sum().item() for each in model.parameters())))
    manager.shutdown()


def run(options):
    """Starts the replicas. The first one, by which the others have met, dies; it is started anew when they go on."""
    lighthouse = LighthouseServer(bind="[::]:0", min_replicas=options.replicas - 1, heartbeat_timeout_ms=1000)
    address = "http://localhost:" + lighthouse.address().rpartition(":")[2]
    processes = multiprocessing.get_context("forkserver")  # which imports PyTorch once
    processes.set_forkserver_preload(["torch", "torchft", "kolo4py.torch.torchft"])
    told, tell = processes.Pipe(duplex=False)

    def start(replica, dies):
        process = processes.Process(target=train, args=(replica, options, address, tell, dies))
        process.start()
        return process

    running = [start(replica, replica == 0) for replica in range(options.replicas)]
    died_s, said, ends = None, {}, []
    while len(ends) < options.replicas:
        replica, *what = told.recv()
        if len(what) == 1:
            died_s, = what
            print("replica 0 dies")
        elif len(what) == 2:
            ends.append(what)
        else:
            step, count, loss = what
            if said.get(replica) != (count, loss is None) or step % 50 == 0:
                print(f"replica {replica}: step {step} of {count} replicas: {f'loss {loss:.4f}' if loss else 'dropped'}"
                      + (f", {time.time() - died_s:.2f} s later" if died_s else ""))
            said[replica] = count, loss is None
            if died_s and loss and count < options.replicas:
                running[0].join()
                running[0], died_s = start(0, False), None
    for process in running:
        process.join()
    lighthouse.shutdown()
    accuracies, sums = zip(*ends)
    print(f"test accuracy {100 * accuracies[0]:.2f} %\n"
          f"parameters of all replicas are {'the same' if len(set(sums)) == 1 else f'different: {sums}'}")


def main(words=None):
    parser = argparse.ArgumentParser(description="torchft over kolo, on handwritten digits")
    parser.add_argument("--replicas", type=int, default=3, help="(3)")
    parser.add_argument("--steps", type=int, default=100, help="at least so many; more until all replicas are there (100)")
    parser.add_argument("--backend", choices=GROUPS, default="kolo", help="(kolo)")
    run(parser.parse_args(words))


if __name__ == "__main__":
    main()
