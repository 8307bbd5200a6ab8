"""Transformers' Trainer over kolo. It asks for the backend "gloo", which KOLO_TORCH_GLOO=1 makes kolo. The model is a small
Llama of a config, with random weights, that learns to go on counting. Needs the packages transformers and accelerate:

    KOLO_TORCH_GLOO=1 torchrun --nproc-per-node 2 lib/bindings/torch/examples/tiny_trainer.py"""

import argparse
import tempfile

import torch
import torch.distributed as dist
import transformers
from used_backend import used_backend

WORDS, LENGTH = 32, 24


class Counting(torch.utils.data.Dataset):
    """Sequences that count upwards from some number, modulo WORDS."""

    def __len__(self):
        return 4096

    def __getitem__(self, index):
        numbers = (torch.arange(LENGTH) + index) % WORDS
        return {"input_ids": numbers, "labels": numbers}


def main(words=None):
    parser = argparse.ArgumentParser(description="Transformers' Trainer over kolo")
    parser.add_argument("--steps", type=int, default=40, help="(40)")
    options = parser.parse_args(words)
    transformers.set_seed(1)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=WORDS, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
        max_position_embeddings=LENGTH))
    with tempfile.TemporaryDirectory() as folder:
        trainer = transformers.Trainer(model, transformers.TrainingArguments(
            folder, use_cpu=True, ddp_backend="gloo", max_steps=options.steps, per_device_train_batch_size=8,
            learning_rate=3e-3, logging_steps=1, save_strategy="no", report_to=[], disable_tqdm=True,
            ddp_find_unused_parameters=False), train_dataset=Counting())
        trainer.remove_callback(transformers.PrinterCallback)
        trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    if dist.get_rank() == 0:
        print(f"{dist.get_world_size()} ranks over {used_backend()}: "
              f"loss {losses[0]:.4f} at first, {losses[-1]:.4f} after {options.steps} steps")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
