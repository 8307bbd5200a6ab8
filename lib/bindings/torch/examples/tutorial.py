"""The program of the tutorial (../TUTORIAL.md, which has the commands): a small transformer learns to continue Python's own
documentation, byte by byte. It runs in one process or in many, measures how many ranks and threads are best here, and goes
on from a checkpoint after a rank was killed. Steps 1 to 7 below are what a training program of your own needs for that.

    kolorun -n 2 python3 lib/bindings/torch/examples/tutorial.py"""

import argparse
import os
import pydoc_data.topics
import re
import signal
import statistics
import subprocess
import sys
import time
import zlib

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

import kolo4py
import kolo4py.torch

EVERY_STEPS = 20  # a line, and a checkpoint
WARM_UP_STEPS = 5  # not in the figures: memory and threads are new
STARTS_MAX = 4


def rank_and_number(word):
    rank, number = word.split(":")
    return int(rank), int(number)


def arguments(words=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measure", action="store_true", help="time ranks x threads on the CPUs that this shell may use")
    parser.add_argument("--optimizer", choices=("adamw", "fused"), default="adamw",
                        help="DDP with torch.optim.AdamW, or kolo4py.torch.FusedAdamW (adamw)")
    parser.add_argument("--checkpoint", metavar="FILE",
                        help=f"save to FILE every {EVERY_STEPS} steps, and go on from there if it exists")
    parser.add_argument("--kill", type=rank_and_number, metavar="RANK:STEP",
                        help="kill this rank at this step, unless training resumed")
    parser.add_argument("--slow", type=rank_and_number, metavar="RANK:MS", help="this rank sleeps so long in each step")
    parser.add_argument("--steps", type=int, default=100, help="(100)")
    parser.add_argument("--batch", type=int, default=64, help="pieces of text that all ranks together take in a step (64)")
    parser.add_argument("--length", type=int, default=64, help="of a piece, in bytes (64)")
    parser.add_argument("--width", type=int, default=128, help="of the model's two layers (128)")
    return parser.parse_args(words)


class Model(nn.Module):
    """Reads bytes, and guesses after each of them which one comes next."""

    def __init__(self, width, length):
        super().__init__()
        self.bytes = nn.Embedding(256, width)
        self.places = nn.Parameter(torch.randn(length, width) / 10)
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0, activation="gelu", batch_first=True,
                                           norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.guess = nn.Linear(width, 256)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(length), persistent=False)

    def forward(self, x):
        return self.guess(self.layers(self.bytes(x) + self.places, mask=self.mask, is_causal=True))


