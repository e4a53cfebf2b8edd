"""`import torch` served by tinyt: every form of import, what programs ask of it, and what stays
out of its way. Each program runs in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tinyt.stand_in import TorchVersion


def run(folder: Path, text: str, *options: str, command: tuple[str, ...] = ("run",)) -> str:
    """What a program prints under `tinyt run`."""
    done = run_any(folder, text, *options, command=command)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return done.stdout


def run_any(
    folder: Path, text: str | bytes, *options: str, command: tuple[str, ...] = ("run",)
) -> subprocess.CompletedProcess[str]:
    program = folder / "program.py"
    program.write_bytes(text if isinstance(text, bytes) else text.encode())
    arguments = ["-W", "error", "-m", "tinyt", *command, str(program), *options]
    return subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


IMPORTS = """
import torch, os
import torch.nn as nn, torch.nn.functional as F
import  torch.utils.data
from torch import nn as nn2 , optim
from torch.nn import (Module, Linear,
                      functional)
from torch.nn.utils.clip_grad import clip_grad_norm_
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import *
from torch.autograd import Variable, grad
try: import torch.cuda.amp as amp; from torch.cuda.amp import GradScaler
except ImportError: raise SystemExit("no amp")
import tinyt
assert nn is nn2 is tinyt.nn and F is functional is tinyt.nn.functional
assert torch.Tensor is tinyt.Tensor and isinstance(tinyt.ones(1), torch.Tensor)
assert torch.utils.data.DataLoader is DataLoader is tinyt.data.DataLoader
assert __import__("torch") is torch and __import__("importlib").import_module("torch.nn") is nn
from torch import *
assert tensor is torch.tensor and float32 is torch.float32
def late():
    from torch.nn import init
    return init
assert late() is tinyt.nn.init
print("done")
"""


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_forms_of_import(tmp_path: Path, ending: str) -> None:
    done = run_any(tmp_path, IMPORTS.replace("\n", ending).encode())
    assert (done.stdout, done.stderr) == ("done\n", "")


def test_what_packages_ask(tmp_path: Path) -> None:
    said = run(
        tmp_path,
        """
import importlib.metadata, importlib.util, pickle, sys
assert importlib.util.find_spec("torch") and "torch" not in sys.modules
assert importlib.metadata.version("torch") == "2.13.0+tinyt"
import torch
assert importlib.util.find_spec("torch.nn") and torch.__spec__.name == "torch"
assert torch.__version__ == torch.version.__version__ == "2.13.0+tinyt"
assert torch.__version__ >= "2.9" and torch.__version__ > (1, 13) and torch.version.cuda is None
import tinyt
assert tinyt.__version__ == "0.1.0" == tinyt.version.__version__
assert pickle.loads(b"ctorch.nn.modules.linear\\nLinear\\n.") is tinyt.nn.Linear
assert pickle.loads(b"ctorch\\nSize\\n.") is tinyt.Size
x = torch.nn.Parameter(torch.ones(2))
assert (pickle.loads(pickle.dumps(x)) == x).all()
for shown in (x.dtype, torch.zeros(2, 3).shape, x.type(), x.layout, torch.channels_last):
    print(shown)
torch.mine = 3
assert torch.mine == 3 and not hasattr(tinyt, "mine")
assert "nn" in dir(torch) and "tensor" in torch.__all__ and torch.__file__ and torch.__path__
""",
    )
    assert said.split("\n")[:-1] == [
        "torch.float32",
        "torch.Size([2, 3])",
        "torch.FloatTensor",
        "torch.strided",
        "torch.channels_last",
    ]


EVERY_NAME = """
import keyword, pkgutil, warnings
import torch, tinyt
warnings.simplefilter("ignore")
own = ("tinyt._core", "tinyt._tensor", "tinyt._autograd", "tinyt._capture",
       "tinyt.stand_in", "tinyt.as_torch", "tinyt.cli", "tinyt.__")
