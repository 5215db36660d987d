"""No public method of Tensor is without a test here, or a reason."""

import ast
import inspect
from pathlib import Path

from tinygrad import Tensor

HERE = Path(__file__).parent

ROOT = HERE.parents[1]
# method -> the file that tests it instead
ELSEWHERE = {
    "avg_pool2d": "tests/oracle/test_layers_torch.py",
    "batchnorm": "tests/unit/test_grad.py",
    "conv_transpose2d": "tests/oracle/test_layers_torch.py",
    "custom_kernel": "tests/unit/test_custom_kernel_order.py",
    "from_dlpack": "tests/unit/test_interop.py",
    "interpolate": "tests/oracle/test_layers_torch.py",
    "keccak": "tests/unit/test_tensor_values.py",
    "layernorm": "tests/unit/test_symbolic_shapes.py",
    "linear": "tests/oracle/test_layers_torch.py",
    "masked_select": "tests/unit/test_tensor_indexing.py",
    "max_pool2d": "tests/oracle/test_layers_torch.py",
    "max_unpool2d": "tests/oracle/test_layers_torch.py",
    "scaled_dot_product_attention": "tests/oracle/test_layers_torch.py",
    "scatter": "tests/unit/test_tensor_indexing.py",
    "scatter_reduce": "tests/unit/test_tensor_indexing.py",
    "schedule": "tests/unit/test_semantics.py",
    "schedule_with_vars": "tests/unit/test_engine.py",
    "sequential": "tests/unit/test_jit_watch.py",
    "shard_": "tests/unit/test_sharding.py",
    "shard_like": "tests/fuzz/test_sharded.py",
}
# what no test can compare here
REASONS = {
    "CHUNK_SIZE": "the size of the pieces that fs_store writes",
    "decode_hevc_frame": "needs the video unit of a GPU",
    "fs_load": "needs a storage server",
    "fs_store": "needs a storage server",
    "from_url": "needs a network; it is fetch and Tensor(path)",
}


def public_methods() -> set[str]:
    """Names that users may call or read, on the class or on a tensor."""
    return {name for name in dir(Tensor) if not name.startswith("_")}


def names_used(path: Path) -> set[str]:
    """Attributes that a test file reads, and strings in it: tables call methods by their names."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value)
    return found


def test_every_public_method_is_tested():
    files = [p for p in HERE.glob("test_*.py") if p.name != Path(__file__).name]
    used = set().union(*map(names_used, files))
    missing = public_methods() - used - ELSEWHERE.keys() - REASONS.keys()
    assert not missing, f"no test in tests/ops calls {sorted(missing)}; add one, or a reason here"


def test_what_is_tested_elsewhere_is():
    assert not (ELSEWHERE.keys() | REASONS.keys()) - public_methods(), "names that Tensor lacks"
    for name, file in ELSEWHERE.items():
        assert name in names_used(ROOT / file), f"{file} does not call {name}"


def test_every_public_method_says_what_it_does():
    for name in public_methods():
        member = inspect.getattr_static(Tensor, name)
        if callable(member) or isinstance(member, (property, classmethod, staticmethod)):
            assert inspect.getdoc(getattr(Tensor, name)) or name == "train", (
                f"{name} has no docstring"
            )
