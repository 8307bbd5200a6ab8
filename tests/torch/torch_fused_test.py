"""kolo4py.torch.FusedAdamW and FusedSGD against torch.optim's: parameters, curves and state; in every way to make them; over
torch.distributed.checkpoint onto another number of ranks; and when a rank is killed."""

import itertools
import os
import shutil
import signal
import tempfile
import unittest

import torch_ranks
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.distributed.checkpoint.state_dict  # noqa: F401
import torch.nn.functional as F
from torch import nn

import kolo4py as kolo
import kolo4py.torch

ROWS = 12  # of a step, over all ranks: for 1, 2 and 3
VICTIM = 1
KINDS = ((kolo4py.torch.FusedAdamW, torch.optim.AdamW, {"lr": 0.01, "weight_decay": 0.1}),
         (kolo4py.torch.FusedSGD, torch.optim.SGD, {"lr": 0.05, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
         (kolo4py.torch.FusedSGD, torch.optim.SGD, {"lr": 0.05, "momentum": 0.9, "dampening": 0.1}),
         (kolo4py.torch.FusedSGD, torch.optim.SGD, {"lr": 0.05}))
WAYS = ({}, {"bucket_bytes": 1000}, {"overlap": False}, {"shared_parameters": True, "bucket_bytes": 1000},
        {"clip_norm": 0.2, "bucket_bytes": 1000}, {"skip_nonfinite": True})


def new_model(dtype=torch.float32, seed=1):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(8, 33), nn.Tanh(), nn.Linear(33, 17), nn.Tanh(), nn.Linear(17, 3)).to(dtype)


def groups_of(model):
    """Two, with a learning rate of their own."""
    layers = list(model.children())
    return [{"params": [*layers[0].parameters()]},
            {"params": [*layers[2].parameters(), *layers[4].parameters()], "lr": 0.003}]


def rows(step, dtype=torch.float32):
    source = torch.Generator().manual_seed(1000 + step)
    return torch.randn(ROWS, 8, generator=source).to(dtype), torch.randint(3, (ROWS,), generator=source)


def own(rows_of_all):
    return [part[dist.get_rank()::dist.get_world_size()] for part in rows_of_all]


def loss_of(model, images, labels):
    return F.cross_entropy(model(images).float(), labels)


def train(model, optimizer, first, end, share=own, clip=0.0):
    for step in range(first, end):
        optimizer.zero_grad()
        loss_of(model, *share(rows(step))).backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()


def difference(model, other):
    return max((a - b).abs().max().item() for a, b in zip(model.parameters(), other.parameters()) if a.numel())


def same_on_all(model):
    flat = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    gathered = [torch.empty_like(flat) for _ in range(dist.get_world_size())]
    dist.all_gather(gathered, flat)
    return all(torch.equal(flat, other) for other in gathered)


def check_states(found, wanted):
    assert found["state"].keys() == wanted["state"].keys()
    for number, wanted_state in wanted["state"].items():
        for name, value in wanted_state.items():
            if value is not None:
                torch.testing.assert_close(found["state"][number][name], value, rtol=1e-4, atol=1e-6)


def against_torch():
    dist.init_process_group("kolo")
    ranks = dist.get_world_size()
    for index, (kind, plain, settings) in enumerate(KINDS):
        for way in WAYS[1:2] if index > 1 else WAYS if ranks == 2 else WAYS[1::2]:
            model, reference = new_model(seed=1 + dist.get_rank()), new_model()  # rank 0's is everybody's
            optimizer = kind(groups_of(model), **settings, **way)
            wanted = plain(groups_of(reference), **settings)
            for first, rate in ((0, settings["lr"]), (4, 0.02)):  # as learning-rate schedulers do
                optimizer.param_groups[0]["lr"] = wanted.param_groups[0]["lr"] = rate
                train(model, optimizer, first, first + 4)
                train(reference, wanted, first, first + 4, lambda all_rows: all_rows, way.get("clip_norm", 0))
            assert difference(model, reference) < 1e-5, (kind, settings, way, difference(model, reference))
            assert same_on_all(model) and optimizer.info.steps == 8 and not optimizer.info.skipped
            assert ("clip_norm" in way) == (optimizer.info.clip < 1)
            numbers = sum(parameter.numel() for parameter in model.parameters())
            states = {torch.optim.AdamW: 2}.get(plain, 1 if "momentum" in settings else 0)
            padding = 6 * 64 + 5 * 128  # of each parameter, and what does not divide evenly of each bucket
            assert optimizer.state_bytes <= states * (4 * numbers / ranks + padding), (optimizer.state_bytes, way)
            check_states(optimizer.state_dict(), wanted.state_dict())
            wanted.load_state_dict(optimizer.state_dict())  # each takes what the other has
            optimizer.load_state_dict(wanted.state_dict())
            train(model, optimizer, 8, 10)
            train(reference, wanted, 8, 10, lambda all_rows: all_rows, way.get("clip_norm", 0))
            assert difference(model, reference) < 1e-5, (kind, settings, way)
            optimizer.close()


def with_momentum_that_begins_late():
    """Of the second group, whose first step with momentum has no dampening; saved and loaded before, and behind it."""
    dist.init_process_group("kolo")
    model, reference = new_model(), new_model()
    settings = {"lr": 0.05, "dampening": 0.3}

    def optimizer_of(make, of):
        parameters = list(of.parameters())
        return make([{"params": parameters[:1], "momentum": 0.9}, {"params": parameters[1:], "momentum": 0}], **settings)
    optimizer, wanted = optimizer_of(kolo4py.torch.FusedSGD, model), optimizer_of(torch.optim.SGD, reference)
    for first in range(0, 12, 3):
        for of in (optimizer, wanted):
            of.param_groups[1]["momentum"] = 0.8 if first >= 6 else 0
        train(model, optimizer, first, first + 3)
        train(reference, wanted, first, first + 3, lambda all_rows: all_rows)
        assert difference(model, reference) < 1e-5, (first, difference(model, reference))
        state = optimizer.state_dict()
        optimizer.close()
        optimizer = optimizer_of(kolo4py.torch.FusedSGD, model)
        optimizer.load_state_dict(state)


def convolutional_model():
    return nn.Sequential(nn.Linear(8, 27), nn.Unflatten(1, (3, 3, 3)), nn.Conv2d(3, 4, 2), nn.Flatten(), nn.Linear(16, 3))


def as_one_vector(model):
    vector = nn.utils.parameters_to_vector(model.parameters()).detach()
    nn.utils.vector_to_parameters(vector, model.parameters())


def with_replaced_memory():
    """Of parameters and their gradients, while no gradient travels."""
    dist.init_process_group("kolo")
    for change in (as_one_vector, lambda model: model.to(memory_format=torch.channels_last)):
        for way in ({}, {"overlap": False}, {"shared_parameters": True}):
            model, reference = convolutional_model(), convolutional_model()
            optimizer = kolo4py.torch.FusedAdamW(model.parameters(), lr=0.01, **way)
            reference.load_state_dict(model.state_dict())
            wanted = torch.optim.AdamW(reference.parameters(), lr=0.01)
            for step in range(3):
                optimizer.zero_grad()
                with optimizer.no_sync():
                    loss_of(model, *own(rows(step))).backward()
                change(model)
                loss_of(model, *own(rows(step + 50))).backward()
                optimizer.step()
                wanted.zero_grad()
                (loss_of(reference, *rows(step)) + loss_of(reference, *rows(step + 50))).backward()
                wanted.step()
            assert difference(model, reference) < 1e-5 and same_on_all(model), (way, difference(model, reference))
    for overlap in (False, True):
        model = new_model()
        optimizer = kolo4py.torch.FusedSGD(model.parameters(), overlap=overlap)
        with unittest.TestCase().assertRaisesRegex(RuntimeError, "parameter .* has become torch.float64"):
            train(model.double(), optimizer, 0, 1, lambda all_rows: own((all_rows[0].double(), all_rows[1])))


def with_written_masters():
    """Master weights are taken from the parameters that the program has written since the last step, and only from these."""
    dist.init_process_group("kolo")

    def load(model):
        model.load_state_dict({"weight": torch.tensor([[4, model.weight[0, 1]]])})

    def set_value(model):
        model.weight.data[0, 0] = 4

    def replace(model):
        model.weight.data = torch.tensor([[4, model.weight[0, 1]]]).to(model.weight.dtype)

    for dtype, write in itertools.product((torch.bfloat16, torch.float16), (load, set_value, replace)):
        for way in ({}, {"overlap": False}, {"shared_parameters": True}, {"skip_nonfinite": True}):
            model = nn.Linear(2, 1, bias=False).to(dtype)
            nn.init.constant_(model.weight, 8)
            optimizer = kolo4py.torch.FusedSGD(model.parameters(), lr=1 / 128, master_weights=True, **way)
            for step in range(4):  # of less than bfloat16 has room for
                if step == 2:
                    write(model)
                optimizer.zero_grad()
                model(torch.ones(1, 2, dtype=dtype)).sum().backward()
                optimizer.step()
            assert model.weight.tolist() == [[4 - 2 / 128, 8 - 4 / 128]], (dtype, write, way, model.weight)


def in_other_types():
    dist.init_process_group("kolo")
    for dtype, bound in ((torch.float64, 1e-12), (torch.bfloat16, 0.05), (torch.float16, 0.02)):
        for master_weights in (False, True):
            model, reference = new_model(dtype), new_model(torch.float64)
            optimizer = kolo4py.torch.FusedAdamW(model.parameters(), lr=0.01, master_weights=master_weights)
            wanted = torch.optim.AdamW(reference.parameters(), lr=0.01)
            train(model, optimizer, 0, 6, lambda all_rows: own((all_rows[0].to(dtype), all_rows[1])))
            train(reference, wanted, 0, 6, lambda all_rows: (all_rows[0].double(), all_rows[1]))
            assert difference(model, reference) < bound, (dtype, master_weights, difference(model, reference))
            again = kolo4py.torch.FusedAdamW(new_model(dtype).parameters(), lr=1, master_weights=master_weights)
            again.load_state_dict(optimizer.state_dict())
            check_states(again.state_dict(), optimizer.state_dict())
            assert ("master_param" in again.state_dict()["state"][0]) == (master_weights and dtype != torch.float64)


class Branches(nn.Module):
    """Parameters of two types, one that is frozen, one that has no gradient."""
    def __init__(self):
        super().__init__()
        self.narrow, self.wide = nn.Linear(8, 3).double(), nn.Linear(8, 3)
        self.frozen = nn.Parameter(torch.full((3,), 1.0 + dist.get_rank()), requires_grad=False)
        self.unused = nn.Parameter(torch.ones(5))

    def forward(self, images):
        return self.narrow(images.double()).float() + self.wide(images) * self.frozen


def with_odd_gradients():
    """Accumulated, missing, frozen, set by the program; and what is refused."""
    dist.init_process_group("kolo")
    check = unittest.TestCase()
    torch.manual_seed(1)
    model, reference = Branches(), Branches()
    optimizer = kolo4py.torch.FusedSGD(model.parameters(), lr=0.1)
    reference.load_state_dict(model.state_dict())
    wanted = torch.optim.SGD(reference.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        with optimizer.no_sync():
            (loss_of(model, *own(rows(step))) / 2).backward()
        (loss_of(model, *own(rows(step + 50))) / 2).backward()
        wanted.zero_grad()
        ((loss_of(reference, *rows(step)) + loss_of(reference, *rows(step + 50))) / 2).backward()
        optimizer.step()
        wanted.step()
    assert difference(model, reference) < 1e-5 and model.unused.eq(1).all(), difference(model, reference)
    loss_of(model, *own(rows(0))).backward()
    optimizer.param_groups[0]["lr"] = 0.2
    with check.assertRaisesRegex(RuntimeError, "between backward"):
        optimizer.step()
    optimizer.param_groups[0]["lr"] = 0.1
    for call in (optimizer.zero_grad, optimizer.state_dict):
        with check.assertRaisesRegex(RuntimeError, "on their way"):
            call()
    optimizer.step()
    wanted.param_groups[0]["momentum"] = 0.9
    with check.assertRaisesRegex(kolo.ArgumentError, "momentum"):
        optimizer.load_state_dict(wanted.state_dict())
    optimizer.step()
    model.frozen.requires_grad_()
    loss_of(model, *own(rows(0))).backward()
    with check.assertRaisesRegex(RuntimeError, "parameter 0 required no gradient"):
        optimizer.step()
    with check.assertRaisesRegex(kolo.ArgumentError, "one type"):
        kolo4py.torch.FusedAdamW(model.parameters(), clip_norm=1)
    with check.assertRaisesRegex(kolo.ArgumentError, "amsgrad"):
        other = kolo4py.torch.FusedAdamW(new_model().parameters())
        other.param_groups[0]["amsgrad"] = True
        other.step()
    with check.assertRaisesRegex(kolo.ArgumentError, "added"):
        optimizer.add_param_group({"params": [nn.Parameter(torch.ones(1))]})
    table = nn.Embedding(3, 2, sparse=True)
    optimizer, before = kolo4py.torch.FusedSGD(table.parameters(), lr=1), table.weight.detach().clone()
    table(torch.tensor([dist.get_rank()])).sum().backward()
    optimizer.step()
    torch.testing.assert_close(before - table.weight, torch.tensor([[0.5] * 2, [0.5] * 2, [0.0] * 2]))
    table.weight.grad = torch.ones(3, 2).to_sparse()
    optimizer.step()
    torch.testing.assert_close(before - table.weight, torch.tensor([[1.5] * 2, [1.5] * 2, [1.0] * 2]))
    before = [parameter.detach().clone() for parameter in new_model().parameters()]
    careful = new_model()
    skipping = kolo4py.torch.FusedAdamW(careful.parameters(), skip_nonfinite=True)
    for parameter in careful.parameters():
        parameter.grad = torch.full_like(parameter, float("nan") if dist.get_rank() == 0 else 1)
    skipping.step()
    assert skipping.info.skipped and all(torch.equal(a, b) for a, b in zip(before, careful.parameters()))


def with_odd_states():
    """Of which a rank has nothing, and what is refused."""
    dist.init_process_group("kolo")
    check = unittest.TestCase()
    small = nn.Linear(3, 1)  # of which rank 1 owns nothing
    for is_sharded in (False, True):
        optimizer = kolo4py.torch.FusedAdamW(small.parameters(), sharded_state=is_sharded)
        state = optimizer.state_dict()
        optimizer.load_state_dict(state)
        assert state["state"][0]["exp_avg"].size() == (1, 3), state
    with check.assertRaisesRegex(kolo.ArgumentError, r"shape \(1, 3\) is for a parameter of shape \(1, 4\)"):
        kolo4py.torch.FusedAdamW(nn.Linear(4, 1).parameters()).load_state_dict(state)
    with check.assertRaisesRegex(kolo.ArgumentError, "in another way"):
        kolo4py.torch.FusedAdamW(nn.Linear(64, 2).parameters(), bucket_bytes=1).load_state_dict(
            kolo4py.torch.FusedAdamW(nn.Linear(64, 2).parameters(), sharded_state=True).state_dict())
    optimizer.sharded_state = False
    state = optimizer.state_dict()
    state["state"][0]["exp_avg"], state["state"][1]["exp_avg"] = torch.ones(1, 4), torch.ones(1)
    with check.assertRaisesRegex(kolo.ArgumentError, r"shape \(1, 4\) is for"):
        optimizer.load_state_dict(state)
    assert not optimizer.state_dict()["state"][1]["exp_avg"].any()


def with_changed_gradients():
    """While they travel: what the program does then is refused. Without overlap it holds."""
    dist.init_process_group("kolo")
    check, scaler = unittest.TestCase(), torch.amp.GradScaler("cpu")
    scaler.scale(torch.ones(1))
    for text, change in (("second gradient", lambda model, _: loss_of(model, *own(rows(0))).backward()),
                         ("changed between", lambda model, _: nn.utils.clip_grad_norm_(model.parameters(), 1)),
                         ("changed between", lambda model, _: setattr(model[0].weight, "grad", torch.ones(33, 8))),
                         ("changed between", lambda model, _: setattr(model[0].weight.grad, "data", torch.ones(33, 8))),
                         ("other memory", lambda model, _: setattr(model[0].weight, "data", torch.ones(33, 8))),
                         ("changed between", lambda model, _: model.zero_grad()),
                         ("skip_nonfinite", lambda _, optimizer: scaler.step(optimizer))):
        model = new_model()
        optimizer = kolo4py.torch.FusedSGD(model.parameters(), lr=0.1)
        loss_of(model, *own(rows(0))).backward()
        with check.assertRaisesRegex(RuntimeError, text):
            change(model, optimizer)
            optimizer.step()
    model, reference = new_model(), new_model()
    train(model, kolo4py.torch.FusedSGD(model.parameters(), lr=0.1, overlap=False), 0, 3, lambda all_rows: all_rows, 0.1)
    train(reference, torch.optim.SGD(reference.parameters(), lr=0.1), 0, 3, lambda all_rows: all_rows, 0.1)
    assert difference(model, reference) < 1e-6


class Backwards(nn.Module):
    """Layers that are used in the reverse of the order in which they were made, by odd ranks in yet another one; of two
    types; and some that are not used."""
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8).to(torch.float64 if index % 2 else torch.float32) for index in range(5))
        self.unused = nn.Linear(8, 8)
        self.last = nn.Linear(8, 3)

    def forward(self, images):
        for layer in sorted(self.layers, key=lambda layer: layer is self.layers[3 * (dist.get_rank() % 2)], reverse=True):
            images = torch.tanh(layer(images.to(layer.weight.dtype)).to(torch.float32))
        return self.last(images)