modules = [found.name for found in pkgutil.walk_packages(tinyt.__path__, "tinyt.")]
modules += [f"tinyt.nn.modules.{name}" for name in dir(tinyt.nn.modules)]
count = 0
for path in dict.fromkeys(modules):
    if path.startswith(own): continue
    try: module = __import__(path, fromlist=["x"])
    except ImportError: continue  # of a package that is missing, or no module
    for name in dir(module):
        if name.isidentifier() and not keyword.iskeyword(name) and not name.startswith("__"):
            found = {}
            exec(f"from torch{path[5:]} import {name}", found)
            assert found[name] is getattr(module, name), (path, name)
            count += 1
print(count > 9000)
"""


def test_every_name_of_every_module(tmp_path: Path) -> None:
    assert run(tmp_path, EVERY_NAME) == "True\n"


def test_a_missing_name_says_so(tmp_path: Path) -> None:
    said = run(
        tmp_path,
        """
import torch
def fails(f):
    try: f()
    except (AttributeError, ImportError) as error: print(type(error).__name__, error)
def missing(): import torch.no_such
def below(): from torch.nn.no_such import x
def private(): import torch._inductor
def name(): from torch import no_such
for f in (lambda: torch.no_such, lambda: torch.sparse, missing, below, private, name): fails(f)
print(hasattr(torch, "no_such"), getattr(torch, "sparse", None))
""",
    ).splitlines()
    stands = "tinyt stands for PyTorch here and does not have it"
    assert said[0] == f"AttributeError module 'torch' has no attribute 'no_such': {stands}"
    assert said[1].endswith(f"'sparse': {stands} (tensors are strided)")
    assert said[2] == f"ModuleNotFoundError No module named 'torch.no_such': {stands}"
    assert said[3] == f"ModuleNotFoundError No module named 'torch.nn.no_such': {stands}"
    assert said[4].startswith("ModuleNotFoundError No module named 'torch._inductor'")
    assert said[5].startswith("ImportError cannot import name 'no_such' from 'torch'")
    assert said[6] == "False None"


SAFETENSORS = """
import torch
from safetensors import safe_open
from safetensors.torch import load, load_file, load_model, save, save_file, save_model

network = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4)).bfloat16()
state = network.state_dict()
save_file(state, "state.safetensors", metadata={"of": "a test"})
for found in (load_file("state.safetensors"), load(save(state))):
    assert found.keys() == state.keys()
    assert all(torch.equal(found[name], x) for name, x in state.items())
    assert all(found[name].dtype == x.dtype for name, x in state.items())
with safe_open("state.safetensors", framework="pt", device="cpu") as file:
    assert file.metadata() == {"of": "a test"}
    assert torch.equal(file.get_slice("0.weight")[1:3, :2], state["0.weight"][1:3, :2])
