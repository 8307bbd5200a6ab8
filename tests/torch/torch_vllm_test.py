"""vLLM with two workers over kolo: the same tokens as over its own collectives, nothing left in /dev/shm, and a killed
worker named within a second. The model is a small random Llama. 77: vLLM for CPUs is not installed.

Run as a program: torch_vllm_test.py MODEL serve|die generates, and prints what it found as JSON."""

import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import launching

TIMEOUT_S = 300


def make_model(folder):
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM
    torch.manual_seed(1)
    config = LlamaConfig(vocab_size=512, hidden_size=256, intermediate_size=512, num_hidden_layers=4,
                         num_attention_heads=8, num_key_value_heads=4, max_position_embeddings=512)
    LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)


def binding():
    """A CPU for each worker: not bound, each starts a thread for every CPU, and they wait for each other's."""
    cpus = sorted(os.sched_getaffinity(0))
    return f"{cpus[0]}|{cpus[1]}" if len(cpus) > 1 else "nobind"


def generate(model, dies):
    """In the process that vLLM's engine and workers come from."""
    from vllm import LLM, SamplingParams
    llm = LLM(model=model, skip_tokenizer_init=True, tensor_parallel_size=2, enforce_eager=True, dtype="bfloat16",
              max_model_len=256, distributed_executor_backend="mp")
    prompts = [{"prompt_token_ids": [1 + (7 * i + j) % 500 for j in range(20 + i)]} for i in range(4)]
    drawn = SamplingParams(temperature=1.0, seed=5, max_tokens=64, ignore_eos=True, detokenize=False)
    found = llm.generate(prompts, drawn, use_tqdm=False)
    print(json.dumps({"tokens": [list(one.outputs[0].token_ids) for one in found]}), flush=True)
    while dies:
        llm.generate(prompts, drawn, use_tqdm=False)


class Served(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="kolo-vllm-")
        cls.addClassCleanup(cls.folder.cleanup)
        cls.model = os.path.join(cls.folder.name, "llama")
        make_model(cls.model)

    def start(self, plugin, mode):
        variables = {**os.environ, "VLLM_PLUGINS": plugin, "VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1",
                     "VLLM_NO_USAGE_STATS": "1", "VLLM_CPU_OMP_THREADS_BIND": binding()}
        variables.pop("OMP_NUM_THREADS", None)
        return subprocess.Popen([sys.executable, "-B", __file__, self.model, mode], env=variables, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)

    def tokens(self, output):
        for line in output.splitlines():
            if line.startswith('{"tokens"'):
                return json.loads(line)["tokens"]
        self.fail(output)

    def test_tokens_are_the_same(self):
        outputs, left = {}, {}
        for plugin in ("none", "kolo"):
            launching.own_shm()
            before = set(os.listdir("/dev/shm"))
            outputs[plugin] = self.start(plugin, "serve").communicate(timeout=TIMEOUT_S)[0]
            left[plugin] = set(os.listdir("/dev/shm")) - before
        for name in left["none"]:  # vLLM's own does not always remove what it made
            if name.startswith("vllm_dist_"):
                os.unlink(os.path.join("/dev/shm", name))
        self.assertEqual(self.tokens(outputs["none"]), self.tokens(outputs["kolo"]))
        self.assertEqual(2, len(re.findall(r"kolo carries the collectives of tp:0: rank [01] of 2", outputs["kolo"])))
        self.assertNotIn("kolo carries", outputs["none"])
        self.assertEqual(set(), left["kolo"])

    def test_a_killed_worker_is_named(self):
        process = self.start("kolo", "die")
        told, killed_s, named_s = [], None, None
        for line in process.stdout:
            told.append(line)
            if line.startswith('{"tokens"'):
                pid = int(re.search(r"Worker pid=(\d+)\).*rank 1 of 2", "".join(told)).group(1))
                threading.Timer(0.5, os.kill, (pid, signal.SIGKILL)).start()
                killed_s = time.monotonic() + 0.5
            elif killed_s and not named_s and f"rank 1 (pid {pid}) was killed by signal 9" in line:
                named_s = time.monotonic()
        process.stdout.close()
        process.wait(TIMEOUT_S)
        self.assertIsNotNone(named_s, "".join(told))
        self.assertLess(named_s - killed_s, 1, "".join(told))


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[2] in ("serve", "die"):
        generate(sys.argv[1], sys.argv[2] == "die")
        sys.exit(0)
    if importlib.util.find_spec("vllm") is None:
        print("vLLM is not installed")
        sys.exit(77)
    unittest.main()