def in_learned_order():
    """What is complete first in the first step goes out first in the others, whatever was registered last."""
    dist.init_process_group("kolo")
    torch.manual_seed(1)
    model, reference = Backwards(), Backwards()
    reference.load_state_dict(model.state_dict())
    optimizer = kolo4py.torch.FusedSGD(model.parameters(), lr=0.1, bucket_bytes=1)  # a bucket for each parameter
    wanted = torch.optim.SGD(reference.parameters(), lr=0.1)
    begun = []  # buckets, when each gradient was there
    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(
            lambda _parameter: begun.append(sum(len(flat.begun) for flat in optimizer._flats)))
    for step in range(4):
        begun.clear()
        wanted.zero_grad()
        train(model, optimizer, step, step + 1, lambda all_rows: all_rows)
        loss_of(reference, *rows(step)).backward()
        for parameter in reference.parameters():
            if parameter.grad is not None:
                dist.all_reduce(parameter.grad, dist.ReduceOp.AVG)
        wanted.step()
        if step == 0:  # until the unused ones there are only those of `last`
            assert max(begun) == 2, begun
        elif dist.get_rank() == 0:
            assert begun == list(range(1, 13)), begun
        else:
            assert begun[-1] == 12 and begun == sorted(begun), begun
    assert same_on_all(model.double()) and difference(model, reference.double()) < 1e-5, difference(model, reference)