save_model(network, "network.safetensors")
other = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4)).bfloat16()
assert load_model(other, "network.safetensors") == (set(), [])
assert torch.equal(other[0].weight, network[0].weight)
"""


def test_the_safetensors_package_reads_and_writes(tmp_path: Path) -> None:
    assert run(tmp_path, SAFETENSORS) == ""


def test_other_packages_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "torch_utils.py").write_text("import torch\nmine = torch.ones(2)\n")
    (tmp_path / "torchlike").mkdir()
    (tmp_path / "torchlike" / "__init__.py").write_text("from . import torch\n")
    (tmp_path / "torchlike" / "torch.py").write_text("mine = 5\n")
    said = run(
        tmp_path,
        "import torch_utils, torchlike\nfrom torchlike.torch import mine\n"
        "print(torch_utils.mine, torchlike.torch.mine, torch_utils.__spec__.origin)\n",
    )
    assert said == f"tensor([1., 1.]) 5 {tmp_path / 'torch_utils.py'}\n"


def test_a_program_is_run_as_python_runs_it(tmp_path: Path) -> None:
    text = (
        "import sys, os\nprint(sys.argv[1:], __name__, os.path.isabs(__file__))\n"
        "print(sys.path[0] == os.path.dirname(os.path.realpath(__file__)))\n"
        "print(sys.modules['__main__'].__dict__ is globals(), __doc__, __spec__)\n"
    )
    want = "['--epochs', '3', '-h', '--help'] __main__ True\nTrue\nTrue None None\n"
    options = ("--epochs", "3", "-h", "--help")
    assert run(tmp_path, text, *options) == want
    assert run(tmp_path, text, *options, command=()) == want
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").touch()
    inner = "import sys, torch\nfrom . import __name__ as package\nprint(package, sys.argv[1:])\n"
    (tmp_path / "package" / "train.py").write_text(inner)
    outer = "import torch, runpy\nprint(torch.__name__)\n"
    done = run_any(tmp_path, outer, command=("run", "-m", "package.train"))
    assert done.stdout == f"package ['{tmp_path / 'program.py'}']\n"


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("import sys; sys.exit(3)", 3, ""),
        ("raise SystemExit('no')", 1, "no\n"),
        ("raise KeyboardInterrupt", 130, "KeyboardInterrupt\n"),
        ("x = (", 1, "SyntaxError: '(' was never closed\n"),
        ("def f():\n    1 / 0\nf()", 1, "ZeroDivisionError: division by zero\n"),
    ],
)
def test_how_a_program_ends(tmp_path: Path, text: str, code: int, said: str) -> None:
    done = run_any(tmp_path, text)
    assert done.returncode == code
    assert done.stderr.endswith(said)
    assert "cli" not in done.stderr  # no line of ours in the traceback


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    done = run_any(tmp_path, "", command=("run", str(tmp_path / "no.py")))
    assert done.returncode == 1
    assert done.stderr.endswith("No such file or directory: '" + str(tmp_path / "no.py") + "'\n")


CHILDREN = """
import multiprocessing
import helper
def work(queue):
    import torch.nn as nn
    queue.put((torch.__version__, str(nn.Linear(2, 3).weight.dtype)))
{head}
if __name__ == "__main__":
    {main}
    for method in ("spawn", "forkserver", "fork"):
        context = multiprocessing.get_context(method)
        queue = context.Queue()
        for target in (work, helper.work):
            child = context.Process(target=target, args=(queue,))
            child.start()
            print(*queue.get(timeout=100))
            child.join()
"""


@pytest.mark.parametrize("way", ["run", "import"])
def test_children_serve_it(tmp_path: Path, way: str) -> None:
    (tmp_path / "helper.py").write_text(
        "import torch\ndef work(queue):\n    queue.put((torch.__version__, str(torch.int8)))\n"
    )
    if way == "run":
        said = run(tmp_path, CHILDREN.format(head="import torch", main="pass"))
    else:
        text = "import tinyt.as_torch\n" + CHILDREN.format(head="import torch", main="pass")
        said = run(tmp_path, text.replace("import helper", "", 1).replace(", helper.work", ","))
    assert set(said.splitlines()) <= {"2.13.0+tinyt torch.float32", "2.13.0+tinyt torch.int8"}
    assert len(said.splitlines()) == (6 if way == "run" else 3)


def test_workers_of_a_loader(tmp_path: Path) -> None:
    said = run(
        tmp_path,
        """
import torch
from torch.utils.data import DataLoader, Dataset
class Squares(Dataset):
    def __len__(self): return 6
    def __getitem__(self, i):
        import torch as inside
        return inside.tensor(float(i * i)) + (inside.__version__ != "2.13.0+tinyt")
if __name__ == "__main__":
    for batch in DataLoader(Squares(), batch_size=3, num_workers=2): print(batch.tolist())
""",
    )
    assert said == "[0.0, 1.0, 4.0]\n[9.0, 16.0, 25.0]\n"


FAKE = """
def __getattr__(name): raise AttributeError(name)
__version__ = "1.0"
value = "theirs"
"""


def test_a_pytorch_that_is_installed_is_never_taken(tmp_path: Path) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text(FAKE)
    (tmp_path / "torch" / "only.py").touch()
    said = run(
        tmp_path,
        """
