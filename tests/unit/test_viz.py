"""The visualiser: graphs as data, replayed rewrites, recordings on disk, the server, and process replay."""

import json
import os
import pickle
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tinygrad import Tensor
from tinygrad.dtype import dtypes
from tinygrad.engine.realize import _kind_cache, method_cache
from tinygrad.helpers import Context, TracingKey, ansistrip
from tinygrad.uop import Ops, tracing
from tinygrad.uop.ops import (
    BottomUpGate,
    PatternMatcher,
    RewriteTrace,
    UOp,
    UPat,
    graph_rewrite,
    graph_rewrite_map,
    track_rewrites,
    tracked_ctxs,
    tracked_keys,
    uop_fields,
)
from tinygrad.uop.symbolic import sym
from tinygrad.viz import rewrites, serve, store, summary

SEED = random.SystemRandom().randrange(1 << 32)
PAGE = Path(serve.__file__).parent / "page"


pytestmark = pytest.mark.usefixtures("recording")


def forget_kernels() -> None:
    """Kernels that this process knows are not lowered again, so they leave no trace."""
    method_cache.clear()
    _kind_cache.clear()


def current() -> RewriteTrace:
    return RewriteTrace(tracked_keys, tracked_ctxs, uop_fields)


a, b = UOp.variable("a", 0, 10), UOp.variable("b", 1, 7)


def random_formula(rng: random.Random) -> UOp:
    nodes = [a, b, a.const_like(2), a.const_like(0), a.const_like(1)]
    for _ in range(30):
        op = rng.choice([Ops.ADD, Ops.MUL, Ops.MAX, Ops.IDIV])
        right = b if op is Ops.IDIV else rng.choice(nodes[-8:])
        nodes.append(rng.choice(nodes[-8:]).alu(op, right))
    return nodes[-1]


# ---- replaying a record


def stop_at_mul(x):
    raise BottomUpGate


SWAP = PatternMatcher([(UPat(Ops.DEFINE_VAR, name="x"), lambda x: b if x is a else None)])
GATED = PatternMatcher(
    [
        (UPat(Ops.MUL, name="x"), stop_at_mul),
        (UPat(Ops.DEFINE_VAR, name="x"), lambda x: x.rtag(1) if x.tag is None else None),
    ]
)


@pytest.mark.parametrize(
    "how",
    [
        {"pm": sym},
        {"pm": sym, "bottom_up": True},
        {"pm": SWAP, "bottom_up": True},
        {"pm": GATED, "bottom_up": True},
        {"pm": sym, "bpm": SWAP},
        {"pm": sym, "bpm": GATED},
    ],
    ids=["up", "down", "swap", "gated", "both", "gated both"],
)
@pytest.mark.parametrize("seed", [SEED, 4152311812], ids=["random", "same node both ways"])
def test_all_changes_replayed_give_the_result(how, seed):
    rng = random.Random(seed)
    for _ in range(30):
        u = random_formula(rng)
        result = graph_rewrite(u, **how)
        record = tracked_ctxs[-1][-1]
        nodes = rewrites.Nodes(uop_fields)
        assert nodes[record.sink] is u
        assert rewrites.graph_after(record, nodes, 0) is u
        replayed = rewrites.graph_after(record, nodes, len(record.matches))
        assert replayed is result, f"seed {seed}"


def test_each_change_is_one_graph_further():
    u = (a + 0) * 1 + (b + 0)
    graph_rewrite(u, sym)
    record = tracked_ctxs[0][0]
    details = list(rewrites.walk_rewrite(record, uop_fields))
    assert len(details) == len(record.matches) + 1 >= 4
    assert details[0]["changed"] is None and details[0]["diff"] is None
    for detail in details[1:]:
        assert detail["upat"][0][0].endswith(".py") and detail["upat"][0][1] > 0
        assert any(line.startswith("-") for line in detail["diff"])
    assert id(a) in details[-1]["graph"]