class Shapes(nn.Module):
    """Parameters of 0 to 4 dimensions, and one without elements."""
    def __init__(self, seed):
        super().__init__()
        self.layers = new_model(torch.bfloat16, seed)
        self.scale = nn.Parameter(torch.tensor(1.0))
        self.box, self.nothing = nn.Parameter(torch.randn(5, 7, 3, 3)), nn.Parameter(torch.ones(0, 2))

    def forward(self, images):
        weights = torch.linspace(-1, 1, self.box.numel()).view(self.box.shape)
        return self.layers(images.bfloat16()).float() * self.scale + torch.tanh(self.box * weights).sum() * self.scale ** 2


def optimizer_of(model, is_sharded, **settings):
    layers = [*model.layers.parameters()]
    groups = [{"params": [model.scale, model.box, *layers]}, {"params": [model.nothing], "lr": 0.003}]
    return kolo4py.torch.FusedAdamW(groups, master_weights=True, sharded_state=is_sharded, **settings)


def whole_state(optimizer):
    optimizer.sharded_state = False
    return optimizer.state_dict()["state"]


def saved(folder, is_sharded):
    dist.init_process_group("kolo")
    model = Shapes(1)
    optimizer = optimizer_of(model, is_sharded, lr=0.01, bucket_bytes=1000)
    train(model, optimizer, 0, 3)
    state = dcp.state_dict.get_optimizer_state_dict(model, optimizer)
    dcp.save({"model": model.state_dict(), "optimizer": state}, checkpoint_id=folder)
    if is_sharded:
        own = state["state"]["box"]["exp_avg"].own.numel()
        assert own <= 5 * 7 * 9 / dist.get_world_size() + 64, own  # and what does not divide evenly
    assert optimizer.info.steps == 3
    whole = whole_state(optimizer)
    train(model, optimizer, 3, 6)
    if dist.get_rank() == 0:
        torch.save((whole, model.state_dict()), os.path.join(folder, "end"))


