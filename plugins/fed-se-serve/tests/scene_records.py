"""Sessions, turns and an encoder for the tests of what is recorded."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedse.agent.prompt import Encoder
from fedse.redact.episode import Redactor
from fedse.redact.own import word_finder
from fedse.store.sealing import UNSEALED, Seal
from fedse_serve.records import Records, open_records
from fedse_serve.rows import NewSession, TurnRecord

END = "\x03"
"""The end token of the tokenizer below, which has one token per character."""
NOON = 1_800_000_000.0
PLAIN, CANARY = "a" * 64, "b" * 64


class Letters:
    """One token per character."""

    eos_token, eos_token_id = END, ord(END)

    def apply_chat_template(self, conversation: Any, **options: Any) -> str:
        text = "".join(f"<{m['role']}>{m['content']}{END}" for m in conversation)
        return text + ("<assistant>" if options.get("add_generation_prompt") else "")

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        return [*map(ord, text)]

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool) -> str:
        text = "".join(map(chr, token_ids))
        return text.replace(END, "") if skip_special_tokens else text


ENCODER = Encoder(Letters())


class Clock:
    """Stands still until it is set."""

    def __init__(self, now: float = NOON) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def ids(text: str) -> list[int]:
    return [*map(ord, text)]


def text(numbers: Sequence[int]) -> str:
    return "".join(map(chr, numbers))


def opened(
    folder: Path,
    *,
    seal: Seal = UNSEALED,
    redact: Redactor | None = None,
    held_out: float = 0.0,
    clock: Clock | None = None,
) -> Records:
    return open_records(folder, seal=seal, redact=redact, held_out=held_out, clock=clock or Clock())


def names_redactor(folder: Path, *names: str, encoder: Encoder | None = ENCODER) -> Redactor:
    """Finds these names."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "names.txt"
    file.write_text("\n".join(names))
    return Redactor(word_finder(file), encoder)


def new(session: str = "s1", *, person: str | None = None, learn: bool = True) -> NewSession:
    return NewSession(session, person, "shop", "stable", PLAIN, learn)


def turn(number: int, prompt: str, reply: str, **changed: Any) -> TurnRecord:
    """Turn `number` of session s1; the reply ends with the end token."""
    facts: dict[str, Any] = {
        "inference": f"i{number}",
        "session": "s1",
        "at": NOON + number,
        "arm": "stable",
        "adapter": PLAIN,
        "template": "t" * 64,
        "sampling": {"temperature": 1.0},
        "prompt_ids": ids(prompt),
        "sampled_ids": ids(reply + END),
        "log_probs": [-0.5] * (len(reply) + 1),
        "observation": prompt.rpartition("<user>")[2].partition(END)[0],
        "reply": reply,
        "finish": "stop",
    }
    return TurnRecord(**{**facts, **changed})


def conversation(*said: tuple[str, str]) -> list[TurnRecord]:
    """A session in which each prompt is the one before, the reply to it, and what is asked next."""
    turns: list[TurnRecord] = []
    prompt, shown, replies = "", (), ()
    for number, (asked, reply) in enumerate(said, 1):
        prompt += f"<user>{asked}{END}<assistant>"
        before = {"earlier_shown": shown, "earlier_said": replies}
        turns.append(turn(number, prompt, reply, **before))
        prompt += reply + END
        shown, replies = (*shown, asked), (*replies, reply)
    return turns