def test_rules_with_a_state_are_replayed_as_they_went():
    """A rule that fires once and then no more can't be told from the nodes alone."""
    seen = []

    def once(x):
        if seen:
            return None
        seen.append(x)
        return x.rtag("seen") + 5

    result = graph_rewrite(a * 2, PatternMatcher([(UPat(Ops.DEFINE_VAR, name="x"), once)]))
    record = tracked_ctxs[0][0]
    assert result is (a.rtag("seen") + 5) * 2
    assert rewrites.graph_after(record, rewrites.Nodes(uop_fields), 1) is result


def test_maps_run_their_rules_once():
    calls = []
    count = PatternMatcher([(UPat(Ops.ADD, name="x"), lambda x: calls.append(x))])
    found = graph_rewrite_map(a + b, count, input_map={b: a})
    assert len(calls) == 1
    assert found[a + b] is a + b and found[b] is a


def test_errors_say_which_rule():
    def broken(x):
        raise ValueError("no such thing")

    with pytest.raises(ValueError):
        graph_rewrite(a + b, PatternMatcher([(UPat(Ops.ADD, name="x"), broken)]))
    *_, last = rewrites.walk_rewrite(tracked_ctxs[0][0], uop_fields)
    (error,) = [n for n in last["graph"].values() if n["label"].startswith("REWRITE_ERROR")]
    assert "no such thing" in error["label"] and "broken" in error["label"]


def test_the_real_pipeline_replays(monkeypatch):
    """Every rewrite between a tensor and its kernel ends, replayed, where it ended."""
    results, plain = [], tracing._traced

    def spy(sink, *args, **kwargs):
        steps, place = tracked_ctxs[-1], len(tracked_ctxs[-1])
        out = plain(sink, *args, **kwargs)
        results.append((steps[place], out[sink]))
        return out

    monkeypatch.setattr(tracing, "_traced", spy)
    with Context(CCACHE=0):
        (Tensor.empty(7, 9).matmul(Tensor.empty(9, 5)).relu() + 2.5).schedule()[0].lower()
    assert len(results) > 10 and sum(len(record.matches) for record, _ in results) > 20
    for record, result in results:
        nodes = rewrites.Nodes(uop_fields)
        assert rewrites.graph_after(record, nodes, len(record.matches)) is result, record.name
    assert serve.get_rewrites(current())[0]["steps"][0]["name"] == "tensor graph"


# ---- graphs as data


def test_constants_stand_in_their_users():
    graph = serve.uop_to_json((a + 3) * b)
    assert [n["label"].split("\n")[0] for n in graph.values()].count("CONST") == 0
    assert any("1: 3" in n["label"] for n in graph.values())
    json.dumps(graph)


def test_every_edge_leads_to_a_node_shown():
    u = Tensor.empty(4, 4).pad(((1, 1), (0, 0))).sum(0).reshape(2, 2).uop.sink()
    graph = serve.uop_to_json(u)
    assert all(source in graph for node in graph.values() for _, source in node["src"])
    assert any("(2, 2)" in node["label"] for node in graph.values())


def test_long_arguments_are_folded():
    label = serve.uop_to_json(UOp(Ops.CUSTOM, arg="word " * 2000))
    (node,) = label.values()
    assert len(node["label"]) < 3000 and "more lines" in node["label"]


def test_ill_formed_graphs_are_shown():
    graph = serve.uop_to_json(UOp(Ops.RESHAPE, dtypes.float, (UOp(Ops.NOOP),), arg="nonsense"))
    assert any("RESHAPE" in node["label"] for node in graph.values())


# ---- recordings on disk


class Foreign:
    """Something a user may put into an argument."""

    def __repr__(self):
        return "<a foreign thing>"


def test_a_trace_survives_the_file(tmp_path):
    forget_kernels()
    Tensor.empty(4).add(1234.5).schedule()[0].lower()
    before = serve.get_rewrites(current())
    path = str(tmp_path / "rewrites.pkl")
    store.write_rewrites(current(), path)
    loaded = store.read(path)
    assert serve.get_rewrites(loaded.trace) == before
    assert loaded.trace.uop_fields.keys() == uop_fields.keys()
    (view,) = loaded.kernels.values()
    assert "void" in view.source and "STORE" in view.listing
    for steps in loaded.trace.rewrites:
        for record in steps:
            list(rewrites.walk_rewrite(record, loaded.trace.uop_fields))


