"""What every section of an experiment file has in common."""

import json
from typing import Annotated, Any, NamedTuple

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    ValidationError,
)
from pydantic_core import CoreSchema, PydanticCustomError
from pydantic_core.core_schema import no_info_after_validator_function

from fedse.plugins import load_variant, packaged, plugin_names, unknown

Positive = Annotated[int, Field(gt=0)]
Fraction = Annotated[float, Field(ge=0, le=1)]


class Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class OneOf(NamedTuple):
    """A name that is built in, or added by an installed package under an entry-point group."""

    built_in: tuple[str, ...]
    group: str

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return no_info_after_validator_function(self.checked, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {**handler(schema), "enum": list(self.names)}

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.built_in, *plugin_names(self.group))

    def checked(self, name: str) -> str:
        # A built-in name needs no look at what is installed.
        if name in self.built_in or ":" in name or name in self.names:
            return name
        package = packaged(self.group).get(name)
        missing = f"is in the package {package}, which is not installed: pip install {package}"
        raise PydanticCustomError("one_of", missing if package else unknown(name, self.names))

    def variant(self, name: str) -> Any:
        """What a package or a module offers under `name`; None for a built-in name."""
        return None if name in self.built_in else load_variant(self.group, name)


def one_of(*built_in: str, group: str) -> OneOf:
    return OneOf(built_in, group)


Options = dict[str, Any]
"""Settings of a variant that is not built in; it checks them itself."""


def require_options(where: str, variant: Any, options: Options) -> None:
    """The options are those that the model `Options` of the variant allows; without one, none."""
    model = getattr(variant, "Options", None)
    if model is None:
        if options:
            raise ValueError(f"{where} has no setting {next(iter(options))!r}: it takes no options")
        return
    try:
        # JSON, because only there strict mode takes a list for a tuple.
        model.model_validate_json(json.dumps(options), strict=True)
    except ValidationError as error:
        told = [(".".join(map(str, one["loc"])), one["msg"]) for one in error.errors()]
        raise ValueError("; ".join(f"{where}.{key}: {message}" for key, message in told)) from None
