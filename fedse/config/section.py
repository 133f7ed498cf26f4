"""What every section of an experiment file has in common."""

from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError
from pydantic_core.core_schema import no_info_after_validator_function

from fedse.plugins import plugin_names, unknown

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
        if name not in self.built_in and name not in self.names:
            raise PydanticCustomError("one_of", unknown(name, self.names))
        return name


def one_of(*built_in: str, group: str) -> OneOf:
    return OneOf(built_in, group)