def loaded(folder, is_sharded):
    dist.init_process_group("kolo")
    model, end = Shapes(7), Shapes(1)
    optimizer = optimizer_of(model, is_sharded, lr=1, shared_parameters=True)
    state = {"model": model.state_dict(), "optimizer": dcp.state_dict.get_optimizer_state_dict(model, optimizer)}
    dist.barrier()
    dcp.load(state, checkpoint_id=folder)
    dcp.state_dict.set_optimizer_state_dict(model, optimizer, state["optimizer"])
    dist.barrier()
    assert [group["lr"] for group in optimizer.param_groups] == [0.01, 0.003]
    whole, parameters = torch.load(os.path.join(folder, "end"))
    found = whole_state(optimizer)
    assert found.keys() == whole.keys() and all(
        torch.equal(value, found[number][name]) for number, values in whole.items() for name, value in values.items())
    train(model, optimizer, 3, 6)
    end.load_state_dict(parameters)
    assert optimizer.info.steps == 6 and difference(model, end) < 0.01, difference(model, end)


def killed_in_training():
    dist.init_process_group("kolo")
    model = new_model()
    optimizer = kolo4py.torch.FusedAdamW(model.parameters(), bucket_bytes=1000)
    train(model, optimizer, 0, 2)
    loss_of(model, *own(rows(2))).backward()
    if dist.get_rank() == VICTIM:
        os.kill(os.getpid(), signal.SIGKILL)
    with unittest.TestCase().assertRaises(kolo.PeerDead) as failure:
        optimizer.step()
        train(model, optimizer, 3, 5)
    assert failure.exception.rank == VICTIM and failure.exception.signal == signal.SIGKILL, failure.exception
    os._exit(0)  # the process group has a dead rank