def test_foreign_arguments_become_text():
    graph_rewrite(UOp(Ops.CUSTOM, arg=(Foreign(), len, a, 1.5)), PatternMatcher([]))
    loaded = store.loads(store.dumps(current()))
    (arg,) = [
        f[3] for f in loaded.uop_fields.values() if f[0] is Ops.CUSTOM and "foreign" in str(f[3])
    ]
    assert str(arg[0]) == "<a foreign thing>" and arg[3] == 1.5


@pytest.mark.parametrize("thing", [os.system, Foreign(), subprocess.Popen, eval])
def test_files_that_name_anything_else_are_refused(thing):
    with pytest.raises((pickle.UnpicklingError, AttributeError), match="may not contain"):
        store.loads(pickle.dumps(thing))


class Evil:
    def __reduce__(self):
        return os.system, ("touch /tmp/should_not_exist",)


def test_no_code_runs_from_a_file(tmp_path):
    path = tmp_path / "rewrites.pkl"
    path.write_bytes(pickle.dumps(Evil()))
    with pytest.raises(pickle.UnpicklingError, match="may not contain"):
        store.read(str(path))


# ---- in a terminal


def test_tables_of_passes_and_rules(capsys, tmp_path):
    graph_rewrite((a + 0) * 1 + (b + 0), sym, name="my pass")
    graph_rewrite(a + b, PatternMatcher([]), name="idle pass")
    passes = {total.name: total for total in summary.totals_of_passes(current())}
    assert passes["my pass"].changes >= 3 and passes["my pass"].seconds > 0
    assert passes["idle pass"].nodes == 3 and passes["idle pass"].changes == 0
    fired = sum(total.count for total in summary.totals_of_rules(current()))
    assert fired == passes["my pass"].changes
    path = str(tmp_path / "rewrites.pkl")
    store.write_rewrites(current(), path)
    assert summary.main(["--kernels", path, "--profile", "missing"]) == 0
    printed = capsys.readouterr().out
    assert "my pass" in printed and "rules:" in printed and "what ran" not in printed
    assert summary.main(["--kernels", "missing", "--profile", "missing"]) == 1


# ---- the server


@pytest.fixture
def served(tmp_path):
    forget_kernels()
    Tensor.empty(4, 4).sum(1).schedule()[0].lower()
    path = str(tmp_path / "rewrites.pkl")
    store.write_rewrites(current(), path)
    library = serve.load_library(path, str(tmp_path / "missing"))
    with serve.Server(0, library) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def ask(url: str, **headers) -> bytes:
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=20) as answer:
        return answer.read()


def status(url: str, **headers) -> int:
    try:
        ask(url, **headers)
    except urllib.error.HTTPError as error:
        return error.code
    return 200


def test_the_page_gets_every_step_and_change(served):
    groups = json.loads(ask(f"{served}/api/groups"))
    assert [ansistrip(g["name"]) for g in groups][0] == "Schedule 1 Kernel n1"
    assert groups[1]["kernel"]
    for number, group in enumerate(groups):
        for place, step in enumerate(group["steps"]):
            at = f"group={number}&step={place}"
            answer = json.loads(ask(f"{served}/api/step?{at}"))
            assert len(answer["changes"]) == step["match_count"]
            graph = json.loads(ask(f"{served}/api/graph?{at}&change={step['match_count']}"))
            assert graph["graph"] and graph["uop"]
    assert "float" in json.loads(ask(f"{served}/api/kernel?group=1"))["source"]


def test_files_of_the_page(served):
    html = ask(f"{served}/").decode()
    files = re.findall(r'(?:href|src)="(/[^"]+)"', html)
    assert len(files) == 2
    for script in PAGE.glob("*.js"):
        text = ask(f"{served}/{script.name}").decode()
        files += [f"/{name}" for name in re.findall(r'from "\./([^"]+)"', text)]
        assert "http://" not in text.replace("http://www.w3.org/2000/svg", ""), "no outside content"
    assert all(status(served + file) == 200 for file in files)