class Training:
    def __init__(self, options):
        # Step 1. Each process joins the group. The launcher has told it its rank, and how many there are.
        dist.init_process_group("kolo")
        self.options, self.rank, self.ranks = options, dist.get_rank(), dist.get_world_size()
        if options.batch % self.ranks:
            sys.exit(f"--batch {options.batch} does not divide into {self.ranks} ranks")
        topics = pydoc_data.topics.topics  # what help() shows of the language: on every machine with Python
        self.text = torch.frombuffer(bytearray("".join(topics[name] for name in sorted(topics)).encode()), dtype=torch.uint8)

        # Step 2. Either the model goes into DDP, which averages gradients over the ranks during the backward pass, and each
        # rank updates all parameters. Or the fused optimizer does both: each rank updates 1/N of the parameters, within
        # the all-reduce, and keeps 1/N of the optimizer's state. Both begin with rank 0's parameters.
        torch.manual_seed(1)
        self.plain = self.model = Model(options.width, options.length)
        if options.optimizer == "fused":
            self.optimizer = kolo4py.torch.FusedAdamW(self.plain.parameters(), lr=2e-3)
        else:
            self.model = nn.parallel.DistributedDataParallel(self.plain, gradient_as_bucket_view=True)
            self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=2e-3)
        self.step, self.times_s, self.fresh = 0, [], True

    def pieces(self):
        """Step 3. Each rank takes its share of the batch. The whole batch depends on the step alone: any number of ranks
        learns from the same text, also after a restart."""
        starts = torch.randint(len(self.text) - self.options.length, (self.options.batch,),
                               generator=torch.Generator().manual_seed(self.step))[self.rank::self.ranks]
        rows = self.text[starts[:, None] + torch.arange(self.options.length + 1)].long()
        return rows[:, :-1], rows[:, 1:]

    def take_step(self):
        """The loss on this rank's share. The names are for kolo-trace."""
        began = time.perf_counter()
        self.misbehave()
        seen, following = self.pieces()
        self.optimizer.zero_grad()
        with kolo4py.trace("forward"):
            loss = F.cross_entropy(self.model(seen).flatten(0, 1), following.flatten())
        with kolo4py.trace("backward"):
            loss.backward()
        with kolo4py.trace("optimizer"):
            self.optimizer.step()
        self.step += 1
        self.times_s.append(time.perf_counter() - began)
        return loss.detach()

    def misbehave(self):
        if self.options.kill == (self.rank, self.step) and self.fresh:
            os.kill(os.getpid(), signal.SIGKILL)
        if self.options.slow and self.options.slow[0] == self.rank:
            time.sleep(self.options.slow[1] / 1000)

    def save(self):
        """Step 4. Rank 0 writes a checkpoint. All ranks ask for the optimizer's state, as each has a part of the fused
        one's. The name is given last, so that a death leaves the old file or the new one, not half of it."""
        state = {"step": self.step, "model": self.plain.state_dict(), "optimizer": self.optimizer.state_dict()}
        if self.rank == 0:
            torch.save(state, self.options.checkpoint + ".new")
            os.replace(self.options.checkpoint + ".new", self.options.checkpoint)

    def load(self):
        """Step 5. A restarted job goes on from there, with any number of ranks and either optimizer."""
        if self.options.checkpoint and os.path.exists(self.options.checkpoint):
            state = torch.load(self.options.checkpoint, weights_only=True)
            self.step, self.fresh = state["step"], False
            self.plain.load_state_dict(state["model"])
            self.optimizer.load_state_dict(state["optimizer"])
            self.say(f"goes on from step {self.step} of {self.options.checkpoint}")

    def say(self, words):
        if self.rank == 0:
            print(words, flush=True)

    def run(self):
        self.say(f"ranks: {self.ranks}, threads of each: {torch.get_num_threads()}, parameters: "
                 f"{sum(each.numel() for each in self.plain.parameters())}, bytes of text: {len(self.text)}")
        self.load()
        while self.step < self.options.steps:
            loss = self.take_step()
            if self.step % EVERY_STEPS == 0:
                dist.all_reduce(loss, dist.ReduceOp.AVG)
                self.say(f"step {self.step:4}  loss {loss:.3f}")
                if self.options.checkpoint:
                    self.save()
        self.report()

    def report(self):
        """Step 6. All ranks have the same parameters, to the last bit."""
        bits = b"".join(each.detach().numpy().tobytes() for each in self.plain.parameters())
        own, every = zlib.crc32(bits), [None] * self.ranks
        dist.all_gather_object(every, own)
        assert len(set(every)) == 1, every
        measured = self.times_s[WARM_UP_STEPS:]
        tokens = self.options.batch * self.options.length / statistics.median(measured) if measured else 0
        self.say(f"tokens a second: {tokens:.0f}; checksum of the parameters, the same on all ranks: {own}")


def measure(options):
    """Tries numbers of ranks and threads that use all CPUs, or half of them: where CPUs are hardware threads, that is one a
    core. kolorun gives each rank CPUs of its own."""
    cpus, rates = len(os.sched_getaffinity(0)), {}
    print("ranks  threads of each  tokens a second")
    for ranks in (count for count in range(1, cpus + 1) if options.batch % count == 0):
        for threads in sorted({cpus // ranks, max(1, cpus // 2 // ranks)}):
            words = [word for word in sys.argv if word != "--measure"]
            done = subprocess.run(["kolorun", "-n", str(ranks), sys.executable, *words, "--steps", "25"],
                                  env={**os.environ, "OMP_NUM_THREADS": str(threads)}, stdout=subprocess.PIPE, text=True,
                                  check=True)
            rates[ranks, threads] = int(re.search(r"tokens a second: (\d+)", done.stdout).group(1))
            print(f"{ranks:5}  {threads:15}  {rates[ranks, threads]:15}", flush=True)
    ranks, threads = max(rates, key=rates.get)
    print(f"best: OMP_NUM_THREADS={threads} kolorun -n {ranks} python3 {' '.join(words)}")


def trained(options):
    """Whether this time no rank was lost."""
    training = Training(options)
    try:
        training.run()
        return True
    except (dist.DistBackendError, kolo4py.Error) as error:
        print(f"step {training.step}: {error}", file=sys.stderr, flush=True)
        return False
    finally:
        dist.destroy_process_group()


def main():
    """Step 7. When a rank is lost, the others know within a tenth of a second which and why. They leave the group and begin
    anew with step 1. There they wait for the lost rank: kolorun --on-failure restart starts it again."""
    options = arguments()
    if options.measure:
        measure(options)
    elif not any(trained(options) for _ in range(STARTS_MAX)):
        sys.exit(f"no end in {STARTS_MAX} starts")


if __name__ == "__main__":
    main()