class Fused(torch_ranks.JobTest):
    def test_against_torch(self):
        for ranks in (1, 2, 3):
            with self.subTest(ranks=ranks):
                self.run_ranks(against_torch, ranks)

    def test_momentum_that_begins_late(self):
        self.run_ranks(with_momentum_that_begins_late, 2)

    def test_other_types(self):
        self.run_ranks(in_other_types, 2)
        self.run_ranks(with_written_masters, 2)

    def test_replaced_memory(self):
        self.run_ranks(with_replaced_memory, 2)

    def test_odd_gradients(self):
        self.run_ranks(with_odd_gradients, 2)
        self.run_ranks(with_odd_states, 2)
        self.run_ranks(with_changed_gradients, 2)

    def test_learned_order(self):
        for ranks in (2, 3):
            self.run_ranks(in_learned_order, ranks)

    def test_checkpoint_onto_another_number_of_ranks(self):
        for before, after, *are_sharded in ((2, 3, False, False), (3, 2, True, False), (2, 3, False, True), (2, 3, True, True)):
            folder = tempfile.mkdtemp(prefix="kolo-fused-")
            try:
                self.run_ranks(saved, before, folder, are_sharded[0])
                self.run_ranks(loaded, after, folder, are_sharded[1])
            finally:
                shutil.rmtree(folder)

    def test_killed_rank(self):
        self.run_ranks(killed_in_training, 3, killed=(VICTIM,))


if __name__ == "__main__":
    unittest.main()
