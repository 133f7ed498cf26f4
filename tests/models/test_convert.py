"""What is written says nothing about the machine and the versions that wrote it."""

import json
from pathlib import Path

from tests.needs import needs

needs("torch", "transformers")

from fedse.models.convert import OF_THE_WRITER, make_canonical


def test_settings_do_not_depend_on_their_writer(tmp_path: Path):
    kept = {"vocab_size": 8, "dtype": "bfloat16"}
    files = [tmp_path / name for name in ("a.json", "b.json")]
    files[0].write_text(json.dumps({**kept, **dict.fromkeys(OF_THE_WRITER, "5.22.2")}))
    files[1].write_text(json.dumps(dict(reversed(kept.items()))))
    for file in files:
        make_canonical(file)
    assert files[0].read_bytes() == files[1].read_bytes()
    assert json.loads(files[0].read_text()) == kept
