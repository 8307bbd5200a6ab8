"""As ranks: optimizers, against PyTorch's formulas in float64; groups, segments, clipping, skipped steps, and state that is
saved and loaded."""

import array
import math

import kolo4py as kolo
import python_ranks

COUNT, STEPS = 37, 5


def plain_step(kind, step, g, p, m, v, lr=0.001, weight_decay=0, betas=(0.9, 0.999), eps=1e-8, momentum=0, dampening=0,
               nesterov=0):
    """New p, m and v of one parameter."""
    if kind == "adamw":
        p -= lr * weight_decay * p
    else:
        g += weight_decay * p
    if kind == "sgd":
        m = g if step == 1 else momentum * m + (1 - dampening) * g
        return p - lr * (g if not momentum else g + momentum * m if nesterov else m), m, v
    m = betas[0] * m + (1 - betas[0]) * g
    v = betas[1] * v + (1 - betas[1]) * g * g
    root = math.sqrt(v / (1 - betas[1] ** step)) + eps
    return p - lr * m / (1 - betas[0] ** step) / root, m, v


class Optimizers(python_ranks.RankTest):
    def gradients(self, step, code="d"):
        """Of this rank; their average over the ranks is `average`."""
        shift = self.comm.rank - (self.comm.size - 1) / 2
        return array.array(code, [self.average(step, i) + shift for i in range(COUNT)])

    def average(self, step, i):
        return ((i * 7 + step * 3) % 11 - 5) / 4

    def check(self, kind, **settings):
        parameters = array.array("d", [i / 8 for i in range(COUNT)])
        wanted, m, v = list(parameters), [0.0] * COUNT, [0.0] * COUNT
        optimizer = kolo.Optimizer(self.comm, parameters, kind, **settings)
        for step in range(1, STEPS + 1):
            self.assertEqual((step, False, 0, 1), optimizer.step(self.gradients(step)))
            for i in range(COUNT):
                wanted[i], m[i], v[i] = plain_step(kind, step, self.average(step, i), wanted[i], m[i], v[i], **settings)
        for found, due in zip(parameters, wanted):
            self.assertAlmostEqual(due, found, 12)

    def test_formulas(self):
        self.check("sgd", lr=0.1)
        self.check("sgd", lr=0.1, momentum=0.9, dampening=0.2, weight_decay=0.01)
        self.check("sgd", lr=0.1, momentum=0.9, nesterov=1)
        self.check("adam", lr=0.01, weight_decay=0.1)
        self.check("adamw", lr=0.01, weight_decay=0.1, betas=(0.8, 0.95), eps=1e-6)

    def test_state_goes_on(self):
        whole, parts = (array.array("f", [1] * COUNT) for _ in range(2))
        straight = kolo.Optimizer(self.comm, whole, lr=0.01)
        first = kolo.Optimizer(self.comm, parts, lr=0.01)
        for step in range(3):
            straight.step(self.gradients(step, "f"))
            first.step(self.gradients(step, "f"))
        state = first.state_dict()
        self.assertEqual((3, {"steps", "momentum", "variance"}), (state["steps"], set(state)))
        second = kolo.Optimizer(self.comm, parts, lr=0.01, segments=[10, COUNT])
        second.load_state_dict(state)
        for step in range(3, 6):
            gradients = self.gradients(step, "f")
            second.begin(1, gradients)
            straight.step(gradients)
            self.assertEqual(step + 1, second.step(gradients).steps)
        self.assertEqual(whole, parts)

    def test_groups(self):
        parameters = array.array("d", [1] * COUNT)
        groups = [{"end": 5, "lr": 0}, {"end": COUNT, "momentum": 0.5}]
        optimizer = kolo.Optimizer(self.comm, parameters, "sgd", groups=groups, lr=1)
        ones = array.array("d", [1] * COUNT)
        optimizer.step(ones)
        self.assertEqual([1] * 5 + [0] * (COUNT - 5), list(parameters))
        optimizer.set_group(1, lr=2, momentum=0)
        optimizer.step(ones)
        self.assertEqual([1] * 5 + [-2] * (COUNT - 5), list(parameters))

    def test_clip_and_skip(self):
        parameters = array.array("d", [0] * COUNT)
        optimizer = kolo.Optimizer(self.comm, parameters, "sgd", lr=1, clip_norm=1, skip_nonfinite=True)
        gradients = array.array("d", [2] * COUNT)
        done = optimizer.step(gradients)
        self.assertAlmostEqual(2 * math.sqrt(COUNT), done.norm, 12)
        self.assertAlmostEqual(-2 * done.clip, parameters[0], 12)
        before = list(parameters)
        if self.comm.rank == 0:
            gradients[3] = math.nan
        done = optimizer.step(gradients)
        self.assertEqual((1, True, before), (done.steps, done.skipped, list(parameters)))

    def test_refused(self):
        parameters = array.array("f", [0] * COUNT)
        self.assertRaises(kolo.ArgumentError, kolo.Optimizer, self.comm, parameters, "adagrad")
        self.assertRaises(kolo.ArgumentError, kolo.Optimizer, self.comm, parameters, learning_rate=1)
        self.assertRaises(kolo.ArgumentError, kolo.Optimizer, self.comm, parameters, lr=-1)
        self.assertRaises(kolo.ArgumentError, kolo.Optimizer, self.comm, array.array("i", [1]))
        optimizer = kolo.Optimizer(self.comm, parameters)
        self.assertRaises(kolo.ArgumentError, optimizer.step, array.array("f", [1]))
        self.assertRaises(kolo.ArgumentError, optimizer.step, array.array("d", [1] * COUNT))
        self.assertRaises(kolo.ArgumentError, optimizer.set_group, 1, lr=1)
        self.assertRaises(kolo.ArgumentError, optimizer.set_group, 0, rate=1)


if __name__ == "__main__":
    python_ranks.main()
