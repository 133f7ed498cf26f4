"""Vega-Lite for the pictures of the docs: their colours, and the drawing as SVG."""

import json
from collections.abc import Mapping
from typing import Any

# Of Okabe and Ito, to be told apart by everybody.
BLUE, VERMILLION, GREY = "#0072B2", "#D55E00", "#767676"
SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"


def svg_of(figure: Mapping[str, Any]) -> str:
    """The drawing as text. Needs `pip install vl-convert-python`."""
    import vl_convert

    drawn: str = vl_convert.vegalite_to_svg(json.dumps(figure))
    return drawn