def test_what_is_not_there_is_404(served):
    for path in ("/api/step?group=99&step=0", "/api/step?group=x&step=0", "/api/step", "/nothing",
                 "/api/profile", "/..%2fserve.py", "/api/graph?group=0&step=0&change=9999"):  # fmt: skip
        assert status(served + path) == 404, path


def test_only_this_machine_is_answered(served):
    assert status(f"{served}/api/groups", Host="example.com") == 403
    assert status(f"{served}/api/groups", Host="example.com:8000") == 403
    assert status(f"{served}/api/groups", Host="localhost:8000") == 200


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_scripts_parse():
    for script in sorted(PAGE.glob("*.js")):
        command = ["node", "--input-type=module", "--check"]
        done = subprocess.run(command, input=script.read_text(), capture_output=True, text=True)
        assert done.returncode == 0, f"{script.name}: {done.stderr}"


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_layout_keeps_boxes_apart(tmp_path):
    graph = serve.uop_to_json(Tensor.empty(4, 4).softmax(1).uop.sink())
    script = f"""
        import {{ layout }} from {json.dumps((PAGE / "graph.js").as_uri())};
        const graph = {json.dumps(graph)};
        const {{ boxes, edges }} = layout(graph);
        console.log(JSON.stringify({{ boxes: [...boxes], edges }}));
    """
    for name in ("graph.js", "text.js"):
        shutil.copy(PAGE / name, tmp_path / name.replace(".js", ".mjs"))
    script = script.replace((PAGE / "graph.js").as_uri(), (tmp_path / "graph.mjs").as_uri())
    moved = tmp_path / "graph.mjs"
    moved.write_text(moved.read_text().replace("./text.js", "./text.mjs"))
    command = ["node", "--input-type=module"]
    done = subprocess.run(command, input=script, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    drawn = json.loads(done.stdout)
    boxes = dict(drawn["boxes"])
    assert boxes.keys() == {str(number) for number in graph}
    for edge in drawn["edges"]:
        above, below = boxes[edge["from"]], boxes[edge["to"]]
        assert above["y"] + above["h"] <= below["y"]
    rows: dict = {}
    for box in boxes.values():
        rows.setdefault(box["y"], []).append(box)
    for row in rows.values():
        row.sort(key=lambda box: box["x"])
        assert all(p["x"] + p["w"] <= q["x"] + 1e-6 for p, q in zip(row, row[1:]))


# ---- a whole process

_PROGRAM = """
from tinygrad import Tensor
from tinygrad.helpers import profile_marker
x = Tensor([[1., 2.], [3., 4.]]).contiguous().realize()
profile_marker("half way")
print((x @ x).sum().item())
"""


def python(*command: str, **switches: str) -> subprocess.CompletedProcess:
    names = ("VIZ", "PROFILE", "DEBUG", "CAPTURE_PROCESS_REPLAY", "TRACK_MATCH_STATS")
    env = {name: value for name, value in os.environ.items() if name not in names}
    return subprocess.run(
        [sys.executable, *command],
        env={**env, **switches},
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_a_process_leaves_its_recording(tmp_path):
    paths = {"REWRITES_PATH": str(tmp_path / "r.pkl"), "PROFILE_PATH": str(tmp_path / "p.pkl")}
    done = python("-c", _PROGRAM, VIZ="-1", **paths)
    assert done.returncode == 0 and done.stdout == "54.0\n", done.stderr
    library = serve.load_library(paths["REWRITES_PATH"], paths["PROFILE_PATH"])
    assert any(library.kernels) and b"half way" in library.profile
    # a bar of a kernel leads to its rewrites
    events = store.read(paths["PROFILE_PATH"])
    assert any(getattr(e, "name", None) == "exec" for e in events)


def test_the_page_is_served_when_the_program_ends(tmp_path):
    paths = {"REWRITES_PATH": str(tmp_path / "r.pkl"), "PROFILE_PATH": str(tmp_path / "p.pkl")}
    env = {**os.environ, **paths, "VIZ": "1", "PORT": "0"}
    command = [sys.executable, "-c", _PROGRAM]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as process:
        try:
            lines = [process.stdout.readline() for _ in range(3)]
            assert lines[0] == "54.0\n"
            (address,) = set(re.findall(r"http://127.0.0.1:[1-9]\d*", lines[2]))
            assert json.loads(ask(f"{address}/api/groups")) and ask(f"{address}/api/profile")
        finally:
            process.send_signal(signal.SIGINT)
        assert process.wait(timeout=20) == 0


def test_nothing_is_loaded_when_off():
    code = "import sys; from tinygrad import Tensor; Tensor([1]).add(1).tolist(); " \
           "print([m for m in sys.modules if m.startswith('tinygrad.viz') or 'replay' in m])"  # fmt: skip
    assert python("-c", code).stdout.strip() == "[]"


# ---- process replay

_CALLS = """
import sys
from tinygrad import Tensor
x = Tensor([[1., 2.], [3., 4.]]).contiguous().realize()
(x @ x).sum(1).tolist()
if len(sys.argv) > 1:
    (x * 2).tolist()
"""
_OTHER = """
import tinygrad.renderer.cstyle as cstyle
plain = cstyle.CStyleLanguage.render
cstyle.CStyleLanguage.render = lambda self, uops: plain(self, uops) + "// other"
"""


def last_line(done: subprocess.CompletedProcess) -> dict:
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.skipif(
    shutil.which("clang") is None, reason="changes the C renderer, which needs clang"
)
def test_two_runs_are_compared(tmp_path):
    files = [str(tmp_path / name) for name in ("one.db", "two.db", "three.db")]
    for file, code in zip(files, (_CALLS, _CALLS, _OTHER + _CALLS)):
        extra = ["more"] if file == files[1] else []
        done = python("-c", code, *extra, CACHEDB=file, CAPTURE_PROCESS_REPLAY="1")
        assert done.returncode == 0, done.stderr
    same = python("-m", "tinygrad.viz.replay", "--compare", files[0], files[1])
    assert same.returncode == 0 and last_line(same)["different"] == 0
    assert last_line(same)["same"] > 0 and last_line(same)["only_new"] > 0
    other = python("-m", "tinygrad.viz.replay", "--compare", files[0], files[2])
    assert other.returncode == 1 and "// other" in other.stdout
    assert last_line(other)["same"] == 0
    assert python("-m", "tinygrad.viz.replay", "--compare", files[0], "nowhere").returncode != 0


def test_calls_are_made_again(tmp_path):
    file = str(tmp_path / "calls.db")
    assert python("-c", _CALLS, CACHEDB=file, CAPTURE_PROCESS_REPLAY="1").returncode == 0
    again = python("-m", "tinygrad.viz.replay", CACHEDB=file)
    assert again.returncode == 0 and last_line(again)["failed"] == 0, again.stdout
    assert last_line(again)["same"] > 0
    assert python("-m", "tinygrad.viz.replay", "--clear", CACHEDB=file).returncode == 0
    assert last_line(python("-m", "tinygrad.viz.replay", CACHEDB=file))["same"] == 0


def test_other_functions_are_recorded_too(tmp_path):
    code = (
        "from tinygrad.uop.ops import UOp, track_rewrites\n"
        "@track_rewrites(replay=True)\n"
        "def double(u): return u + u\n"
        "double(UOp.variable('a', 0, 9))\n"
    )
    file = str(tmp_path / "calls.db")
    assert python("-c", code, CACHEDB=file, CAPTURE_PROCESS_REPLAY="1").returncode == 0
    dump = python("-m", "tinygrad.viz.replay", "--dump", CACHEDB=file)
    ((_, name, result),) = map(json.loads, dump.stdout.splitlines())
    assert name == "double" and "DEFINE_VAR" in result
    assert last_line(python("-m", "tinygrad.viz.replay", CACHEDB=file))["not_ours"] == 1


def test_tracking_holds_no_result():
    @track_rewrites(name=lambda u, ret: "plain name")
    def named(u):
        return [u]

    @track_rewrites(name=lambda u, ret: TracingKey("key", ret=ret))
    def keyed(u):
        return u

    named(a)
    keyed(a)
    assert tracked_keys[0].ret is None and tracked_keys[1].ret is a