import torch
print(torch.__version__, hasattr(torch, "value"))
try: import torch.only
except ImportError as error: print(type(error).__name__)
""",
    )
    assert said == "2.13.0+tinyt False\nModuleNotFoundError\n"


def test_named_packages_get_pytorch(tmp_path: Path) -> None:
    for name in ("torch", "theirs", "ours"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").touch()
    (tmp_path / "torch" / "__init__.py").write_text(FAKE + "from . import nn\n")
    (tmp_path / "torch" / "nn.py").write_text("import torch\nname = torch.__name__ + ' nn'\n")
    (tmp_path / "torch" / "late.py").write_text("from torch import nn\n")
    package = (
        "import torch, importlib\nfrom torch import nn\nimport torch.nn as nn2\n"
        "def version():\n    import torch as t\n"
        "    return t.__version__, nn.__file__ == nn2.__file__, t is torch,"
        " importlib.import_module('torch.nn') is nn\n"
    )
    for name in ("theirs", "ours"):
        (tmp_path / name / "__init__.py").write_text(package)
    late = "def late():\n    import torch.late\n    return torch.late.nn.name\n"
    (tmp_path / "theirs" / "__init__.py").write_text(package + late)
    said = run(
        tmp_path,
        """
import theirs, ours, torch, sys
import torch.nn.functional as F
from torch.utils import data
import tinyt, importlib
print(theirs.version(), ours.version(), theirs.late(), torch.__version__)
assert F is tinyt.nn.functional and torch.nn is tinyt.nn is importlib.import_module("torch.nn")
for name in ("only", "late"):
    try: importlib.import_module("torch." + name)
    except ImportError: print("none")
    try: exec("import torch." + name)
    except ImportError: print("none")
    try: exec("from torch import " + name)
    except ImportError: print("none")
""",
        command=("run", "--pytorch-for", "theirs"),
    )
    theirs, ours = "('1.0', True, True, True)", "('2.13.0+tinyt', True, True, True)"
    assert said == f"{theirs} {ours} torch nn 2.13.0+tinyt\n" + "none\n" * 6


def test_a_name_that_is_no_package(tmp_path: Path) -> None:
    done = run_any(tmp_path, "", command=("run", "--pytorch-for", "torch.nn"))
    assert done.returncode == 1
    assert "pytorch_for takes names of packages" in done.stderr


def test_imported_too_late_and_removed(tmp_path: Path) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text(FAKE)
    program = tmp_path / "program.py"
    program.write_text(
        """
import sys, warnings
sys.path.insert(0, ".")
import torch as theirs
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import tinyt.as_torch
print([str(w.message)[:39] for w in caught], caught[0].filename == __file__)
import torch, tinyt
assert torch.ones is tinyt.ones and theirs.__version__ == "1.0" and tinyt.as_torch.is_installed()
tinyt.as_torch.install()
assert sys.meta_path.count(sys.meta_path[0]) == 1
tinyt.as_torch.remove()
tinyt.as_torch.remove()
import torch
assert torch is theirs and str(tinyt.float32) == "tinyt.float32"
assert not tinyt.as_torch.is_installed()
""",
    )
    done = subprocess.run(
        [sys.executable, str(program)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stderr == ""
    assert done.stdout == "['as_torch: PyTorch was imported before; '] True\n"


def test_importing_tinyt_serves_nothing() -> None:
    code = (
        "import sys, tinyt\n"
        "late = {'tinyt.as_torch', 'tinyt.stand_in', 'einops', 'multiprocessing', 'torch'}\n"
        "print(sorted(late & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "[]\n"


def test_versions_compare_as_numbers() -> None:
    version = TorchVersion("2.13.0+tinyt")
    for smaller in ("2.9", "2.13", "2.13.0", (2, 13), (2, 13, 0), (1,), ["2", "12", "9"], "v2.1"):
        assert version > smaller
        assert version >= smaller
        assert version != smaller
        assert not version <= smaller
    for greater in ("2.13.1", "2.100", (2, 14), "3", "10.0", "2.13.0+u"):
        assert version < greater
    assert version == "2.13.0+tinyt" == version
    assert hash(version) == hash("2.13.0+tinyt")
    assert version > "abc" or version < "abc"
    assert version != 3
    with pytest.raises(TypeError):
        version > 3  # noqa: B015
