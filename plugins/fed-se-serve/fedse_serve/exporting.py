"""Everything on record in the form of another tool: written to a file, or sent to a collector."""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from fedse.cli.phrases import counted
from fedse.errors import ConfigError, RunError
from fedse_serve.bring_out import scores_of, spans_of
from fedse_serve.records import Records
from fedse_serve.sending import batches, post, write_lines
from fedse_serve.settings import ServiceSettings
from fedse_serve.stored import conversations

Form = Literal["otel", "langfuse"]


def export_records(
    records: Records,
    settings: ServiceSettings,
    *,
    out: str,
    form: Form,
    texts: bool,
    environ: Mapping[str, str],
) -> str:
    """Every session is where `out` says; what was done, in words."""
    told, address = conversations(records), out.startswith(("http://", "https://"))
    if form == "langfuse":
        if address:
            raise ConfigError(
                "scores for Langfuse are written to a file, and --out is an address",
                hint="name a file: --out scores.jsonl",
            )
        scores = (score for one in told for score in scores_of(one, texts=texts))
        return f"{counted(write_lines(Path(out), scores), 'score')} in {out}"
    requests = batches(
        (one.session.application, span)
        for one in told
        for span in spans_of(one, settings, texts=texts)
    )
    if not address:
        return f"{counted(write_lines(Path(out), requests), 'line')} of spans in {out}"
    sent = post(out, requests, environ)
    if sent.refused:
        raise RunError(
            f"the collector took {sent.spans - sent.refused} of {counted(sent.spans, 'span')},"
            f" and refused the others: {sent.why or 'it does not say why'}",
            hint="its own log has more; spans that it took may be sent again",
        )
    return f"{counted(sent.spans, 'span')} sent"
